"""SIGKILL at ten random moments: the same command continues, and the table is the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from numba.core import config
from trace_files import write

MOMENTS = 10
DESIGNS = 144

pytestmark = pytest.mark.skipif(
    bool(config.DISABLE_JIT or config.BOUNDSCHECK), reason="tells nothing new, and takes longer"
)

# Imports take a second, so they are made once.  Each line on stdin asks for a sweep in a forked
# child, killed after some seconds unless it is 0 of them; its status comes on stdout.
SERVER = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from sweep_run import run
for line in sys.stdin:
    trace, out, seconds = line.split()
    child = os.fork()
    if not child:
        run(trace, out)
    if float(seconds):
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def sweep():
    """Call it with trace, table and when to kill it, in seconds: the status of the sweep."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(Path(__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(trace, out, seconds=0.0):
        server.stdin.write(f"{trace} {out} {seconds}\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    yield ask
    server.kill()
    server.communicate()


def test_a_sweep_killed_at_ten_random_moments_ends_with_the_same_table(sweep, tmp_path):
    trace = write(tmp_path / "t.parquet", count=20_000)
    for name in ("warm", "whole"):
        began = time.monotonic()
        assert sweep(trace, tmp_path / name) == 0
        seconds = time.monotonic() - began
    table = (tmp_path / "whole").read_bytes()
    draw = random.Random(3)
    kept = []
    for moment in range(MOMENTS):
        out, journal = tmp_path / f"{moment}", tmp_path / f"{moment}.journal"
        status = sweep(trace, out, seconds * draw.uniform(0.1, 0.9))
        assert status in (-signal.SIGKILL, 0)  # it may have been quicker than the first
        assert out.exists() or status
        kept.append(journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0)

        assert sweep(trace, out) == 0

        assert out.read_bytes() == table
        assert not journal.exists()
    assert sum(0 < lines < DESIGNS for lines in kept) >= 3, kept  # in the midst of their work
