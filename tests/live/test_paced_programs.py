"""Programs whose clocks show virtual time: they print what the model says."""

from __future__ import annotations

import json
import platform
import re
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from live_clients import needs

from nicscope.live import layout
from nicscope.live.build import PACE, compiler

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="needs a time stamp counter that can be trapped"
)
KHZ = 2_500_000
NS_PER_LOOK = 25


@pytest.fixture
def clocks(libraries, tmp_path):
    """Runs a program that looks at clocks, by a machine's time that the test writes."""
    program = tmp_path / "clocks"
    source = str(Path(__file__).with_name("clocks.c"))
    subprocess.run([compiler(), "-O1", "-Wall", source, "-o", str(program)], check=True)
    head, clock = layout.DTYPES["pace"], layout.DTYPES["clock"]
    path = tmp_path / "pace"
    size = head.itemsize + layout.CONSTANTS["CLOCKS"] * clock.itemsize
    pace = np.memmap(path, np.uint8, "w+", shape=size)

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


@pytest.mark.long
@needs("ib_send_lat")
@pytest.mark.parametrize("program", ["ib_send_lat -s 64 -n 60", "ib_read_lat -s 64 -n 60"])
def test_perftest_prints_the_same_latency_each_time(execute, program):
    shown = set()
    for _ in range(2):
        ended = execute(
            *("--json", "--paced", "--peer", f"{program} localhost", "--", *shlex.split(program))
        )
        assert json.loads(ended.stdout)["mode"] == "paced"
        rows = re.findall(r"^\s*64\s+60\s+([\d.]+)\s+[\d.]+\s+([\d.]+)", ended.stderr, re.MULTILINE)
        shown |= {typical for _, typical in rows}

    # Virtual microseconds, as far from this machine's as its interpreter is slow.
    assert len(shown) == 1
    assert 1 < float(shown.pop()) < 3


@pytest.mark.long
def test_a_second_shell_joins_in_the_same_mode_or_not_at_all(execute, tmp_path):
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(execute, "--paced", "--", "sleep", "20")
        while not list(tmp_path.rglob("pace")):
            time.sleep(0.1)
        refused = execute("--", "true")
        joined = execute("--paced", "--", "true")
        first.result(200)

    assert refused.returncode == 2
    assert "join it with --paced" in refused.stderr
    assert joined.returncode == 0
