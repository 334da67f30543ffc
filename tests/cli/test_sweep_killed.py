"""SIGKILL at ten random moments: the same command continues, and the table is the same."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from trace_files import write

MOMENTS = 10
DESIGNS = 144

pytestmark = [pytest.mark.compiled, pytest.mark.long]

# Imports take a second, so they are made once.  Each line on stdin asks for a sweep in a forked
# child, which is killed some seconds after its journal has some lines; its status comes on stdout.
SERVER = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from sweep_run import run
for line in sys.stdin:
    trace, out, lines, seconds = line.split()
    journal = Path(out + ".journal")
    child = os.fork()
    if not child:
        run(trace, out)
    ended = 0
    while not ended and (not journal.exists() or journal.read_bytes().count(b"\\n") < int(lines)):
        time.sleep(0.001)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        time.sleep(float(seconds))
        os.kill(child, signal.SIGKILL)
        ended, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""
NEVER = 10**6  # lines


@pytest.fixture
def sweep():
    """Call it with trace, table and when to kill it: the status of the sweep."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(Path(__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(trace, out, lines=NEVER, seconds=0.0):
        server.stdin.write(f"{trace} {out} {lines} {seconds}\n")
        server.stdin.flush()
        return int(server.stdout.readline())

    yield ask
    server.kill()
    server.communicate()


def test_a_sweep_killed_at_ten_random_moments_ends_with_the_same_table(sweep, tmp_path):
    trace = write(tmp_path / "t.parquet", count=6_000)
    assert sweep(trace, tmp_path / "whole.parquet") == 0
    table = (tmp_path / "whole.parquet").read_bytes()
    draw = random.Random(3)
    kept = []
    for moment in range(MOMENTS):
        out = tmp_path / f"{moment}.parquet"
        journal = tmp_path / f"{moment}.parquet.journal"
        status = sweep(trace, out, draw.randrange(DESIGNS), draw.uniform(0.0, 0.02))
        assert status in (-signal.SIGKILL, 0)  # the last lines may come too quickly
        assert out.exists() or status
        kept.append(journal.read_bytes().count(b"\n") - 1 if journal.exists() else 0)

        assert sweep(trace, out) == 0

        assert out.read_bytes() == table
        assert not journal.exists()
    assert sum(0 < lines < DESIGNS for lines in kept) >= MOMENTS // 2, kept
