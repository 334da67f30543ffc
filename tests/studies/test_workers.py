"""Workers that are processes: everything is done once, whoever dies, and nobody is left behind."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import dying_tasks
import pytest

from nicscope.errors import StudyError, TraceError
from nicscope.studies.workers import LocalWorkers, Task
from refusals import refused

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def gone_soon(process):
    deadline = time.monotonic() + 20
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(process)


def test_every_result_is_there_once_in_the_order_of_tasks_and_no_worker_is_left():
    told = []
    with LocalWorkers(2) as workers:
        processes = workers.processes()
        tasks = [Task(dying_tasks.times_ten, (n,), 5) for n in range(20)]
        assert workers.results(tasks, lambda *pair: told.append(pair)) == [
            10 * n for n in range(20)
        ]
        assert workers.results(tasks[:3]) == [0, 10, 20]  # the same workers again
        assert workers.processes() == processes

    assert len(set(processes)) == 2
    assert not any(map(is_running, processes))
    assert told[-1] == (100, 100)
    assert told == sorted(told)


def test_what_a_killed_worker_was_at_another_does_again(tmp_path):
    marker = tmp_path / "killed"
    told = []
    with LocalWorkers(2) as workers:
        before = workers.processes()
        tasks = [Task(dying_tasks.dies_once, (str(marker), 1), 1)]
        tasks += [Task(dying_tasks.times_ten, (n,), 1) for n in range(8)]
        (ten, who), *others = workers.results(tasks, lambda *pair: told.append(pair))
        after = workers.processes()

    assert ten == 10
    assert others == [10 * n for n in range(8)]
    victim = int(marker.read_text())
    assert victim in before
    assert victim not in after
    assert who != victim
    assert len(after) == 2
    assert not any(map(is_running, {*before, *after}))
    assert told[-1] == (9, 9)


@pytest.mark.parametrize(
    ("call", "error", "fact"),
    [
        (dying_tasks.dies_always, StudyError, "status 7"),  # whichever worker it is given to
        (dying_tasks.fails, TraceError, "t.parquet: row 3: is odd"),
        (dying_tasks.is_odd, StudyError, "ZeroDivisionError"),
    ],
)
def test_what_a_task_meets_is_told_here(call, error, fact):
    with LocalWorkers(1) as workers:
        with refused(error, fact):
            workers.results([Task(call, (), 1)])
        processes = workers.processes()

    assert not any(map(is_running, processes))


def test_an_interrupt_leaves_no_worker(tmp_path):
    marker = tmp_path / "at-it"

    def interrupt():
        while not (marker.exists() and marker.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), 2)

    threading.Thread(target=interrupt, daemon=True).start()
    processes = []

    def asks():
        with LocalWorkers(2) as workers:
            processes.extend(workers.processes())
            workers.results([Task(dying_tasks.sleeps, (str(marker),), 1)])

    with pytest.raises(KeyboardInterrupt):
        asks()

    assert int(marker.read_text()) in processes
    assert not any(map(is_running, processes))


ASKING = """
import sys
sys.path.insert(0, sys.argv[1])
import dying_tasks
from nicscope.studies.workers import LocalWorkers
from nicscope.studies.workers import Task
with LocalWorkers(1) as workers:
    workers.results([Task(dying_tasks.sleeps, (sys.argv[2],), 1)])
"""


def test_workers_end_when_whoever_asked_is_killed(tmp_path):
    marker = tmp_path / "at-it"
    asking = subprocess.Popen([sys.executable, "-c", ASKING, str(HERE), str(marker)])
    while not (marker.exists() and marker.read_text()):
        assert asking.poll() is None
        time.sleep(0.01)

    asking.kill()
    asking.wait()

    assert gone_soon(int(marker.read_text()))
