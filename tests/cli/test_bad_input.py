"""Mistakes of every kind: one line on stderr, exit status 2, and nothing left behind."""

import resource
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from trace_files import write

from nicscope.cli.app import main
from refusals import refused_command

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


@pytest.mark.parametrize("what", BAD_TRACES)
def test_a_bad_trace_is_one_line_that_names_it(what, capsys, tmp_path):
    make, fact = BAD_TRACES[what]
    path = make(tmp_path / "t.parquet")
    before = sorted(tmp_path.iterdir())

    words = ["replay", path, "--design", "utlb", "--out", tmp_path / "new" / "folder"]
    refused_command(capsys, words, path, fact)

    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("what", BAD_DESIGNS)
def test_a_bad_design_file_is_told_before_the_trace_is_looked_at(what, capsys, tmp_path):
    content, fact = BAD_DESIGNS[what]
    file = tmp_path / "mine.toml"
    file.write_text(content)

    words = ["replay", tmp_path / "none", "--design", file, "--out", tmp_path / "o"]
    refused_command(capsys, words, file, fact)

    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_leaves_nothing(capsys, tmp_path, full_disk):
    trace = write(tmp_path / "t.parquet")
    words = ["replay", trace, "--design", "utlb", "--out", tmp_path / "o"]
    assert main([str(word) for word in words[:4]]) == 0  # kernels are cached before
    full_disk()

    refused_command(capsys, words, tmp_path / "o", "cannot be written")

    assert list(tmp_path.iterdir()) == [trace]


@pytest.fixture
def full_disk():
    """Call it, and no file grows beyond 512 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, old)


def test_the_command_itself_says_no_more_than_one_line(tmp_path):
    path = write(tmp_path / "t.parquet", count=2, op=["send", "fly"])
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
