"""Waiting for signals in a process of its own, as this one's are pytest's."""

import os
import signal
import subprocess
import sys
import time

import pytest

from nicscope.traces.recording import record

WAITING = """
import os, sys
from nicscope.traces.recording.record import held_signals, wait_for_signal
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

    assert said == f"ReceivedSignal(number=15, code=0, sender={os.getpid()})\n"


@pytest.mark.parametrize(
    ("sender", "code", "passed_on"),
    [
        (0, 128, False),  # Ctrl-C, which the kernel sends to the whole foreground group
        (7, 0, False),  # the program, to its own group
        (1, 0, True),  # somebody else, to the recorder alone
    ],
)
def test_what_the_program_has_got_too_is_not_passed_on(sender, code, passed_on, monkeypatch):
    sent = []
    monkeypatch.setattr(record, "_send", lambda *told: sent.append(told))
    forwarder = record.Forwarder(7, lambda: [7, 8], lambda: None)

    forwarder._pass_on(record.ReceivedSignal(signal.SIGINT, code, sender))

    assert sent == [(7, signal.SIGINT)] * passed_on


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
