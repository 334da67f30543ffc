"""Who asks for a cost: the commands and schemes that charge each name of ``COSTS``.

Read from what charges them, so that it is true of all of them: prices of replays
(``pricing.MODELS``), programs in virtual time (``config.program_costs``), delivery and hosts on a
bus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.cost_name import COSTS
from nicscope.config.delivery import BURSTS, DELIVERY_COSTS
from nicscope.config.machine import MACHINE_TIMES, VIA_COSTS
from nicscope.config.program_costs import (
    BESIDE_PINS,
    EVERYWHERE,
    OF_DESIGN,
    OF_KERNEL,
    OF_SCHEME,
    TABLES,
)
from nicscope.config.scheme import Scheme
from nicscope.studies.pricing import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REPLAY = "replay, sweep, size"
SIMULATE = "simulate"
FLOW = "flow"
LATENCY = "latency"


def cost_uses() -> dict[str, dict[str, str]]:
    """Of each name of ``COSTS``, by command: for which schemes, or what of it, it is charged."""
    found: dict[str, dict[str, str]] = {name: {} for name in COSTS}
    for name, schemes in _by_cost(_replayed()).items():
        found[name][REPLAY] = _listed(schemes)
    for name, schemes in _by_cost(OF_SCHEME).items():
        found[name][SIMULATE] = _listed(schemes)
    for name in EVERYWHERE:
        found[name][SIMULATE] = "every program"
    for name in OF_KERNEL:
        found[name][SIMULATE] = "where the kernel serves"
    for name in OF_DESIGN:
        found[name][SIMULATE] = "caches of several ways"
    for name in BESIDE_PINS:
        found[name][SIMULATE] = Scheme.HANDLE.value
    for name in TABLES:
        found[name].setdefault(SIMULATE, "programs that check requests")
    for name in DELIVERY_COSTS:
        found[name] |= {FLOW: "every packet", SIMULATE: "every packet"}
    for name in BURSTS.values():
        found[name][SIMULATE] = "control messages in bursts"
    for name in MACHINE_TIMES:
        found[name] |= {LATENCY: "every way", SIMULATE: "hosts on a bus"}
    for name in VIA_COSTS:
        found[name] |= {LATENCY: "lost frames", SIMULATE: "VIA"}
    return found


def use_in_words(name: str) -> str:
    """Who charges the cost ``name``, on one line."""
    return "; ".join(f"{who} ({what})" for who, what in cost_uses()[name].items())


def _replayed() -> dict[Scheme, list[str]]:
    return {
        scheme: [term.cost for step in steps for term in step.terms]
        for scheme, steps in MODELS.items()
    }


def _by_cost(costs: Mapping[Scheme, Iterable[str]]) -> dict[str, list[Scheme]]:
    found: dict[str, list[Scheme]] = {}
    for scheme, names in costs.items():
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(scheme)
    return found


def _listed(schemes: Iterable[Scheme]) -> str:
    return ", ".join(scheme.value for scheme in schemes)
