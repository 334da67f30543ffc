"""Programs whose clocks show virtual time: they print what the model says."""

from __future__ import annotations

import json
import platform
import re
import shlex
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from live_clients import free_port, needs

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="needs a time stamp counter that can be trapped"
)

ROWS, MOST_TRIES = 3, 6  # each run prints two rows


@pytest.mark.long
@needs("ib_send_lat")
@pytest.mark.parametrize("program", ["ib_send_lat -s 64 -n 60", "ib_read_lat -s 64 -n 60"])
def test_perftest_prints_the_same_latency_each_time(execute, program):
    # Where other programs keep a processor from it, perftest may not find out what the counter
    # counts, and then says so; what it measures does not depend on them.
    rows, tries = [], 0
    while len(rows) < ROWS and tries < MOST_TRIES:
        tries += 1
        command = f"{program} -p {free_port()}"
        ended = execute(
            *("--json", "--paced", "--peer", f"{command} localhost", "--", *shlex.split(command))
        )
        assert json.loads(ended.stdout)["mode"] == "paced"
        rows += re.findall(r"^\s*64\s+60\s+[\d.]+\s+[\d.]+\s+([\d.]+)", ended.stderr, re.MULTILINE)
    shown = set(rows)

    assert len(rows) >= ROWS
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
