"""Every command that reads a file: from whatever holds it, and in one line from what does not."""

import json
import os
import re
import threading

import pytest

from every_command import COMMANDS, INPUTS, RUNS, made
from nicscope import inputs
from nicscope.cli.app import main
from nicscope.errors import LONGEST
from refusals import refused_command

# Endings of what commands do not take from a stream: folders and programs.
NAMED = ("", ".py")
# By command, parameter and kind of the file: the first run that reads such a file there.
READINGS = {
    f"{run.command} {parameter} {kind}": (run.plain, kind)
    for run in reversed(RUNS)
    if not run.heavy
    for parameter, kind, _ in run.places
    if kind in INPUTS and INPUTS[kind][0] not in NAMED
}
QUICK = [
    *("trace info file trace", "trace convert source csv", "designs show name design"),
    *("replay trace trace", "replay designs design", "replay platform platform"),
]


def plain(text):
    """The numbers of a JSON text, by what they say; texts may tell the file's name."""

    def numbers(value):
        if isinstance(value, dict):
            return {key: numbers(part) for key, part in value.items() if key != "command"}
        if isinstance(value, list):
            return [numbers(part) for part in value]
        return None if isinstance(value, str) else value

    return numbers(json.loads(text))


def from_pipe(content, folder):  # noqa: ARG001
    reading, writing = os.pipe()
    threading.Thread(target=lambda: _fill(writing, content), daemon=True).start()
    return f"/dev/fd/{reading}"


def _fill(file, content):
    with os.fdopen(file, "wb") as pipe:
        pipe.write(content)


def from_fifo(content, folder):
    path = folder / "fifo.toml"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return path


def from_odd_name(content, folder):
    path = folder / os.fsdecode(b"\xff\x1b[31m.toml")
    path.write_bytes(content)
    return path


def from_standard_input(content, folder):
    os.dup2(int(from_pipe(content, folder).rpartition("/")[2]), 0)
    return "-"


@pytest.fixture
def _own_stdin():
    saved = os.dup(0)
    yield
    os.dup2(saved, 0)
    os.close(saved)


@pytest.mark.usefixtures("_own_stdin")
@pytest.mark.parametrize("name", READINGS)
def test_a_command_reads_the_same_from_a_file_and_from_streams(name, tmp_path, capsys):
    run, kind = READINGS[name]
    assert main(run.words(tmp_path, "--json")) in (0, 1), capsys.readouterr().err
    expected = plain(capsys.readouterr().out)

    sources = [from_pipe, from_fifo, from_odd_name, from_standard_input]
    for make in sources if name in QUICK else sources[-1:]:
        folder = tmp_path / make.__name__
        folder.mkdir()
        given = make(made(kind, tmp_path).read_bytes(), folder)
        words = run.words(folder, "--json", **{kind: given})
        assert main(words) in (0, 1), (make, capsys.readouterr().err)
        out, err = capsys.readouterr()
        assert plain(out) == expected, make
        assert err.isprintable() or err.strip().isprintable()


def unreadable(folder):
    """(name, what is said of it) of things that are no files."""
    os.mkfifo(folder / "fifo.toml")
    yield folder / "fifo.toml", "is a FIFO that nobody has written to"
    yield folder, "is a folder"
    yield folder / "missing.toml", "no such f"  # a folder of traces is missing as well
    if os.geteuid() == 0:
        for number, name in ((3, "null"), (5, "zero")):
            os.mknod(folder / name, 0o020600, os.makedev(1, number))
            (folder / f"{name}.toml").symlink_to(folder / name)
            yield folder / f"{name}.toml", "is a device"


@pytest.mark.parametrize("name", READINGS)
def test_a_command_refuses_what_is_no_file_in_one_line(name, tmp_path, monkeypatch, capsys):
    run, kind = READINGS[name]
    monkeypatch.setattr(inputs, "WRITER_S", 0.1)
    folder = tmp_path / "odd"
    folder.mkdir()
    for given, words in unreadable(folder):
        if run.command == "reproduce" and given == folder:
            words = "holds no traces"
        refused_command(capsys, run.words(tmp_path, **{kind: given}), given, words)
    assert list(tmp_path.glob("out/*")) == []


@pytest.mark.parametrize("name", QUICK)
def test_an_error_is_one_printable_line_of_bounded_length(name, tmp_path, capsys):
    odd = os.fsdecode(b"/\xff\x1b[2J\n" + b"x" * 240)
    path = tmp_path / ("y" * 200) / ("z" * 200) / odd[1:]
    path.parent.mkdir(parents=True)
    path.write_bytes(b'\x1b[2J = "' + b"\xc2\x9b" * 50_000 + b'"\n' + b"[[[\n")

    run, kind = READINGS[name]
    assert_printable(refused_command(capsys, run.words(tmp_path, **{kind: path})))


def test_clicks_own_errors_are_one_printable_line_too(capsys):
    assert_printable(refused_command(capsys, ["replay", "--\x1b[2J" + "x" * 100_000]))


def assert_printable(line):
    assert line[:-1].isprintable()
    assert len(line) <= LONGEST + len("nicscope: \n")
    line.encode()


@pytest.mark.usefixtures("_own_stdin")
def test_standard_input_is_there_once(tmp_path, capsys):
    from_standard_input(b'scheme = "utlb"\nentries = 64\n', tmp_path)

    refused_command(capsys, ["replay", "-", "--design", "-"], "standard input", "empty file")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"x = " + b"-" * 200_000 + b"1", "program.py: "),
        (b"#" * (5 << 20), "4096 KiB"),
        (b"x = 1\n", "main()"),
    ],
)
def test_a_file_that_is_no_program_is_refused_in_one_line(content, fact, tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_bytes(content)

    refused_command(capsys, ["simulate", path], fact)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x = [1,\n", "SyntaxError: '[' was never closed"),
        (b"\0\0", "null bytes"),
        (b"\xff\xfe", "can't decode byte 0xff"),
        (b"(" * 100_000, "too many nested parentheses"),
    ],
)
def test_a_program_that_cannot_be_parsed_is_shown_as_python_shows_it(
    content, words, tmp_path, capsys
):
    path = tmp_path / "program.py"
    path.write_bytes(content)

    assert main(["simulate", str(path)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert words in err.splitlines()[-1]
    assert "nicscope" not in err.replace(str(path), "")
    assert len(err) < 1000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a = " + b"[" * 5000, "is nested too deeply"),
        (b"a = " + b"{a = " * 5000, "is nested too deeply"),
        (b".".join([b"a"] * 20_000) + b" = 1", "more than 200 dots"),
        (b"a = 0x" + b"f" * 5000, "an integer of more than 64 bits"),
        (b"a = " + b"9" * 5000, "is not TOML"),
        (b"a = 1." + b"9" * 100_000, "a number of more than 40 digits"),
        (b"a = 1e99999999999999999999", "a number is too large to read"),
        (b"a = 1\n" * 100_000, "is longer than 256 KiB"),
        (b"\xff", "is not a text file in UTF-8"),
        (b'scheme = "utlb"\nentries = [[[1]]]\n', ""),
        (b"[costs]\ninterrupt = { value = 1, unit = {}, evidence = [], source = {} }\n", ""),
    ],
)
@pytest.mark.parametrize("command", ["designs", "platforms"])
def test_toml_that_is_odd_is_one_line(command, content, words, tmp_path, capsys):
    path = tmp_path / "odd.toml"
    path.write_bytes(content)

    refused_command(capsys, [command, "show", path], f"{path}: ", words)


def test_every_command_that_opens_a_file_is_in_the_table():
    """What a command's help calls TRACE, FILE, DIR of traces or a .toml file, it opens."""
    opening = set()
    for name, command in COMMANDS.items():
        for parameter in command.params:
            shown = f"{parameter.metavar} {getattr(parameter, 'help', '')}"
            if re.search(r"TRACE|FILE\b|\bIN\b|[Tt]race.*Parquet|\.toml", shown):
                opening.add(name)

    # these write; explore serves until it is interrupted, new prints no JSON
    opening -= {"apps run", "apps record-sockets", "record"}
    opening -= {"explore", "designs new", "platforms new"}
    opening -= {"verbs exec"}  # needs compiled programs, which tests/live has
    opening -= {"rdma calibrate"}  # which measures, and never finds the same twice
    assert len(opening) >= 10
    assert opening <= {run.command for run, _ in READINGS.values()}
