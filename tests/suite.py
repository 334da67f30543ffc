"""The ways in which the tests run: which tests and how many Hypothesis examples each way has.

``python tests`` (``make test``) runs GATE, one way after the other; ``python tests --long`` runs
LONG.  Test modules ask ``INTERPRETED`` for their sizes, ``share`` and ``seeds`` for their examples,
and nothing else about the present way.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers


class Way(NamedTuple):
    """How pytest is started, and how hard Hypothesis tries."""

    title: str
    environment: dict[str, str]  # of Numba, besides what is set already
    kernels: int  # examples for each property of a kernel
    others: int  # and of everything else
    random: bool = False  # other examples each time; otherwise the same for ever


# Indices are checked where kernels are compiled: it costs a tenth more, and a way of its own would
# compile everything twice.  Without the checks run make test-long, make speed and make docs.
_PLAIN = {"NUMBA_DISABLE_JIT": "1"}
# LLVM optimises little: compiling takes a fifth less, and these kernels run for moments.
_CHECKED = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "1"}
WAYS = {
    "plain": Way("without the compiler", _PLAIN, 25, 10),
    "compiled": Way("compiled, with bounds checks", _CHECKED, 25, 20),
    "long-plain": Way("long, without the compiler", _PLAIN, 25, 25, random=True),
    "long-compiled": Way("long, compiled", {}, 400, 200, random=True),
}
GATE = ("plain", "compiled")
LONG = ("long-plain", "long-compiled")

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT") == "1"

# Kernels by themselves, and against their slow twins.  Wrong types, overflows and the indices
# that only a machine's integers can take show compiled, Python's own errors without the compiler.
KERNELS = {
    "drivers", "drivers_traced", "fabric", "memory", "nic", "swarm", "test_indexing.py",
    "drivers_bus/test_a_long_program.py", "drivers_bus/test_transactions.py",
    "drivers_simulate/test_connections_agree_with_the_oracle.py",
    "drivers_simulate/test_delivery_agrees_with_the_oracle.py", "drivers_simulate/test_flow.py",
    "drivers_simulate/test_propagation_delay.py",
    "ports/test_ports_agree_with_the_oracle.py", "ports/test_random_traffic.py",
}  # fmt: skip
# Compiled in the long ways only: these compile the firmware in shapes of their own, for up to half
# a minute each.  As part of the machine, it is compiled for ``interfaces`` and ``ports``.
SELDOM_COMPILED = {
    "drivers/translation/test_asking.py", "drivers/translation/test_holding.py",
    "drivers/translation/test_victim_list.py", "drivers_bus/test_a_long_program.py",
    "drivers_bus/test_transactions.py", "memory/test_stretches_beside_the_caches.py",
    "nic/test_connections_of_the_firmware.py", "nic/test_receives_of_the_firmware.py",
    "nic/test_the_firmware_alone.py",
}  # fmt: skip
# What tests compiling itself.
COMPILED_TOO = {"kernel"}
# Few tests that take long.  What has most tests comes first and these would come last, one process
# at them while the others have nothing left: they go before all.
FIRST = (
    "reproduce/test_edt.py", "cli/test_long_commands_say_how_far.py", "traces/test_straight.py",
    "reproduce/test_mini_programs.py", "studies/test_calibrate.py",
)  # fmt: skip
# Run compiled alone: nearly all of it sends messages, each of which costs many times more
# without the compiler.  What differs between the two, the twins of the same kernels show.
MESSAGES = {"apps", "interfaces", "library/test_library.py", "ports"}


def ways_of(places: set[str], marks: set[str]) -> set[str]:
    """The ways in which a test runs, from the folders and file that it is in and from its marks."""
    twin = bool(places & KERNELS)
    compiled = "compiled" in marks or bool(places & MESSAGES and not twin)
    if "interpreted" in marks:
        return {"plain"}
    if "long" in marks:
        return {"long-compiled" if twin or compiled else "long-plain"}
    ways = set() if compiled else {"plain"}
    compiled_too = "compiled_too" in marks or places & COMPILED_TOO
    if compiled or compiled_too or (twin and not places & SELDOM_COMPILED):
        ways.add("compiled")
    return ways | {"long-compiled"} if twin else ways


def in_turn(files: list[str]) -> list[str]:
    """``files``, one for each test, as they are best begun: FIRST, then those of most tests."""
    many = Counter(files)
    return sorted(many, key=lambda file: (file not in FIRST, -many[file]))


def may_hold(way: str, places: set[str], text: str) -> bool:
    """Whether a test file can have tests of ``way``: reading it costs less than importing it."""
    if way == "plain":
        return not places & MESSAGES or bool(places & KERNELS) or "mark.interpreted" in text
    if way.startswith("long") and ("mark.long" in text or "seeds(" in text):
        return True
    if way == "compiled":
        return bool(places & (KERNELS | COMPILED_TOO | MESSAGES)) or "mark.compiled" in text
    return way == "long-compiled" and bool(places & KERNELS)


def present() -> str:
    """The way that the environment asks for, where pytest is started by hand."""
    return "plain" if INTERPRETED else "compiled"


def load_examples(way: str, places: set[str]) -> None:
    """Set how many examples the properties of a test module get that is about to be imported."""
    chosen = WAYS[way]
    if not chosen.random:
        # Hypothesis tries the numbers and words of all modules that happen to be imported: each
        # edit, and each other order of the tests, would change every example of the gate.
        none = providers.Constants()
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", lambda: none)
    settings.register_profile(
        way,
        deadline=None,  # the first example pays for compilation
        max_examples=chosen.kernels if places & KERNELS else chosen.others,
        derandomize=not chosen.random,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile(way)


def seeds(count: int, long: int) -> list[Any]:
    """The first ``count`` seeds for the gate, and more, up to ``long``, for the long ways."""
    return [*range(count), *(pytest.param(n, marks=pytest.mark.long) for n in range(count, long))]


def share(part: float, **more: Any) -> settings:
    """That part of the examples which the way gives: for properties whose examples take long."""
    return settings(max_examples=max(1, round(part * settings.default.max_examples)), **more)
