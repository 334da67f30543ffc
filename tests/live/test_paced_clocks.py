"""Clocks of paced programs, without a machine behind them: virtual time stands where it is put."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from nicscope.live import layout
from nicscope.live.build import PACE
from nicscope.studies.verbs_live import _new_pace

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="needs Linux on x86-64"
)
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
