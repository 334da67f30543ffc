"""Swarms of random programs, honest and hostile, on every interface, until time is up.

    make swarm
    python tests/swarm/run_swarm.py --seconds 600
    python tests/swarm/run_swarm.py --interface vmmc --seed 1234

Each has a seed of its own, which says all that it does.  One that breaks a rule is named with the
command that repeats it, and the exit status is 1.
"""

import argparse
import hashlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import swarm_memory
import swarm_trapeze
import swarm_unet
import swarm_via
from swarm_rules import Chance, RuleError

MAKERS = {
    "unet": swarm_unet.make,
    "vmmc": swarm_memory.make_vmmc,
    "mini": swarm_memory.make_mini,
    "trapeze": swarm_trapeze.make,
    "via": swarm_via.make,
}


def arrays_of(found):
    """Every array in a structure of named tuples."""
    if isinstance(found, np.ndarray):
        return [found]
    if isinstance(found, tuple):
        return [array for each in found for array in arrays_of(each)]
    return []


def digest(made, results):
    """Of what the programs returned, and of all memory and all tables."""
    found = hashlib.sha256(repr(results).encode())
    cluster = made.cluster
    machine = cluster.simulation.machine
    skipped = id(getattr(machine, "calls", None))  # addresses of code
    for array in arrays_of(machine):
        if id(array) == skipped:
            continue
        for name in array.dtype.names or (None,):  # without what is between the fields
            found.update((array if name is None else array[name]).tobytes())
    return found.hexdigest()


def play(interface, seed):
    """Run one swarm and check it; what came of it, as a digest.  Errors: whatever broke."""
    made = MAKERS[interface](Chance(f"{interface} {seed}"))
    results = made.cluster.run()
    made.check(list(results))
    return digest(made, list(results))


def bounded(interface, seed, seconds):
    """The same, within that time of the processor: a machine that is busy makes no swarm longer."""

    def too_long(_signal, _frame):
        raise RuleError(f"it goes on after {seconds} s of the processor")

    before = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return play(interface, seed)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def title_of(interface, seed):
    """What it is."""
    return MAKERS[interface](Chance(f"{interface} {seed}")).title


def again(interface, seed):
    """The command that repeats a swarm."""
    return f"python tests/swarm/run_swarm.py --interface {interface} --seed {seed}"


def main():
    parser = argparse.ArgumentParser(description="random programs against the rules")
    parser.add_argument("--interface", choices=sorted(MAKERS), action="append")
    parser.add_argument("--seed", type=int, help="one swarm; by default ever new ones")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--most", type=int, default=10**9, help="swarms")
    parser.add_argument("--patience", type=int, default=300, help="seconds for one swarm")
    options = parser.parse_args()
    interfaces = options.interface or sorted(MAKERS)
    first = int.from_bytes(os.urandom(5), "little") if options.seed is None else options.seed
    most = len(interfaces) if options.seed is not None else options.most
    print(f"seeds from {first}", flush=True)
    began, failed, played = time.monotonic(), 0, 0
    while played < most and (played == 0 or time.monotonic() - began < options.seconds):
        interface = interfaces[played % len(interfaces)]
        seed = first + played // len(interfaces)
        played += 1
        try:
            found = bounded(interface, seed, options.patience)
            if played % 10 == 1 and bounded(interface, seed, options.patience) != found:
                raise RuleError("the same seed came to something else")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed += 1
            print(
                f"{interface} {seed} ({title_of(interface, seed)}): {type(error).__name__}: {error}"
            )
            if options.seed is not None:
                traceback.print_exc()
            print(f"    again: {again(interface, seed)}", flush=True)
    print(f"{played} swarms in {time.monotonic() - began:.0f} s, {failed} of them broke a rule")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
