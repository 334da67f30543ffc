"""What a run asks for is compiled beside it, once for all runs, and never holds it up.

Each run is a process of its own over a package made for the test.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from nicscope.kernel import queue
from pressing import heeding
from tiny_package import make_tiny

pytestmark = pytest.mark.compiled

PATIENCE_S = 120  # for a compiler on a busy machine
MODULE = """
import time
from typing import Any, NamedTuple
import numpy as np
from tiny.kernel.decorators import distant, kernel
from tiny.kernel.entry import bound, portion
from tiny.kernel.distant import call, link, new_calls

class State(NamedTuple):
    total: Any
    calls: Any

@distant
def add(state, number):
    state.total[0] += number
    return state.total[0]

@kernel
def go(handed, number):
    state = handed
    return call(state, 0, (number,))

@kernel
def drop(handed, number):
    handed.total[0] = 0
    return number

state = State(np.zeros(1, np.int64), new_calls(1))
link(state, (add,))
entry = bound(go, state)

def is_compiled():
    return portion(entry, 1, 0) == 1

def run_until(done, most_s):
    begin, turns = time.monotonic(), 0
    while not done() and time.monotonic() - begin < most_s:
        turns += 1
        assert entry(turns) == turns * (turns + 1) // 2
        time.sleep(0.001)
    return turns
"""


@pytest.fixture
def place(tmp_path):
    """A package, a cache, and a way to run scripts over them."""
    (tmp_path / "package").mkdir()
    (make_tiny(tmp_path / "package") / "whole.py").write_text(MODULE)
    made = Place(tmp_path)
    yield made
    made.clear()
    Place(tmp_path).run("from tiny.kernel import queue; queue.stop()")


class Place:
    def __init__(self, root):
        self.root = root
        self.begun = []

    def begin(self, script, **environment):
        run = subprocess.Popen(
            [sys.executable, "-B", "-c", script],
            cwd=self.root / "package",
            env={
                "PATH": os.environ["PATH"],
                "NUMBA_CACHE_DIR": str(self.root / "cache"),
                "PYTHONPATH": str(self.root / "package"),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heeding,
        )
        self.begun.append(run)
        return run

    def clear(self):
        """End what a test that failed has left: else a later test is blamed for it."""
        for run in self.begun:
            with run:  # closes its pipes, and waits
                run.kill()

    def run(self, script, **environment):
        return ended(self.begin(script, **environment))

    def kept(self):
        return len([*self.root.rglob("*.o")])

    def wait_for(self, entries):
        begin = time.monotonic()
        while self.kept() < entries:
            assert time.monotonic() - begin < PATIENCE_S, "nobody compiles"
            time.sleep(0.05)


def ended(run):
    out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, err
    return out.split(), err


FIRST = "from tiny.whole import entry; print(entry(3), entry(4))"
SWITCH = (
    f"from tiny.whole import *; turns = run_until(is_compiled, {PATIENCE_S}); "
    "print(is_compiled(), turns)"
)


def compiling(place):
    """The process that compiles, once there is one."""
    begin = time.monotonic()
    while time.monotonic() - begin < PATIENCE_S:
        found, _ = place.run("from tiny.kernel import queue; print(*queue.workers())")
        if found:
            return int(found[0])
    raise AssertionError("nobody compiles")


def test_a_first_run_does_not_wait_and_a_later_one_is_compiled_from_the_start(place):
    out, err = place.run(FIRST)

    assert (out, err) == (["3", "7"], "")
    assert place.kept() == 0
    place.wait_for(2)
    out, err = place.run("from tiny.whole import *; print(is_compiled(), entry(3))")
    assert (out, err) == (["True", "3"], "")


def test_a_terminal_is_told_of_the_first_use_once_per_installation(place):
    script = f"import sys; sys.stderr.isatty = lambda: True; {FIRST}"
    errors = [place.run(script)[1] for _ in range(3)]

    assert errors == [f"nicscope: {queue.FIRST_USE}\n", "", ""]
    assert len(queue.FIRST_USE.split()) == 10


def test_a_run_goes_over_to_compiled_code_in_its_middle(place):
    out, _ = place.run(SWITCH)

    assert out[0] == "True"
    assert int(out[1]) > 10


def test_two_runs_at_once_share_one_process(place):
    runs = [place.begin(SWITCH) for _ in range(2)]
    found = [ended(run) for run in runs]

    assert [out[0] for out, _ in found] == ["True", "True"]
    place.wait_for(2)
    begin, left = time.monotonic(), [""]
    while left != ["0"]:  # what is kept is waited for a moment longer
        assert time.monotonic() - begin < PATIENCE_S, f"{left} wait"
        left, _ = place.run("from tiny.kernel import queue; print(queue.waiting())")
    assert place.kept() == 2


def test_a_process_that_is_killed_is_replaced(place):
    run = place.begin(SWITCH)
    os.kill(compiling(place), signal.SIGKILL)

    assert ended(run)[0][0] == "True"


def test_a_second_one_that_is_killed_is_not(place):
    script = (
        "from tiny.kernel import queue\n"
        "queue._STARTS = 0\n"
        "from tiny.whole import *\n"
        "print(run_until(is_compiled, 1) > 10, queue._asking.given_up)\n"
    )

    assert place.run(script)[0] == ["True", "True"]
    assert place.kept() == 0


def test_a_run_goes_on_where_no_process_can_be_started(place):
    script = (
        "import sys; sys.executable = '/nowhere/python'\n"
        "from tiny.whole import *; print(run_until(is_compiled, 1) > 10)"
    )
    out, err = place.run(script)

    assert out == ["True"]
    assert "no process can be started that compiles" in err
    assert err.count("\n") == 1


def test_a_run_goes_on_where_nothing_can_be_kept(place):
    (place.root / "cache").write_text("a file where the folder would be")
    out, err = place.run(FIRST)

    assert out == ["3", "7"]
    assert "cannot be kept" in err


def test_an_interrupt_ends_the_run_and_not_the_process_that_compiles(place):
    run = place.begin(f"from tiny.whole import *; run_until(lambda: False, {PATIENCE_S})")
    process = compiling(place)
    os.kill(run.pid, signal.SIGINT)
    run.communicate(timeout=PATIENCE_S)

    assert run.returncode != 0
    assert os.getsid(process) == process
    place.wait_for(1)


def test_nothing_is_compiled_from_a_source_that_has_changed_since(place):
    path = place.root / "package" / "tiny" / "whole.py"
    run = place.begin(
        "from tiny.whole import *\n"
        "import pathlib, tiny.whole\n"
        "path = pathlib.Path(tiny.whole.__file__)\n"
        "path.write_text(path.read_text().replace('+= number', '-= number'))\n"
        "print(run_until(is_compiled, 3) > 10)\n",
        NICSCOPE_COMPILE="background",
    )
    out, _ = ended(run)

    assert out == ["True"]
    assert "-= number" in path.read_text()

    path.write_text(path.read_text().replace("-= number", "+= number"))
    assert place.run(SWITCH)[0][0] == "True"  # what was refused then is none of its fault


def test_what_is_asked_for_after_a_process_has_left_starts_another(place):
    script = (
        "from tiny.kernel import queue\n"
        "queue._STARTS = 1\n"
        "from tiny.whole import *\n"
        "run_until(is_compiled, 100)\n"
        "while queue.workers(): time.sleep(0.1)\n"
        "other, begin = bound(drop, state), time.monotonic()\n"
        "while portion(other, 1, 0) == 0 and time.monotonic() - begin < 100:\n"
        "    other(1)\n"
        "    time.sleep(0.01)\n"
        "print(portion(other, 1, 0))\n"
    )

    assert place.run(script)[0] == ["1"]


def test_a_cache_folder_may_be_named_from_where_one_is(place):
    ended(place.begin(FIRST, NUMBA_CACHE_DIR="here"))

    place.wait_for(2)
    assert len([*(place.root / "package" / "here").rglob("*.o")]) == 2


def test_threads_that_ask_at_once_all_get_what_they_ask_for(place):
    script = (
        "import threading, sys\n"
        "sys.setswitchinterval(1e-6)\n"
        "from tiny.whole import *\n"
        "entries = [entry, bound(drop, state)]\n"
        "threads = [threading.Thread(target=each, args=(1,)) for each in 4 * entries]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
    )
    place.run(script)

    place.wait_for(3)


TAKE_AND_DIE = """
import json
from tiny.kernel import queue
for asked in queue.folder().glob("*.ask"):
    asked.write_text(json.dumps([*json.loads(asked.read_text()), *{more}]))
    asked.rename(asked.with_name(asked.name + ".1"))
"""
SERVE = """
from tiny.kernel import queue, server
server.main(0)
print(queue.waiting(), *queue.failures())
"""


@pytest.mark.parametrize(
    ("more", "told"), [("[]", ""), ("['once']", "two processes ended while they compiled it")]
)
def test_what_a_killed_process_was_at_is_done_by_another_but_not_by_a_third(place, more, told):
    nobody = "from tiny.kernel import queue; queue._STARTS = 0\n"
    place.run(nobody + "from tiny.whole import *\nbound(drop, state)(1)")
    place.run(TAKE_AND_DIE.format(more=more))

    out, _ = place.run(SERVE, NICSCOPE_COMPILE="wait")

    assert (out[0], place.kept()) == ("0", 0 if told else 2)
    assert told in " ".join(out)


def test_what_is_stopped_leaves_nothing_waiting(place):
    script = FIRST + "\nfrom tiny.kernel import queue\nprint(len(queue.stop()), queue.waiting())"
    out, _ = place.run(script)

    assert out[2:] in (["1", "0"], ["0", "0"])  # before it held its lock, or after


def test_what_cannot_be_compiled_stays_interpreted_and_is_told(place):
    path = place.root / "package" / "tiny" / "whole.py"
    path.write_text(
        path.read_text().replace("(handed, number):", "(handed, number):\n    globals()")
    )
    place.run(FIRST)
    begin = time.monotonic()
    told = []
    while "go:" not in told:  # ``add`` may be told before: its module enters ``go``
        assert time.monotonic() - begin < PATIENCE_S, "nobody tells"
        told, _ = place.run("from tiny.kernel import queue; print(*queue.failures())")

    assert place.run(FIRST) == (["3", "7"], "")


def test_a_mode_that_does_not_exist_is_refused(place):
    run = place.begin(FIRST, NICSCOPE_COMPILE="sometimes")
    _, err = run.communicate(timeout=PATIENCE_S)

    assert run.returncode == 1
    assert "NICSCOPE_COMPILE is 'sometimes'; it can be background, wait, never" in err


@pytest.mark.parametrize("share", ["0", "0.5", "1"])
def test_entries_may_change_tiers_at_any_call(place, share):
    script = (
        "from tiny.whole import *\n"
        "print([entry(n) for n in range(1, 200)] == [n * (n + 1) // 2 for n in range(1, 200)])"
    )

    assert place.run(script, NICSCOPE_COMPILE=f"switch:{share}:3")[0] == ["True"]
