"""Every command that writes, with the n-th write, sync, rename, ... or allocation failing.

Whatever fails, the exit status is 2 (or 0, if it did not matter), there is one line, and what was
there before is there, or the whole new result is; the same command then does what it should.
What fails while a user's program runs ends it with 1 and its traceback, and nothing is written.

Of each sort of command one has a call of each kind fail.  Every command has several of each drawn
anew each time in the long tests: what fails one says which call it was.
"""

import contextlib
import errno
import io
import os
import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import FILES, FOLDERS, NEW_FOLDERS
from faults import CALLS, Fault
from targets import tree

NUMBERS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES)
OUTSIDE = (0, 1)  # 1: reproduce has found a number outside its tolerance


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


def label(value):
    return getattr(value, "label", None) or getattr(value, "__name__", None) or "-".join(value)


EVERY = [(case, state) for case in FILES + FOLDERS for state in (none, old)] + [
    (case, none) for case in NEW_FOLDERS
]
# Which write in a way of their own: with a journal, beside a program that runs, into a new folder.
PECULIAR = ("sweep", "reproduce", "record", "trace split")
# Which of several folders with figures: of those that do not replay first.
QUICKEST = ("rdma plan",)


def sort_of(case):
    """Commands of a sort write alike: in the same way, and things of the same ending."""
    way = case.command if case.command in PECULIAR else "program" in case.label
    return way, case.name.partition(".")[2]


def chosen():
    """One command of each sort: over something old each kind of call, into nothing some of them.

    What replaces makes every call that is made where nothing is, and more.
    """
    sorts = {}
    for case, state in sorted(EVERY, key=lambda one: one[0].command not in QUICKEST):
        sorts.setdefault(sort_of(case), {}).setdefault(case, []).append(state)
    for number, cases in enumerate(sorts.values()):
        case, states = next(iter(cases.items()))
        for state in states:
            if state is states[-1]:
                yield case, state, [*CALLS]
            elif number < 4:
                yield case, state, [*CALLS][number::3]


@pytest.mark.parametrize(("case", "state", "kinds"), [*chosen()], ids=label)
def test_whatever_fails_the_old_result_or_the_new_one_is_there(case, state, kinds, run, tmp_path):
    draw = random.Random(f"{case.label} {state.__name__}")

    let_fail(case, state, run, tmp_path, draw, dict.fromkeys(kinds, 1))


@pytest.mark.long
@pytest.mark.parametrize(("case", "state"), EVERY, ids=label)
def test_so_it_is_of_every_command_whichever_calls_fail(case, state, run, tmp_path):
    let_fail(case, state, run, tmp_path, random.Random(), dict.fromkeys(CALLS, 3))


def let_fail(case, state, run, tmp_path, draw, most):
    """Have calls fail, each in a run of its own: up to ``most[kind]`` of each kind."""
    before = tmp_path / "before"
    before.mkdir()
    state(case, before / case.name, run)
    for place in ("warm", "after"):  # at first use more is imported, and drawn
        shutil.copytree(before, tmp_path / place)
        counts, new = calls_of(case, run, tmp_path / place)
    assert sum(counts.values()) > 5
    faults = [
        Fault(kind, 1 + turn, error_for(kind, draw))
        for kind, several in most.items()
        for turn in draw.sample(range(counts[kind]), min(counts[kind], several))
    ]
    for number, fault in enumerate(faults):
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
