"""Standard output and error that are closed, full, gone or in a poor encoding: no traceback."""

import ast
import codecs
import json
import os
import re
import signal
import stat
import subprocess
import sys
from itertools import cycle, product
from pathlib import Path

import pytest

import nicscope
from every_command import RUNS, Run, made
from nicscope.cli.streams import LOOKALIKE, lookalike
from pairwise import others_marked

# Of these only the help is printed: they take long, or find, make or print other things each time.
HELP = {run.command for run in RUNS if run.heavy} | {
    *("apps collective", "apps kernel", "apps record-sockets", "rdma calibrate", "record"),
    "trace split",
}
# Of each command the first of its runs, or its help.
PRINTING = {run.command: run.plain for run in reversed(RUNS)}
PRINTING |= {command: Run(f"{command} --help") for command in HELP}
# Of each way to print a quick one, which meets every stream; of the others one in three does.
QUICK = [
    *("compile", "designs", "designs new", "rdma plan", "simulate", "sweep"),
    *("trace make", "verbs run"),
]


def in_turn(number):
    """All commands by name; the quick ones and every third other are not long."""
    others = [name for name in PRINTING if name not in QUICK]
    return others_marked(pytest.mark.long, PRINTING, QUICK + others[number::3])


ENCODINGS = ["ascii", "latin-1", "cp437"]
WRONG = Run("replay {trace} --design utl")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else makes devices")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return tmp_path_factory.mktemp("inputs")


@pytest.fixture(scope="module")
def server(inputs):
    running = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("stream_server.py")), str(inputs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # it imports what tests do
    )
    yield running
    running.stdin.close()
    running.wait(timeout=60)
    running.stdout.close()


@pytest.fixture
def run(server, inputs, tmp_path):
    """Call it with a run or words, and what the streams are: status, output, errors, as bytes."""

    def call(words, out=None, err=None, encoding="utf-8"):
        if isinstance(words, Run):
            to_csv = ["--to", "csv"] if words.command in ("trace convert", "trace make") else []
            words = words.words(inputs, *to_csv, out="-")
        files = {"out": tmp_path / "out", "err": tmp_path / "err"}
        for file in files.values():
            file.write_bytes(b"")
        told = {"out": out or str(files["out"]), "err": err or str(files["err"])}
        server.stdin.write(json.dumps(told | {"words": words, "encoding": encoding}) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return status, files["out"].read_bytes(), files["err"].read_bytes()

    return call


PLAINLY = {}


@pytest.fixture
def plain(run):
    """Call it with a run or words: what the command does with all streams, which it does once."""

    def call(words):
        if str(words) not in PLAINLY:
            PLAINLY[str(words)] = run(words)
        return PLAINLY[str(words)]

    return call


@pytest.fixture
def full(tmp_path):
    """A device of the test's own that takes nothing."""
    os.mknod(tmp_path / "full", 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    return str(tmp_path / "full")


def assert_output_is_told(status, err, why):
    assert (status, err.count(b"\n")) == (2, 1), err.decode()
    assert err.startswith((b"nicscope: standard output: ", b"nicscope: /dev/stdout: "))
    assert why in err


@NEEDS_ROOT
@pytest.mark.parametrize("name", in_turn(0))
def test_full_standard_output_is_one_line_and_status_2(name, run, full):
    status, _, err = run(PRINTING[name], out=full)

    assert_output_is_told(status, err, b"No space left on device")


@pytest.mark.parametrize("name", in_turn(1))
def test_closed_standard_output_is_one_line_and_status_2(name, run):
    status, _, err = run(PRINTING[name], out="closed")

    assert_output_is_told(status, err, b"Bad file descriptor")


@pytest.mark.parametrize("name", in_turn(2))
def test_when_the_reader_has_gone_a_command_ends_as_others_do(name, run):
    status, _, err = run(PRINTING[name], out="gone")

    assert (status, err) == (128 + signal.SIGPIPE, b"")


@NEEDS_ROOT
@pytest.mark.parametrize("name", in_turn(1))
def test_a_full_error_stream_stops_nothing(name, run, plain, full):
    status, out, err = plain(PRINTING[name])
    assert status in (0, 1), err.decode()

    assert run(PRINTING[name], err=full) == (status, out, b"")


@pytest.mark.parametrize("err", ["closed", "gone"])
@pytest.mark.parametrize("words", [PRINTING["designs"], WRONG, Run("designs --nonsense")])
def test_an_error_stream_that_takes_nothing_leaves_the_status(words, err, run, plain):
    assert run(words, err=err) == (*plain(words)[:2], b"")


@pytest.mark.parametrize("out", ["closed", "gone"])
@pytest.mark.parametrize("err", ["closed", "gone"])
def test_with_neither_stream_the_status_says_it_all(out, err, run):
    expected = 2 if out == "closed" else 128 + signal.SIGPIPE

    assert run(PRINTING["designs"], out=out, err=err) == (expected, b"", b"")


@pytest.mark.parametrize(
    ("name", "encoding"),
    others_marked(
        pytest.mark.long,
        product(PRINTING, ENCODINGS),
        zip(QUICK, cycle(ENCODINGS), strict=False),
    ),
)
def test_an_encoding_that_lacks_characters_gets_others(name, encoding, run, plain):
    expected, shown, _ = plain(PRINTING[name])

    status, out, err = run(PRINTING[name], encoding=encoding)

    assert (status, b"Traceback" in err) == (expected, False), err.decode(encoding)
    text = out.decode(encoding)
    assert "?" not in set(text) - set(shown.decode())
    assert text.count("\n") >= shown.decode().count("\n")


def test_json_keeps_every_character_in_any_encoding(run, tmp_path):
    path = tmp_path / "\N{SNOWMAN} \N{GRINNING FACE}.parquet"
    made("trace", tmp_path).rename(path)
    for encoding in ("ascii", "latin-1", "utf-8"):
        _, out, _ = run(["trace", "info", str(path), "--json"], encoding=encoding)

        assert json.loads(out.decode(encoding))["file"] == str(path)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_that_is_no_text_is_printed_with_escapes(run, inputs, tmp_path, encoding):
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    words = Run("trace convert {trace} {out:t.csv}").words(inputs, out=path)
    shown = f"{tmp_path}/caf\\xe9.csv"

    _, out, err = run(words, encoding=encoding)
    assert (out.decode(encoding).split(":")[0], err) == (shown, b"")

    _, out, _ = run([*words, "--json"], encoding=encoding)
    assert json.loads(out.decode(encoding))["file"] == shown


def drawn():
    """Characters beyond ASCII in what the package may print, without the stand-ins themselves."""
    found = set()
    for path in Path(nicscope.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if path.name != "streams.py" and re.search(r"[^\x00-\x7f]|\\[NuUx]", text):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= {character for character in node.value if not character.isascii()}
    return sorted(found)


def test_whatever_is_drawn_has_a_lookalike_and_what_is_told_apart_stays_so():
    codecs.register_error(LOOKALIKE, lookalike)
    seen = {character: character.encode("ascii", LOOKALIKE) for character in drawn()}

    assert len(seen) > 10
    assert b"?" not in seen.values()
    textures = [seen[character] for character in "░▚▓█"]
    assert len(set(textures)) == len(textures)


@pytest.mark.parametrize(
    ("redirection", "status", "said"),
    [
        (">&-", 2, "nicscope: standard output: cannot be written: Bad file descriptor\n"),
        ("2>&-", 0, ""),
        ("| true", 0, ""),
        ("<&- >/dev/null 2>&-", 0, ""),
        ("<&- >&- 2>&-", 2, ""),
    ],
)
def test_a_shells_redirections_do_what_they_do_elsewhere(redirection, status, said):
    line = f"exec 3>&2; {sys.executable} -m nicscope designs {redirection}"

    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (status, said)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_takes_a_closed_streams_place_and_gets_what_is_printed(tmp_path, closed):
    """The number of the first descriptor is the exit status of the program."""
    program = """
import os, sys
from nicscope.cli.streams import standard_streams
with standard_streams():
    number = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
    os._exit(number)
"""
    line = f'exec "$1" -c "$2" "$3" {closed}'

    done = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, program, str(tmp_path / "file")],
        timeout=60,
        check=False,
    )

    assert done.returncode > 2
