"""Chains taken apart, so that every operation is asked for by itself; and all that a run leaves."""

import hashlib
import inspect

import numpy as np

from nicscope.drivers.simulate import process as programs
from nicscope.drivers.simulate.process import OWN
from nicscope.drivers.simulate.records import POST

# What is only on its way between programs and the driver.
_PASSING = {"outbox", "inbox", "chains", "chained", "inlined", "due", "begun", "calls", "agenda"}
OPERATION = 1  # its place in what is asked for


def take_apart(monkeypatch):
    """Have each operation of a chain begin when Python hears of the end of the one before.

    How many operations were asked for so, of each process that ever gave a chain.
    """
    left = {}
    asked = []
    resume = programs.Simulation._resume
    size, follow = programs.SIZE, programs.FOLLOW

    def by_one(self, number, ended, begun):
        process = self._actors[number]
        if left.get(process) and ended[OWN] >= 0:
            place, request = left[process].pop(0)
            if programs._unpack_from(request)[OPERATION] == POST:
                process.control[:] = process.inlined[place]
            begun.append(request)
            return
        left.pop(process, None)
        count = len(begun)
        resume(self, number, ended, begun)
        if len(begun) > count and len(begun[-1]) > size:
            chain = begun[-1]
            parts = [chain[at : at + size] for at in range(0, len(chain), size)]
            parts = [part[:follow] + bytes(8) + part[follow + 8 :] for part in parts]
            asked.append(len(parts))
            begun[-1], left[process] = parts[0], [*enumerate(parts[1:])]

    monkeypatch.setattr(programs.Simulation, "_resume", by_one)
    return asked


def keep_runs(monkeypatch, log=20_000):
    """What every run from now on leaves, by array and field, and when its programs ended."""
    runs = []
    make, continue_run = programs.Simulation.__init__, programs.Simulation.continue_run

    def made(self, *given, **named):
        bound = inspect.signature(make).bind(self, *given, **named)
        bound.arguments["keep_log"] = log
        make(*bound.args, **bound.kwargs)

    def ran(self, until=None):
        is_over = continue_run(self, until)
        ends = str([each.now for each in self.processes])
        runs.append(left_by(self.machine) | {"ends": ends})
        return is_over

    monkeypatch.setattr(programs.Simulation, "__init__", made)
    monkeypatch.setattr(programs.Simulation, "continue_run", ran)
    return runs


def left_by(machine):
    """A digest of each array of a machine, and of each field of its records."""
    return {
        name: hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest()
        for name, each in _arrays(machine)
    }


def _arrays(state, path=""):
    for name in state._fields:
        part = getattr(state, name)
        if name in _PASSING:
            continue
        if hasattr(part, "_fields"):
            yield from _arrays(part, f"{path}{name}.")
        elif isinstance(part, np.ndarray):
            for field in part.dtype.names or ("",):
                yield f"{path}{name} {field}", part[field] if field else part
