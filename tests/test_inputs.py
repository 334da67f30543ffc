"""What a user names is read if it ends, and refused in one line if it does not or is no file."""

import os
import socket
import stat
import threading
import time

import pytest

from nicscope import inputs
from nicscope.errors import TraceError
from nicscope.inputs import Input, read_whole

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def stdin():
    """Call it with a descriptor, and it is the standard input until the test ends."""
    saved = os.dup(0)
    yield lambda file: os.dup2(file, 0)
    os.dup2(saved, 0)
    os.close(saved)


def pipe_of(content):
    """The reading end of a pipe into which ``content`` is being written, then closed."""
    reading, writing = os.pipe()

    def write():
        with os.fdopen(writing, "wb") as file:
            file.write(content)

    threading.Thread(target=write, daemon=True).start()
    return reading


def written(path, content=CONTENT):
    path.write_bytes(content)
    return path


def refusal(path):
    with pytest.raises(TraceError) as caught:
        Input(path, TraceError)
    return str(caught.value)


def test_a_file_is_read_in_pieces_after_its_head_was_looked_at(tmp_path):
    with Input(written(tmp_path / "f"), TraceError) as source:
        assert source.head(4) == CONTENT[:4]
        assert source.head(1000) == CONTENT[:1000]
        assert source.position == 0
        assert source.take(10) == CONTENT[:10]
        assert source.take(1 << 30) == CONTENT[10:]
        assert source.take(1) == b""
        assert source.position == source.byte_count == len(CONTENT)


def fifo(path):
    os.mkfifo(path)

    def write():
        time.sleep(0.2)  # the reader is there first
        path.write_bytes(CONTENT)

    threading.Thread(target=write, daemon=True).start()
    return path


def process_substitution(path):  # noqa: ARG001 - it has no name in any folder
    return f"/dev/fd/{pipe_of(CONTENT)}"


def socket_pair(path):  # noqa: ARG001
    one, other = socket.socketpair()
    threading.Thread(target=lambda: (one.sendall(CONTENT), one.close()), daemon=True).start()
    return f"/proc/self/fd/{other.detach()}"


@pytest.mark.parametrize("make", [fifo, process_substitution, socket_pair])
def test_a_stream_is_read_to_its_end(make, tmp_path):
    name = make(tmp_path / "f")

    with Input(name, TraceError) as source:
        assert source.byte_count is None
        assert source.head(3) == CONTENT[:3]
        assert source.take(1 << 30) == CONTENT


@pytest.mark.parametrize("make", [fifo, process_substitution, socket_pair, written])
def test_at_rest_all_of_it_can_be_sought(make, tmp_path):
    with Input(make(tmp_path / "f"), TraceError) as source:
        source.head(10)
        path = source.at_rest()
        for _ in range(2):
            with path.open("rb") as file:
                assert file.seek(1000) == 1000
                assert file.read() == CONTENT[1000:]
        assert source.byte_count == len(CONTENT)
        left = [p.name for p in tmp_path.iterdir()]
        assert left in ([], ["f"])  # what was copied has no name


def test_standard_input_is_a_pipe_or_a_file(tmp_path, stdin):
    stdin(pipe_of(CONTENT))
    for name in ("-",):
        assert read_whole(name, 1 << 20, TraceError) == CONTENT
    with written(tmp_path / "f").open("rb") as file:
        stdin(file.fileno())
        with Input("-", TraceError) as source:
            assert source.name == "standard input"
            assert source.at_rest().read_bytes() == CONTENT


def test_of_a_standard_input_that_somebody_has_begun_the_rest_is_read(tmp_path, stdin):
    with written(tmp_path / "f").open("rb", buffering=0) as file:
        file.read(1000)
        stdin(file.fileno())
        with Input("/dev/stdin", TraceError) as source:
            assert source.at_rest().read_bytes() == CONTENT[1000:]


def test_a_standard_input_that_does_not_block_is_waited_for(stdin):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    stdin(reading)
    threading.Timer(0.2, lambda: (os.write(writing, b"late"), os.close(writing))).start()

    assert read_whole("-", 10, TraceError) == b"late"


def test_a_closed_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)  # whatever descriptor 0 is by now

    assert refusal("-") == "standard input: is closed; name a file"


def test_a_descriptor_that_is_not_open_is_refused():
    assert refusal("/dev/fd/987") == "/dev/fd/987: cannot be read: Bad file descriptor"


@pytest.mark.timeout(60)
def test_a_fifo_that_nobody_writes_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "WRITER_S", 0.3)
    os.mkfifo(tmp_path / "f")

    assert "is a FIFO that nobody has written to for 0.3 s" in refusal(tmp_path / "f")


def test_a_writer_that_says_nothing_for_long_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "WRITER_S", 0.3)
    os.mkfifo(tmp_path / "f")

    def write():
        with (tmp_path / "f").open("wb") as file:
            time.sleep(1)
            file.write(b"at last")

    threading.Thread(target=write, daemon=True).start()

    assert read_whole(tmp_path / "f", 100, TraceError) == b"at last"


def devices(tmp_path):
    for name, kind, major, minor in (
        ("null", stat.S_IFCHR, 1, 3),
        ("zero", stat.S_IFCHR, 1, 5),
        ("random", stat.S_IFCHR, 1, 9),
        ("block", stat.S_IFBLK, 7, 200),
    ):
        os.mknod(tmp_path / name, kind | 0o600, os.makedev(major, minor))
        yield tmp_path / name


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else makes devices")
def test_devices_are_refused_unopened_by_link_and_as_standard_input(tmp_path, stdin):
    for path in devices(tmp_path):
        link = tmp_path / f"{path.name}.toml"
        link.symlink_to(path)
        for name in (path, link):
            assert refusal(name) == f"{name}: is a device; name a file, or pipe one in"
    stdin(os.open("/dev/null", os.O_RDONLY))
    assert refusal("-") == "standard input: is a device; name a file, or pipe one in"


def test_a_terminal_is_refused(stdin):
    _, ours = os.openpty()
    stdin(ours)

    assert refusal("-") == "standard input: is a terminal; name a file, or pipe one in"


def test_folders_missing_files_and_odd_names_are_refused(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: is a folder; name a file"
    assert refusal(tmp_path / "none") == f"{tmp_path}/none: no such file; check the name"
    assert refusal("a\0b") == "a\\x00b: no such file; check the name"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "cannot be read: Too many levels of symbolic links" in refusal(tmp_path / "loop")
    assert "cannot be read: File name too long" in refusal(tmp_path / ("x" * 300))


def test_a_name_that_is_not_utf_8_is_read_and_printed_with_escapes(tmp_path):
    path = written(tmp_path / os.fsdecode(b"\xff\x1b[2J\n"))

    with Input(path, TraceError) as source:
        assert source.name == f"{tmp_path}/\\xff\\x1b[2J\\n"
        assert source.at_rest().read_bytes() == CONTENT
        str(source.at_rest()).encode()  # libraries take it
    path.unlink()
    assert refusal(path).startswith(f"{tmp_path}/\\xff\\x1b[2J\\n: no such file")


def test_no_more_is_read_of_a_small_file_than_it_may_have(tmp_path):
    path = written(tmp_path / "f", b"x" * 5000)

    assert read_whole(path, 5000, TraceError) == b"x" * 5000
    with pytest.raises(TraceError, match="is longer than 4 KiB; is it the right file"):
        read_whole(path, 4096, TraceError)


def test_a_stream_is_kept_up_to_a_bound_and_as_far_as_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "KEPT_BYTES", 1 << 20)
    long = Input(f"/dev/fd/{pipe_of(bytes(2 << 20))}", TraceError)
    with long, pytest.raises(TraceError, match="is longer than 1 MiB, which is all that is kept"):
        long.at_rest()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    short = Input(f"/dev/fd/{pipe_of(CONTENT)}", TraceError)
    with short, pytest.raises(TraceError, match=r"cannot be kept in .*/nowhere: No such file"):
        short.at_rest()


def test_nothing_stays_open(tmp_path):
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - as it is
    for make in (written, process_substitution):
        name = make(tmp_path / "f")
        with Input(name, TraceError) as source:
            source.at_rest()
        source.close()
        if name != tmp_path / "f":
            os.close(int(name.rpartition("/")[2]))
    with pytest.raises(TraceError):
        Input(tmp_path, TraceError)

    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
