"""Waiting for signals in a process of its own, as this one's are pytest's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

WAITING = """
import os, sys
from nicscope.traces.recording.signals import held_signals, wait_for_signal
with held_signals():
    print(os.getpid(), flush=True)
    print(wait_for_signal({seconds}))
"""


def waiting(seconds):
    program = WAITING.format(seconds=seconds)
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline().strip() == str(running.pid)
    return running


def test_a_signal_comes_with_its_sender():
    running = waiting(30)
    running.send_signal(signal.SIGTERM)
    said, _ = running.communicate(timeout=30)

    assert said == f"Came(number=15, code=0, sender={os.getpid()})\n"


@pytest.mark.parametrize("stop", [False, True])
def test_no_signal_comes_of_waiting_though_it_be_stopped_meanwhile(stop):
    running = waiting(0.4)
    if stop:
        time.sleep(0.1)
        running.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        running.send_signal(signal.SIGCONT)
    said, _ = running.communicate(timeout=30)

    assert said == "None\n"
