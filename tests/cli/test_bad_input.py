"""Mistakes of every kind: one line on stderr, exit status 2, and nothing left behind."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from trace_files import write

from nicscope.cli.app import main

DESIGN = 'scheme = "utlb"\nentries = 64\n'


def missing(path):
    return path


def not_parquet(path):
    path.write_text("time_ns,node\n1,2\n")
    return path


def truncated(path):
    content = write(path).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def no_rows(path):
    return write(path, count=0)


def columns(**replaced):
    return lambda path: write(path, count=2, **replaced)


BAD_TRACES = {
    "a missing file": (missing, "no such file"),
    "no Parquet": (not_parquet, "not a Parquet file"),
    "truncated": (truncated, "truncated"),
    "no requests": (no_rows, "holds no requests"),
    "a zero length": (columns(length=[1, 0]), "row 1"),
    "a wrapping address": (columns(address=[0, 2**64 - 50]), "row 1"),
    "an unknown op": (columns(op=["send", "sned"]), "did you mean 'send'?"),
    "a negative node": (columns(node=[0, -1]), "row 1"),
    "time running back": (columns(node=[0, 0], time_ns=[5, 4]), "row 1"),
    "a wrong type": (
        lambda path: write(path, types={"length": pa.float32()}, count=2),
        "column 'length'",
    ),
}

BAD_DESIGNS = {
    "unknown key": (DESIGN + "entires = 4\n", "did you mean 'entries'?"),
    "no power of two": (DESIGN.replace("64", "65"), "power of two"),
    "no scheme": ("entries = 4\n", "no scheme"),
    "not TOML": ("scheme = ", "not TOML"),
}


def refused(capsys, *arguments):
    """The one line that a command is refused with."""
    assert main(["replay", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nicscope: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize("what", BAD_TRACES)
def test_a_bad_trace_is_one_line_that_names_it(what, capsys, tmp_path):
    make, words = BAD_TRACES[what]
    path = make(tmp_path / "t.parquet")
    before = sorted(tmp_path.iterdir())

    line = refused(capsys, path, "--design", "utlb", "--out", tmp_path / "new" / "folder")

    assert str(path) in line
    assert words in line
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("what", BAD_DESIGNS)
def test_a_bad_design_file_is_told_before_the_trace_is_looked_at(what, capsys, tmp_path):
    content, words = BAD_DESIGNS[what]
    file = tmp_path / "mine.toml"
    file.write_text(content)

    line = refused(capsys, tmp_path / "none", "--design", file, "--out", tmp_path / "o")

    assert str(file) in line
    assert words in line
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--design", "utl"], "did you mean 'utlb'?"),
        (["--platform", "pca"], "no platform 'pca'"),
        (["--design", "utlb,mini"], "; name each by itself, as in --design utlb --design mini"),
        (["--design", "utlb", "--design", "unet", "--set", "entries=64"], "design 'unet'"),
        (["--design", "utlb", "--set", "entires=64"], "did you mean 'entries'?"),
        (["--design", "utlb", "--set", "entries=63"], "power of two"),
        (["--design", "utlb", "--set", "entries"], "KEY=VALUE"),
        (["--set", "ways=2"], "--design"),
        (["--design", "utlb", "--design", "utlb"], "twice"),
        (["--desing", "utlb"], "--desing"),
    ],
)
def test_a_bad_option_is_told_before_the_trace_is_looked_at(arguments, words, capsys, tmp_path):
    assert words in refused(capsys, tmp_path / "none", *arguments, "--out", tmp_path / "o")
    assert list(tmp_path.iterdir()) == []


def test_out_that_is_a_file_is_refused_and_kept(capsys, tmp_path):
    file = tmp_path / "results"
    file.write_text("mine")

    assert str(file) in refused(capsys, tmp_path / "none", "--design", "utlb", "--out", file)

    assert file.read_text() == "mine"


def test_a_full_disk_leaves_nothing(capsys, tmp_path, full_disk):
    trace = write(tmp_path / "t.parquet")
    arguments = [trace, "--design", "utlb", "--out", tmp_path / "o"]
    assert main(["replay", *map(str, arguments[:3])]) == 0  # kernels are cached before
    capsys.readouterr()
    full_disk()

    assert "cannot be written" in refused(capsys, *arguments)

    assert list(tmp_path.iterdir()) == [trace]


@pytest.fixture
def full_disk():
    """Call it, and no file grows beyond 512 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, old)


@pytest.mark.parametrize("what", ["not Parquet", "unknown op"])
def test_the_command_itself_says_no_more_than_one_line(what, tmp_path):
    path = tmp_path / "t.parquet"
    if what == "unknown op":
        write(path, count=2, op=["send", "fly"])
    else:
        path.write_text("hello")
    command = [sys.executable, "-m", "nicscope", "replay", str(path), "--design", "utlb"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"nicscope: {path}: ")
    assert done.stderr.count("\n") == 1


def test_a_command_without_arguments_shows_the_help_and_nothing_else(capsys):
    assert main([]) == 2

    out, err = capsys.readouterr()
    assert "replay" in out
    assert err == ""
