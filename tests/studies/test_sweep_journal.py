"""What a killed sweep leaves, and what is made of it."""

import os
import stat
import zlib

import msgspec
import pytest

from nicscope.errors import OutputError, StudyError
from nicscope.outputs import log
from nicscope.studies.sweep.grid import ask
from nicscope.studies.sweep.sweeping import Sweep, sweep
from nicscope.studies.sweep.table import (
    TALLIED,
    Record,
    TraceIdentity,
    difference_of_table,
    identity_of,
    journal_path,
    open_journal,
)
from nicscope.traces.reader import open_trace
from nicscope.traces.writer import write_trace
from refusals import refused

RECORDS = [Record(0, number, [number, None, 7 * number]) for number in range(5)]
TRACE = TraceIdentity(name="t", requests=40, sha256="00")


def write(path):
    columns = {"time_ns": [0, 1], "node": [0, 0], "pid": [1, 1], "op": ["send", "recv"]}
    write_trace(path, columns | {"address": [4096, 8192], "length": [100, 200]})


def identity(grid=("entries=64,128",), design="utlb", traces=(TRACE,), kinds=True, platform=None):
    points = ask(design, platform, grid, many=False)
    return identity_of(points, traces, points.platforms(), kinds)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.parquet.journal"


@pytest.fixture
def written(path):
    with open_journal(path, identity()) as journal:
        journal.append(RECORDS[:2])
        journal.append(RECORDS[2:])
    return path


def test_a_line_torn_anywhere_is_dropped_and_the_next_follows_the_last_whole_one(written):
    with open_journal(written, identity()) as journal:
        assert (journal.records, journal.kept) == (RECORDS, 5)
    content = written.read_bytes()
    last = content.rindex(b"\n", 0, len(content) - 1) + 1
    for length in range(last, len(content)):
        written.write_bytes(content[:length])
        with open_journal(written, identity()) as journal:
            assert journal.records == RECORDS[:4]
            journal.append(RECORDS[4:])
        assert written.read_bytes() == content


def test_a_last_line_of_which_a_byte_is_wrong_is_dropped(written):
    content = written.read_bytes()
    written.write_bytes(content[:-3] + b"9" + content[-2:])

    with open_journal(written, identity()) as journal:
        assert journal.records == RECORDS[:4]


def test_a_torn_first_line_is_a_journal_that_never_began(written):
    content = written.read_bytes()
    written.write_bytes(content[:50])

    with open_journal(written, identity()) as journal:
        assert journal.records == []
        journal.append(RECORDS)
    with open_journal(written, identity()) as journal:
        assert journal.records == RECORDS


def test_a_journal_without_records_does_not_stay(path):
    with open_journal(path, identity()):
        assert path.exists()

    assert not path.exists()


def line(text):
    return b"%08x%s\n" % (zlib.crc32(text), text)


def begun(of):
    return line(msgspec.json.encode(of))


@pytest.mark.parametrize(
    "content",
    [
        b"dear diary\n",
        b"my precious notes",
        b" ",
        b"\0" * 100,
        begun(identity())[:50] + b"and my notes",
        begun(identity())[:-1] + b" ",
        begun(identity())[1:50],
        begun(identity(design="utlb-shared"))[:50],
    ],
    ids=["line", "text", "blank", "zeros", "more", "other end", "other begin", "other sweep"],
)
def test_a_file_that_is_no_beginning_of_this_journal_is_refused_and_kept(path, content):
    path.write_bytes(content)

    with refused(StudyError, "journal", "move it away"), open_journal(path, identity()):
        pass

    assert path.read_bytes() == content


@pytest.mark.parametrize("to", ["notes", "nothing", "journal"])
def test_a_link_is_refused_as_a_journal_and_stays_as_what_it_leads_to_does(tmp_path, path, to):
    if to == "notes":
        (tmp_path / to).write_bytes(b"my precious notes")
    if to == "journal":
        (tmp_path / to).write_bytes(begun(identity()))
    path.symlink_to(to)
    before = {each.name: each.is_file() and each.read_bytes() for each in tmp_path.iterdir()}

    with refused(OutputError, "regular file"), open_journal(path, identity()):
        pass

    assert path.is_symlink()
    after = {each.name: each.is_file() and each.read_bytes() for each in tmp_path.iterdir()}
    assert after == before


OTHERS = {
    "its entries is 64,128, here 64,256": {"grid": ["entries=64,256"]},
    "its grid does not vary ways, this one does": {"grid": ["entries=64,128", "ways=1"]},
    "its grid varies entries, this one does not": {"grid": ["ways=1"]},
    "its design's name is utlb, here utlb-shared": {"design": "utlb-shared"},
    "its --no-kinds is false, here true": {"kinds": False},
    "its platform is utlb-prototype, here linux-host": {"platform": "linux-host"},
    "its traces are t, here u": {"traces": [TraceIdentity(name="u", requests=1, sha256="")]},
    "its trace t had other content (40 requests)": {
        "traces": [TraceIdentity(name="t", requests=40, sha256="11")]
    },
}


@pytest.mark.parametrize("difference", OTHERS)
def test_another_sweeps_journal_is_refused_with_the_difference(written, difference):
    before = written.read_bytes()

    with refused(StudyError, difference), open_journal(written, identity(**OTHERS[difference])):
        pass

    assert written.read_bytes() == before


def test_the_order_of_the_keys_and_the_program_matter_too(monkeypatch):
    one, other = ["entries=64", "ways=1"], ["ways=1", "entries=64"]
    assert "order entries, ways" in identity(other).difference(identity(one))

    here = identity()
    monkeypatch.setattr("nicscope.kernel.fingerprint.package_stamp", lambda: "feedfeedfeedfeed")
    assert "source feedfeedfeed)" in here.difference(identity())


def test_a_platform_with_other_costs_is_told(tmp_path):
    file = tmp_path / "mine.toml"
    text = '[costs]\nni_check = {{ value = {}, unit = "us", evidence = "assumed", source = "x" }}\n'
    file.write_text(text.format(1))
    one = identity(platform=str(file))
    file.write_text(text.format(2))

    assert "platform mine had other costs" in identity(platform=str(file)).difference(one)


def test_two_at_once_and_what_cannot_be_made_are_refused(written, tmp_path):
    with open_journal(written, identity()), refused(StudyError, "another sweep"):
        open_journal(written, identity()).__enter__()
    with refused(OutputError, "No such file"):
        open_journal(tmp_path / "none" / "o.journal", identity()).__enter__()


@pytest.fixture
def small_sweep(tmp_path):
    """A sweep of two designs over two requests."""
    write(tmp_path / "t.parquet")
    grid = ask("utlb", None, ["entries=64,128"], many=False)
    return Sweep(grid, [("t", open_trace(tmp_path / "t.parquet"))], tmp_path / "out.parquet")


@pytest.mark.parametrize(
    "record",
    [
        b"[0,7,[1,2,3]]",  # of a design that the grid has not
        b"[3,0,[1,2,3]]",
        b"[-1,0,[1,2,3]]",
        b"[0,-2,[1,2,3]]",
        b"[0,0,[1]]",
        b"[0,0,[%s]]" % b",".join([b"9223372036854775808"] * len(TALLIED)),
        b"[0,0,[%s]]" % b",".join([b"-1"] * len(TALLIED)),
        b"[0,0]",
        b'["a",0,[]]',
        b"{}",
        b"[" * 100_000,
        b'[0,0,["\xff"]]',
    ],
    ids=lambda record: record[:20].decode(errors="replace"),
)
def test_a_whole_line_that_is_no_record_of_the_sweep_is_told_and_kept(record, small_sweep):
    def stop(*_):  # one chunk is in the journal
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(small_sweep, workers=1, watch=stop)
    journal = journal_path(small_sweep.out)
    content = journal.read_bytes().partition(b"\n")[0] + b"\n" + line(record)
    journal.write_bytes(content)

    with refused(StudyError, f"{journal}: ", "remove the file"):
        sweep(small_sweep, workers=1)

    assert journal.read_bytes() == content
    assert not small_sweep.out.exists()


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_what_is_no_regular_file_is_refused_at_once_as_journal_and_as_table(kind, path):
    make = {
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "device": lambda: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    }
    if kind == "device" and os.geteuid() != 0:
        pytest.skip("needs root: nobody else makes devices")
    make[kind]()

    with refused(OutputError, "regular file"), open_journal(path, identity()):
        pass
    with refused(StudyError, "no sweep's table"):
        difference_of_table(path, identity())


def test_a_journal_beyond_all_bounds_is_not_read(path):
    with path.open("wb") as file:
        file.truncate(2 << 30)  # a hole: it takes no room

    with refused(StudyError, "2,147,483,648 bytes"), open_journal(path, identity()):
        pass


def test_a_table_whose_bits_have_flipped_is_not_taken_for_the_finished_one(small_sweep):
    out = small_sweep.out
    sweep(small_sweep, workers=1)
    assert sweep(small_sweep, workers=1).was_there
    good = out.read_bytes()
    place = good.index(b"utlb-prototype")  # a value, in a page
    out.write_bytes(good[:place] + b"U" + good[place + 1 :])

    with refused(StudyError, "damaged", "CRC", "move it away"):
        sweep(small_sweep, workers=1)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_journal_that_its_owner_removed_before_we_locked_it_is_not_taken(
    written, monkeypatch, is_made_anew
):
    def ends(*_):
        written.unlink()
        if is_made_anew:
            written.write_bytes(b"another's")

    monkeypatch.setattr(log.fcntl, "flock", ends)
    with refused(StudyError, "another sweep"), open_journal(written, identity()):
        pass

    assert written.exists() == is_made_anew
