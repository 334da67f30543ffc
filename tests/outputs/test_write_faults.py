"""Every command that writes, with the n-th write, sync, rename, ... or allocation failing.

Whatever fails, the exit status is 2 (or 0, if it did not matter), there is one line, and what was
there before is there, or the whole new result is; the same command then does what it should.
What fails while a user's program runs ends it with 1 and its traceback, and nothing is written.
``make faults`` lets each call fail in turn, and allocations drawn anew; the suite one of each
kind.  What fails a test says which call it was, whatever was drawn.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import FILES, FOLDERS, NEW_FOLDERS
from faults import CALLS, Fault
from quickly import Commands
from targets import tree

LONG = os.environ.get("NICSCOPE_LONG_TESTS") == "1"
SEED = random.randrange(10**6) if LONG else 1
MOST = {"allocation": 100}  # of thousands, for each command and state of its output
NUMBERS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES)
OUTSIDE = (0, 1)  # 1: reproduce has found a number outside its tolerance


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield Commands(tmp_path_factory.mktemp("inputs"), patch)


@pytest.fixture
def run(quick, capfd):
    return functools.partial(quick.run, capfd)


def none(case, out, run):
    """Nothing is there."""


def old(case, out, run):
    """Something is there that would be replaced, and somebody else's."""
    if case.is_folder:
        assert ends_well(case, run(case, out))
        (out / "letter.txt").write_bytes(b"theirs")
    elif case.command != "sweep":  # which replaces nothing
        out.write_bytes(b"old")


def ends_well(case, ended):
    return ended.status in (OUTSIDE if case.command == "reproduce" else (0,))


def ends_in_the_program(case, ended):
    """What fails while a program runs is raised to the program, and told as its own errors are."""
    return "program" in case.label and ended.status == 1 and ended.err.startswith("Traceback")


def content(folder):
    """What is in ``folder``; of recordings and measurements, whose times differ, all but these."""
    found = tree(folder)
    measured = {name.rpartition("/")[0] for name in found if name.endswith("registration.toml")}
    for name, looks in found.items():
        if name.startswith("r.") and isinstance(looks[1], bytes) and looks[1] != b"old":
            found[name] = (looks[0], _rows(name, looks[1]))
        elif name.rpartition("/")[0] in measured and looks[1] != b"theirs":
            found[name] = (looks[0], type(looks[1]))
    return found


def _rows(name, data):
    if name.endswith(".csv"):
        return data.count(b"\n")
    return pq.read_table(io.BytesIO(data)).num_rows


def calls_of(case, run, place):
    """How many calls of each kind the command makes, and what is there after it."""
    counting = [Fault(kind, 0, OSError()) for kind in CALLS]
    with contextlib.ExitStack() as stack:
        for fault in counting:
            stack.enter_context(fault.injected())
        assert ends_well(case, run(case, place / case.name))
    return {fault.kind: fault.calls for fault in counting}, content(place)


def error_for(kind, draw):
    if kind == "allocation":
        return draw.choice([MemoryError(), MemoryError("no room"), pa.ArrowMemoryError("malloc")])
    number = draw.choice(NUMBERS)
    return OSError(number, os.strerror(number))


def faults(counts, draw):
    """All that may fail, or one of each kind."""
    return [
        Fault(kind, 1 + turn, error_for(kind, draw))
        for kind, calls in counts.items()
        for turn in draw.sample(range(calls), min(calls, MOST.get(kind, calls) if LONG else 1))
    ]


@pytest.mark.parametrize(
    ("case", "state"),
    [(case, state) for case in FILES + FOLDERS for state in (none, old)]
    + [(case, none) for case in NEW_FOLDERS],
    ids=lambda one: one.label if hasattr(one, "label") else one.__name__,
)
def test_whatever_fails_the_old_result_or_the_new_one_is_there(case, state, run, tmp_path):
    before = tmp_path / "before"
    before.mkdir()
    state(case, before / case.name, run)
    for place in ("warm", "after"):  # at first use more is imported, and drawn
        shutil.copytree(before, tmp_path / place)
        counts, new = calls_of(case, run, tmp_path / place)
    draw = random.Random(f"{SEED} {case.label} {state.__name__}")
    for number, fault in enumerate(faults(counts, draw)):
        place = tmp_path / str(number)
        shutil.copytree(before, place)

        with fault.injected():
            ended = run(case, place / case.name)

        assert fault.calls >= fault.turn, fault
        found = content(place)
        journal = found.pop(f"{case.name}.journal", None)
        if ended.status == 2:
            assert ended.err.startswith("nicscope: "), f"{fault}: {ended.err}"
            assert ended.err.count("\n") == 1, f"{fault}: {ended.err}"
            assert found in (content(before), new), f"{fault}: {sorted(found)}"
        elif ends_in_the_program(case, ended):
            assert found == content(before), f"{fault}: {sorted(found)}"
        else:
            assert ends_well(case, ended), f"{fault}: {ended.err}"
            assert found == new, f"{fault}: {sorted(found)}"
            assert journal is None, fault
        if journal is not None:
            assert case.command in ("sweep", "reproduce")
            assert ends_well(case, run(case, place / case.name)), f"after {fault}"
            assert content(place) == new, f"after {fault}"
    assert sum(counts.values()) > 5
