"""Every command that reads a file: from whatever holds it, and in one line from what does not."""

from __future__ import annotations

import json
import os
import re
import threading

import pytest
import typer.main
from trace_files import write

from nicscope import inputs
from nicscope.cli.app import app, main
from nicscope.config.shelf import CATALOG
from nicscope.errors import LONGEST

DESIGN = b'scheme = "utlb"\nentries = 64\nplatform = "utlb-prototype"\n'
PLATFORM = (
    b'[costs]\nni_check = { value = 1, unit = "us", evidence = "assumed", source = "a guess" }\n'
)
LACKEY = b" L 1000,8\n S 2000,8\n"
STRACE = b"1 1.0 recvfrom(0x3, 0x1000, 0x10, 0, 0, 0) = 0x10\n"
PROGRAM = b"x = 1\n"
COUNTERS = b'{"hits": 3, "misses": 3}\n'
SMALL_VERBS = ["--size", "64", "--iters", "4"]
# Of what else each of these would do too, it does one.
SIZED = ["--nic-memory", "64KiB", "--platform", "utlb-prototype", "--only", "utlb"]
ASYNC = ["--prefetch", "async"]
GRID = ["--design", "utlb", "--grid", "entries=64,128"]

# Every command that opens a file of the user's, by what it reads; FILE is the file, OUT a folder.
COMMANDS = {
    "info": ("trace", ["trace", "info", "FILE", "--json"]),
    "split": ("trace", ["trace", "split", "FILE", "OUT/parts", "--json"]),
    "convert parquet": ("trace", ["trace", "convert", "FILE", "OUT/o.csv", "--json"]),
    "convert csv": ("csv", ["trace", "convert", "FILE", "OUT/o.parquet", "--json"]),
    "convert lackey": ("lackey", ["trace", "convert", "FILE", "OUT/o.parquet", "--json"]),
    "convert strace": ("strace", ["trace", "convert", "FILE", "OUT/o.parquet", "--json"]),
    "convert oracle": (
        "oracle", ["trace", "convert", "FILE", "OUT/o.csv", "--json", "--from", "oracle-general"]
    ),
    "convert libcachesim": (
        "lcs", ["trace", "convert", "FILE", "OUT/o.csv", "--json", "--from", "libcachesim-csv"]
    ),
    "convert mooncake": (
        "mooncake",
        ["trace", "convert", "FILE", "OUT/o.csv", "--json", "--model", "kimi-k2"],
    ),
    "convert azure": (
        "azure",
        ["trace", "convert", "FILE", "OUT/o.csv", "--json", "--model", "kimi-k2"],
    ),
    "info mooncake": ("mooncake", ["trace", "info", "FILE", "--json", "--model", "kimi-k2"]),
    "curve mooncake": ("mooncake", ["curve", "FILE", "--json", "--model", "kimi-k2"]),
    "replay": ("trace", ["replay", "FILE", "--design", "utlb", "--json"]),
    "replay --design": ("design", ["replay", "TRACE", "--design", "FILE", "--json"]),
    "replay --platform": (
        "platform", ["replay", "TRACE", "--design", "utlb", "--platform", "FILE", "--json"]
    ),
    "simulate": ("trace", ["simulate", "FILE", "--design", "utlb", "--json"]),
    "simulate --design": ("design", ["simulate", "TRACE", "--design", "FILE", "--json"]),
    "curve": ("trace", ["curve", "FILE", "--json"]),
    "odp": ("trace", ["odp", "FILE", *ASYNC, "--json"]),
    "odp --costs": ("costs", ["odp", "TRACE", *ASYNC, "--costs", "FILE", "--json"]),
    "odp --faults": ("faults", ["odp", "TRACE", *ASYNC, "--faults", "FILE", "--json"]),
    "path": ("trace", ["path", "FILE", "--json"]),
    "path --costs": ("path costs", ["path", "TRACE", "--costs", "FILE", "--json"]),
    "rcache": ("trace", ["rcache", "FILE", "--json"]),
    "descriptors": ("trace", ["descriptors", "FILE", "--json"]),
    "descriptors --nic": ("nic", ["descriptors", "TRACE", "--nic", "FILE", "--json"]),
    "verbs run --design": ("design", ["verbs", "run", "--design", "FILE", "--json", "VERBS"]),
    "verbs bw": ("design", ["verbs", "bw", *SMALL_VERBS, "--design", "FILE", "--json"]),
    "verbs lat": ("design", ["verbs", "lat", *SMALL_VERBS, "--design", "FILE", "--json"]),
    "rcache --costs": ("costs", ["rcache", "TRACE", "--costs", "FILE", "--json"]),
    "register": ("sizes", ["register", "--regions", "FILE", "--json"]),
    "register --costs": ("costs", ["register", "1GiB", "--costs", "FILE", "--json"]),
    "plan --limits": ("limits", ["plan", "--pool", "1GiB", "--limits", "FILE", "--json"]),
    "fit": ("counters", ["fit", "FILE", "--trace", "TRACE", "--json"]),
    "fit --trace": ("trace", ["fit", "COUNTERS", "--trace", "FILE", "--json"]),
    "explain": (
        "hypothesis",
        ["explain", "--mr", "24GiB", "--hypothesis", "FILE,table", "--json"],
    ),
    "connections --nic": (
        "nic",
        ["connections", "--qps", "1", "--threads", "1", "--outstanding", "1", "--nic", "FILE",
         "--json"],
    ),
    "size": ("trace", ["size", "FILE", *SIZED, "--json"]),
    "sweep": ("trace", ["sweep", "FILE", *GRID, "--out", "OUT/s.parquet", "--json"]),
    "sweep --design": (
        "design",
        ["sweep", "TRACE", "--design", "FILE", *GRID[2:], "--out", "OUT/s.parquet", "--json"],
    ),
    "sweep --grid": (
        "platform",
        ["sweep", "TRACE", *GRID[:2], "--grid", "platform=utlb-prototype,FILE", "--out",
         "OUT/s.parquet", "--json"],
    ),
    "reproduce": ("trace", ["reproduce", "utlb/table4", "--trace", "FILE", "--json"]),
    "designs show": ("design", ["designs", "show", "FILE", "--json"]),
    "platforms show": ("platform", ["platforms", "show", "FILE", "--json"]),
    "flow": ("delivery", ["flow", "--platform", "FILE", "--count", "1", "--json"]),
    "flow --to": ("delivery", ["flow", "--to", "FILE", "--count", "1", "--json"]),
    "latency": (
        "via", ["latency", "--platform", "FILE", "--mechanism", "pio", "--bytes", "64", "--json"]
    ),
}  # fmt: skip
QUICK = ["info", "convert csv", "replay", "replay --design", "replay --platform", "designs show"]
TOML = (
    *("design", "platform", "delivery", "via", "costs", "limits", "hypothesis", "nic"),
    *("faults", "path costs"),
)
ENDINGS = {"csv": ".csv", "trace": ".parquet"} | dict.fromkeys(TOML, ".toml")


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contents")
    trace = write(folder / "trace.parquet", count=6)
    main(["trace", "convert", str(trace), str(folder / "t.csv")])
    main(["trace", "convert", str(trace), str(folder / "t.bin")])
    return {
        "trace": trace.read_bytes(),
        "csv": (folder / "t.csv").read_bytes(),
        "oracle": (folder / "t.bin").read_bytes(),
        "lcs": b"0,1,100\n1,2,100\n",
        "design": DESIGN,
        "platform": PLATFORM,
        "delivery": (CATALOG / "platforms" / "pentium2-440lx.toml").read_bytes(),
        "via": (CATALOG / "platforms" / "sonic-via.toml").read_bytes(),
        "lackey": LACKEY,
        "sizes": b"1GiB\n64K # small\n",
        "costs": (CATALOG / "registrations" / "connectx.toml").read_bytes(),
        "counters": COUNTERS,
        "hypothesis": (CATALOG / "hypotheses" / "ksm.toml").read_bytes(),
        "limits": (CATALOG / "limits" / "efa.toml").read_bytes(),
        "nic": (CATALOG / "nics" / "connectx-6.toml").read_bytes(),
        "path costs": (CATALOG / "paths" / "connectx.toml").read_bytes(),
        "faults": (CATALOG / "faults" / "connectx.toml").read_bytes(),
        "mooncake": b'{"timestamp": 0, "input_length": 512, "output_length": 2, "hash_ids": [7]}\n',
        "azure": b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,600,1\n",
        "strace": STRACE,
    }


def run(name, given, folder):
    """Exit status of the command ``name`` on the file ``given``."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    trace = write(folder / "other.parquet", count=6)
    counters = folder / "counters.json"
    counters.write_bytes(COUNTERS)
    words = {"FILE": str(given), "TRACE": str(trace), "OUT/": f"{out}/"}
    words["COUNTERS"] = str(counters)
    verbs = folder / "verbs.py"
    verbs.write_text("from pyverbs.device import get_device_list\n\nget_device_list()\n")
    words["VERBS"] = str(verbs)
    arguments = []
    for argument in COMMANDS[name][1]:
        told = argument
        for word, meant in words.items():
            told = told.replace(word, meant)
        arguments.append(told)
    return main(arguments)


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
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_the_same_from_a_file_and_from_streams(name, tmp_path, contents, capsys):
    kind = COMMANDS[name][0]
    named = tmp_path / f"file{ENDINGS.get(kind, '.x')}"
    named.write_bytes(contents[kind])
    assert run(name, named, tmp_path) in (0, 1), capsys.readouterr().err
    expected = plain(capsys.readouterr().out)

    sources = [from_pipe, from_fifo, from_odd_name, from_standard_input]
    for make in sources if name in QUICK else sources[-1:]:
        folder = tmp_path / make.__name__
        folder.mkdir()
        given = make(contents[kind], folder)
        assert run(name, given, folder) in (0, 1), (make, capsys.readouterr().err)
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


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refuses_what_is_no_file_in_one_line(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(inputs, "WRITER_S", 0.1)
    folder = tmp_path / "odd"
    folder.mkdir()
    for given, words in unreadable(folder):
        if name == "reproduce" and given == folder:
            words = "holds no traces"
        assert run(name, given, tmp_path) == 2, given
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("nicscope: ")
        assert err.count("\n") == 1
        assert str(given) in err
        assert words in err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", QUICK)
def test_an_error_is_one_printable_line_of_bounded_length(name, tmp_path, capsys):
    odd = os.fsdecode(b"/\xff\x1b[2J\n" + b"x" * 240)
    path = tmp_path / ("y" * 200) / ("z" * 200) / odd[1:]
    path.parent.mkdir(parents=True)
    path.with_suffix("")
    path.write_bytes(b'\x1b[2J = "' + b"\xc2\x9b" * 50_000 + b'"\n' + b"[[[\n")

    assert run(name, path, tmp_path) == 2

    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line[:-1].isprintable()
    assert len(line) <= LONGEST + len("nicscope: \n")
    line.encode()


def test_clicks_own_errors_are_one_printable_line_too(capsys):
    assert main(["replay", "--\x1b[2J" + "x" * 100_000]) == 2

    line = capsys.readouterr().err
    assert line[:-1].isprintable()
    assert len(line) <= LONGEST + len("nicscope: \n")


def test_standard_input_is_there_once(tmp_path, capsys, monkeypatch):
    del monkeypatch
    saved = os.dup(0)
    try:
        from_standard_input(DESIGN, tmp_path)
        assert main(["replay", "-", "--design", "-"]) == 2
    finally:
        os.dup2(saved, 0)
        os.close(saved)

    assert capsys.readouterr().err == (
        "nicscope: standard input: is an empty file; record or convert it again\n"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x = " + b"-" * 200_000 + b"1", "program.py: "),
        (b"#" * (5 << 20), "is longer than 4096 KiB"),
        (PROGRAM, "has no main() and no cluster"),
    ],
)
def test_a_file_that_is_no_program_is_refused_in_one_line(content, words, tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_bytes(content)

    assert main(["simulate", str(path)]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


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

    assert main([command, "show", str(path)]) == 2

    line = capsys.readouterr().err
    assert line.startswith(f"nicscope: {path}: ")
    assert line.count("\n") == 1
    assert words in line


def test_every_command_that_opens_a_file_is_in_the_table():
    """What a command's help calls TRACE, FILE, DIR of traces or a .toml file, it opens."""
    opening = set()
    for name, command in typer.main.get_command(app).commands.items():
        for below, one in getattr(command, "commands", {"": command}).items():
            for parameter in one.params:
                shown = f"{parameter.metavar} {getattr(parameter, 'help', '')}"
                if re.search(r"TRACE|FILE\b|\bIN\b|[Tt]race.*Parquet|\.toml", shown):
                    opening.add(f"{name} {below}".strip())
    tested = [" ".join(arguments) for _, arguments in COMMANDS.values()]

    # these write; explore serves until it is interrupted, new prints no JSON
    opening -= {"apps run", "apps record-sockets", "record"}
    opening -= {"explore", "designs new", "platforms new"}
    opening -= {"calibrate-host"}  # which measures, and never finds the same twice
    assert len(opening) >= 10
    assert [one for one in opening if not any(t.startswith(one) for t in tested)] == []
