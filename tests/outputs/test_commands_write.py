"""Every command that writes, into every sort of thing that an output may be."""

from __future__ import annotations

import io
import os
import shutil
import signal
import stat
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import BY_NAME, CASES, FILES, FOLDERS, QUICK, spread, written_paths
from targets import OLD, TARGETS, a_null_device, tree

from nicscope.outputs import OutputFolder
from pairwise import others_marked
from refusals import assert_named

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: nobody else makes devices")


# How files begin, by ending: their formats', and those of what they are compressed with.
BEGINNINGS = {
    "parquet": b"PAR1",
    "csv": b'"t',
    "csv.gz": b"\x1f\x8b",
    "csv.zst": b"\x28\xb5\x2f\xfd",
    "bin": bytes(4),  # seconds since the first request
    "bin.gz": b"\x1f\x8b",
    "pcapng": b"\x0a\x0d\x0d\x0a",
    "json": b'{"traceEvents": [',
}


def long_but_spread(pairs):
    """All pairs of a case and something else for it; what takes long and is as others are, long."""
    pairs = [*pairs]
    return others_marked(pytest.mark.long, pairs, spread(pairs))


def long_but_quick(cases):
    return others_marked(pytest.mark.long, cases, QUICK)


def label(value):
    return getattr(value, "label", None) or getattr(value, "__name__", None)


@pytest.fixture(scope="module")
def expected(quick, tmp_path_factory):
    """Call it with a case of a file, and what captures: what the command writes into a new one."""
    found = {}

    def find(case, captured):
        if case.label not in found:
            out = tmp_path_factory.mktemp("plain") / case.name
            ended = quick.run(captured, case, out)
            assert ended.status == 0, ended.err
            found[case.label] = out.read_bytes()
            assert found[case.label].startswith(
                BEGINNINGS[case.name.partition(".")[2].removeprefix("program.")]
            )
        return found[case.label]

    return find


def same(case, got, wanted):
    """Whether ``got`` is what the command writes; a recording's times differ."""
    if case.command != "record":
        return got == wanted
    if case.name.endswith(".csv"):
        return got.count(b"\n") == wanted.count(b"\n") and got[:9] == wanted[:9] == b'"time_ns"'
    found, other = (pq.read_table(io.BytesIO(content)) for content in (got, wanted))
    return found.schema == other.schema and found.num_rows == other.num_rows > 0


def assert_refused(ended, *facts):
    assert (ended.status, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert_named(ended.err, facts)


def test_every_path_that_a_command_takes_is_read_or_written_by_a_run_of_it():
    assert len(CASES) > 10
    assert {(case.command, case.parameter) for case in CASES} == written_paths()


# A sweep never replaces a table, not even its own.
REPLACED = [
    (case, make) for case in FILES for make in TARGETS if case.command != "sweep" or make not in OLD
]
KEPT = [(case, make) for case in FILES for make in OLD if case.command == "sweep"]


@pytest.mark.parametrize(("case", "make"), long_but_spread(REPLACED), ids=label)
def test_a_file_goes_where_its_name_leads_and_nothing_else_changes(
    case, make, run, expected, capfd, tmp_path
):
    wanted = expected(case, capfd)
    target, read = make(tmp_path, case.name)
    before = set(tree(tmp_path))

    status, _, err = run(case, target)

    assert (status, "Traceback" in err) == (0, False), err
    assert same(case, read(), wanted)
    after = set(tree(tmp_path))
    assert before <= after
    assert after - before <= {case.name, f"elsewhere/real-{case.name}"}


@pytest.mark.parametrize(("case", "make"), long_but_spread(KEPT), ids=label)
def test_a_table_that_is_there_is_not_replaced_by_a_sweeps(case, make, run, tmp_path):
    target, _ = make(tmp_path, case.name)
    before = tree(tmp_path)

    assert_refused(run(case, target), "name another file with --out")
    assert tree(tmp_path) == before


@NEEDS_ROOT
@pytest.mark.parametrize("case", long_but_quick(FILES), ids=label)
def test_a_device_stays_a_device(case, run, tmp_path):
    target, _ = a_null_device(tmp_path, case.name)
    before = tree(tmp_path)

    assert run(case, target).status == 0

    assert tree(tmp_path) == before


@NEEDS_ROOT
@pytest.mark.parametrize("case", FILES, ids=label)
def test_a_device_that_takes_no_more_is_one_line(case, run, tmp_path):
    os.mknod(tmp_path / case.name, 0o666 | stat.S_IFCHR, os.makedev(1, 7))

    ended = run(case, tmp_path / case.name)

    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert_named(ended.err, (tmp_path / case.name, "No space left on device"))
    assert list(tree(tmp_path)) == [case.name]


@pytest.mark.parametrize("case", long_but_quick(FILES), ids=label)
def test_a_reader_that_goes_away_ends_the_command_without_a_word(case, run, tmp_path):
    read, write = os.pipe()
    os.close(read)
    (tmp_path / case.name).symlink_to(f"/dev/fd/{write}")

    ended = run(case, tmp_path / case.name)

    os.close(write)
    assert (ended.status, ended.err) == (128 + signal.SIGPIPE, "")


# By name, with what says the format where the name does not.
DASHED = {
    "t.csv": ("--to", "csv"), "u.parquet": ("--to", "parquet"), "t.bin": ("--to", "oracle-general"),
    "g.csv": (), "r.parquet": (),
}  # fmt: skip


@pytest.mark.parametrize("case", [case for case in FILES if case.name in DASHED], ids=label)
@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_gets_the_result_and_the_error_stream_all_that_is_said(
    case, name, quick, expected, capfdbinary
):
    wanted = expected(case, capfdbinary)

    status, out, err = quick.run(capfdbinary, case, name, *DASHED[case.name])

    assert (status, b"Traceback" in err) == (0, False), err
    assert same(case, out, wanted)


@pytest.mark.parametrize("case", [one for one in FILES if one.name in [*DASHED][:-1]], ids=label)
def test_json_is_not_mixed_with_a_result(case, run):
    assert_refused(run(case, "-", *DASHED[case.name], "--json"), "--json", "name a file")


NAMELESS = ["t", "t.txt", "t.csv.bak", "t.parquet.gz", "folder.csv/t", "t.strace"]


@pytest.mark.parametrize(("case", "name"), long_but_spread(product(BY_NAME, NAMELESS)), ids=label)
def test_a_name_that_says_no_format_is_refused_before_anything_is_done(case, name, run, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    before = tree(tmp_path)

    assert_refused(run(case, tmp_path / name), tmp_path / name)
    assert tree(tmp_path) == before


def nothing(path):
    """It is made."""


def somebodys(path):
    path.mkdir()
    (path / "letter.txt").write_bytes(b"theirs")
    (path / "inner").mkdir()
    (path / "link").symlink_to("letter.txt")


def a_link_to_a_folder(path):
    somebodys(path.with_name("real"))
    path.symlink_to("real")


@pytest.mark.parametrize(
    ("case", "make"),
    long_but_spread(product(FOLDERS, [nothing, somebodys, a_link_to_a_folder])),
    ids=label,
)
def test_a_set_of_results_joins_whatever_is_in_its_folder(case, make, run, tmp_path):
    make(tmp_path / case.name)
    before = tree(tmp_path)

    ended = run(case, tmp_path / case.name)

    assert ended.status in (0, 1), ended.err  # 1: a check of reproduce
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before
    assert len(after) - len(before) >= 2 - (case.label == "simulate-program-results")
    assert any(Path(name).name == "results.json" for name in after)
    assert not [name for name in after if "nicscope-" in name]


@pytest.mark.parametrize("case", long_but_quick(FOLDERS), ids=label)
def test_an_error_after_most_of_a_set_is_written_leaves_the_folder_as_it_was(
    case, run, tmp_path, monkeypatch
):
    somebodys(tmp_path / case.name)
    assert run(case, tmp_path / case.name).status in (0, 1)
    before = tree(tmp_path)
    real, begun = OutputFolder.file, []

    def file(folder, name):
        begun.append(name)
        return real(folder, name)

    def last_overflows(folder, name):
        if len(begun) == files - 1:
            raise OverflowError("a number too large to be drawn")
        return file(folder, name)

    monkeypatch.setattr(OutputFolder, "file", file)
    assert run(case, tmp_path / "another").status in (0, 1)
    files = len(begun)
    begun.clear()
    shutil.rmtree(tmp_path / "another")
    monkeypatch.setattr(OutputFolder, "file", last_overflows)

    for out in ("another", case.name):
        begun.clear()
        with pytest.raises(OverflowError):
            run(case, tmp_path / out)

        assert len(begun) == files - 1
        # What reproduce found is not lost, and is beside the folder.
        journal = tmp_path / f"{out}.journal"
        assert journal.exists() == (case.command == "reproduce")
        journal.unlink(missing_ok=True)
        assert tree(tmp_path) == before


def a_file(path):
    path.write_text("mine")


def a_link_to_no_folder(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("case", "make"),
    long_but_spread(product(FOLDERS, [a_file, os.mkfifo, a_link_to_no_folder])),
    ids=label,
)
def test_what_is_no_folder_is_refused_and_kept(case, make, run, tmp_path):
    make(tmp_path / case.name)
    before = tree(tmp_path)

    assert_refused(run(case, tmp_path / case.name), "not a folder", "name a folder")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("case", FOLDERS, ids=label)
def test_standard_output_takes_no_folder(case, run):
    assert_refused(run(case, "-"), "standard output", "name a folder")
