"""Clocks of paced programs, without a machine behind them: virtual time stands where it is put."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from nicscope.live import layout, message_path
from nicscope.live.build import ENGINE, PACE, compiler
from nicscope.live.device import Engine
from nicscope.live.rings import Segment
from nicscope.studies.verbs_live import _new_pace

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="needs Linux on x86-64"
)
KHZ = 2_500_000
NS_PER_LOOK = 25
LOOKS = "import time; t = [time.monotonic_ns() for _ in range(1000)][-1]; print(t, flush=True)"


@pytest.fixture
def run(libraries, tmp_path):
    """Runs a paced program; its finished process, and the processes that have had a clock."""
    path = tmp_path / "pace"
    pace = _new_pace(path)
    words = layout.DTYPES["pace"].itemsize // 8
    clocks = pace.view(np.int64)[words:].reshape(-1, 2)
    environment = {**os.environ, "LD_PRELOAD": str(libraries / PACE), "NICSCOPE_PACE": str(path)}

    def made(*command):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        return done, [int(pid) for pid in clocks[:, 0] if pid]

    return made


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "exec echo hello"),
        ("sh", "-c", "echo $(env echo hello)"),
        (sys.executable, "-c", "import os; os.system('echo hello')"),
        (sys.executable, "-c", "import subprocess as s; s.run(['echo', 'hello'])"),
        (sys.executable, "-c", "import os; os.execl('/bin/echo', 'echo', 'hello')"),
    ],
)
def test_a_paced_program_can_begin_others(run, command):
    done, _ = run(*command)
    assert (done.returncode, done.stdout) == (0, "hello\n")


def test_a_process_that_becomes_another_program_keeps_its_clock(run):
    again = f"{LOOKS}; import os, sys; os.execv(sys.executable, ['python', '-c', {LOOKS!r}])"
    done, clocks = run(sys.executable, "-c", again)
    before, after = map(int, done.stdout.split())
    assert before < after
    assert len(clocks) == len(set(clocks)) == 1


@pytest.fixture
def clocks(libraries, tmp_path):
    """Runs a program that looks at clocks, by a machine's time that the test writes."""
    program = tmp_path / "clocks"
    source = str(Path(__file__).with_name("clocks.c"))
    subprocess.run([compiler(), "-O1", "-Wall", source, "-o", str(program)], check=True)
    path = tmp_path / "pace"
    pace = _new_pace(path)
    head, clock = layout.DTYPES["pace"], layout.DTYPES["clock"]

    def run(**values):
        record = pace[: head.itemsize].view(head)
        for name, value in {"khz": KHZ, **values}.items():
            record[name] = value
        environment = {"LD_PRELOAD": str(libraries / PACE), "NICSCOPE_PACE": str(path)}
        return subprocess.run(
            [str(program), str(KHZ)], env=environment, capture_output=True, text=True, check=False
        )

    run.clocks = pace[head.itemsize :].view(clock)
    return run


def test_clocks_stand_but_for_what_looking_takes_and_never_go_back(clocks):
    ended = clocks(now=10**9)

    assert ended.returncode == 0, ended.stdout
    taken = int(re.search(r"(\d+) ns for 2000", ended.stdout)[1])
    assert taken == 2 * 2000 * NS_PER_LOOK  # two looks in each turn


def test_the_machine_sees_what_each_process_was_shown_and_a_child_is_another(clocks):
    clocks(now=7 * 10**9)

    pids = [int(each) for each in clocks.clocks["pid"] if each]
    shown = [int(each) for each in clocks.clocks["shown"] if each]
    assert len(set(pids)) == 2
    assert all(each > 7 * 10**9 for each in shown)


@pytest.mark.parametrize("turn", [0, 1])  # 1: it was killed as it wrote
def test_clocks_go_on_once_the_machine_has_gone(libraries, tmp_path, turn):
    path = tmp_path / "pace"
    pace = _new_pace(path)
    pace[: layout.DTYPES["pace"].itemsize].view(layout.DTYPES["pace"])["turn"] = turn
    looks = "import time; until = time.monotonic() + 1\nwhile time.monotonic() < until: pass"
    environment = {**os.environ, "LD_PRELOAD": str(libraries / PACE), "NICSCOPE_PACE": str(path)}
    begun = subprocess.Popen([sys.executable, "-c", looks], env=environment)
    with pytest.raises(subprocess.TimeoutExpired):  # it lives, and time stands
        begun.wait(1)
    del pace
    assert begun.wait(60) == 0


THREADS = """
import threading, sys, time
rests = threading.Event()
def spin():
    while not rests.is_set(): pass
    time.sleep(1000)
other = threading.Thread(target=spin, daemon=True)
other.start()
print(threading.get_native_id(), other.native_id, flush=True)
sys.stdin.readline()
rests.set()
print(flush=True)
time.sleep(1000)
"""


def test_a_program_waits_if_each_of_its_threads_looks_in_vain_or_sleeps(libraries):
    so = Engine(libraries / ENGINE).so
    node, result = 7, ctypes.c_int64()
    segment = Segment()
    at, poller = layout.CONSTANTS["POLLERS_AT"], layout.DTYPES["poller"]
    pollers = np.frombuffer(segment.memory, poller, layout.CONSTANTS["POLLERS"], at)
    program = subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    long = ctypes.c_int64
    so.live_attach.argtypes, so.live_detach.argtypes = [long] * 2, [long]

    def says(name, *numbers):
        function = getattr(so, f"live_{name}")
        function.argtypes = [ctypes.c_void_p] * 3 + [long] * len(numbers)
        function(ctypes.byref(result), None, None, *numbers)
        return result.value

    try:
        first, other = map(int, program.stdout.readline().split())
        assert so.live_attach(node, segment.fd) == 0
        so.live_own(node, program.pid)
        assert not says("waits", node)
        pollers[0] = first, 2  # it has looked; the other computes
        assert not says("waits", node)
        assert not says("sleeps", node)
        pollers[1] = other, 2
        assert says("waits", node)
        says("note_shown")
        assert not says("waits", node)
        program.stdin.write("\n")
        program.stdin.flush()
        program.stdout.readline()
        until = time.monotonic() + 60
        while not says("sleeps", node):
            assert time.monotonic() < until
        pollers[0] = first, 4
        assert says("waits", node)
    finally:
        so.live_own(node, 0)
        so.live_detach(node)
        program.kill()
        program.communicate()
        del pollers
        segment.end()


def test_all_that_was_before_a_programs_own_time_has_happened_when_it_posts(monkeypatch):
    left = [*range(0, 100_000, 10_000)]  # ps
    tally = SimpleNamespace(now=0, until=0)

    def fire(_live, _begun):
        fired = [each for each in left if each <= tally.until][:2]
        del left[: len(fired)]
        return len(fired)

    monkeypatch.setattr(message_path, "EVENTS_AT_ONCE", 2)
    monkeypatch.setattr(message_path, "_fire_all", fire)
    machine = SimpleNamespace(tally=[tally])
    live = SimpleNamespace(
        machine=machine, nodes=[SimpleNamespace(clock=1)], clocks=np.array([[0, 55]])
    )
    message_path._follow_clock(live, 0)

    assert left == [60_000, 70_000, 80_000, 90_000]
    assert tally.now == 55_000


@pytest.fixture
def waits(libraries, tmp_path):
    """Runs a program that waits, while virtual time passes half as fast as real time."""
    program = tmp_path / "waits"
    source = str(Path(__file__).with_name("waits.c"))
    subprocess.run([compiler(), "-O1", "-Wall", source, "-o", str(program)], check=True)
    path = tmp_path / "pace"
    record = _new_pace(path)[: layout.DTYPES["pace"].itemsize].view(layout.DTYPES["pace"])
    record["khz"], record["now"] = KHZ, 5 * 10**9
    environment = {"LD_PRELOAD": str(libraries / PACE), "NICSCOPE_PACE": str(path)}

    def run(*words, step_ns=1):
        begun = time.monotonic_ns()
        with subprocess.Popen(
            [str(program), *words], env=environment, stdout=subprocess.PIPE, text=True
        ) as running:
            while running.poll() is None and time.monotonic_ns() < begun + 30 * 10**9:
                passed = (time.monotonic_ns() - begun) // 2
                record["now"] = 5 * 10**9 + passed // step_ns * step_ns
                time.sleep(0.001)
            running.kill()
            return running.stdout.read(), running.returncode

    return run


@pytest.mark.parametrize("name", ["cond", "sleep"])
def test_a_wait_goes_on_where_virtual_time_stands_just_before_its_end(waits, name):
    said, status = waits(name, step_ns=66_500_000)  # 0.5 ms before it, for 0.13 s of real time

    assert status == 0
    assert 200 <= int(said.removesuffix(" ms\n")) < 2000


@pytest.mark.parametrize("name", ["cond", "clock", "sem", "sleep", "timer"])
def test_a_wait_until_a_time_ends_when_the_programs_own_clock_shows_it(waits, name):
    said, status = waits(name)

    assert status == 0
    waited = int(said.removesuffix(" ms\n"))
    # A timer fires once, after as much real time; a wait is told apart from one of no time.
    assert (80 if name == "timer" else 200) <= waited < 2000


def test_a_program_that_blocks_signals_and_handles_faults_still_reads_the_counter(waits):
    said, status = waits()

    assert said == "1 fault, its own handler, counter went on\n"
    assert status == -signal.SIGSEGV  # the last one, which nobody handles
