"""Counts multiplied by a platform's costs, component by component."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.costs import COSTS, Evidence, half_up
from nicscope.config.design import BURSTS, DELIVERY_COSTS, Design, Scheme, ServedBy
from nicscope.config.platform import (
    BESIDE_PINS,
    EVERYWHERE,
    MACHINE_TIMES,
    OF_DESIGN,
    OF_KERNEL,
    OF_SCHEME,
    TABLES,
    VIA_COSTS,
    Platform,
    in_us,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from decimal import Decimal


class Denominator(StrEnum):
    """What rates are taken per: a count that is equal for all compared designs."""

    LOOKUP = "lookup"
    REQUEST = "request"

    @property
    def plural(self) -> str:
        """Several of it, which is also how counts are called."""
        return f"{self.value}s"


def denominator_of(page_sizes: Iterable[int | None]) -> Denominator:
    """The denominator for designs with pages of ``page_sizes``."""
    return Denominator.LOOKUP if len(set(page_sizes)) <= 1 else Denominator.REQUEST


class Term(msgspec.Struct, frozen=True):
    """A count times a cost; ``count`` names the first count less the others.

    ``size`` names the count that, divided by ``count``, is the mean size of one event: the
    argument of a tabulated cost.
    """

    cost: str
    count: tuple[str, ...]
    size: str | None = None


class Step(msgspec.Struct, frozen=True):
    """A component of a lookup's cost and the terms that can price it, preferred first."""

    name: str
    terms: tuple[Term, ...]


_USER_CHECK = Step("user_check", (Term("user_check", ("lookups",)),))
_USER_TREE = Step("user_check", (Term("user_tree", ("lookups",)),))
_USER_PIN = Step("user_pin", (Term("user_pin", ("pin_calls",), "pins"),))
_USER_UNPIN = Step("user_unpin", (Term("user_unpin", ("unpin_calls",), "unpins"),))
_NI_CHECK = Step("ni_check", (Term("ni_check", ("lookups",)),))
_NI_WAYS = Step("further_ways", (Term("ni_further_way", ("further_ways",)),))
_NI_TABLE = Step("ni_check", (Term("ni_table_read", ("lookups",)),))
_NI_MISS = Step("ni_miss", (Term("ni_miss", ("ni_misses",), "entries_fetched"),))
_INTERRUPT = Step("interrupt", (Term("interrupt", ("interrupts",)),))
_KERNEL_UNPIN = Step("kernel_unpin", (Term("kernel_unpin", ("unpins",)),))
MODELS: dict[Scheme, tuple[Step, ...]] = {
    Scheme.PINNED: (
        Step("copy_start", (Term("copy_start", ("requests", "rejected")),)),
        Step("copy", (Term("copy_per_byte", ("bytes_copied",)),)),
    ),
    Scheme.STATIC: (
        _NI_TABLE,
        Step("registration", (Term("user_pin", ("pin_calls",), "pins"),)),
    ),
    Scheme.INTERRUPT: (
        _NI_CHECK,
        _NI_WAYS,
        _INTERRUPT,
        Step("kernel_pin", (Term("kernel_pin", ("pins",)),)),
        _KERNEL_UNPIN,
    ),
    Scheme.UNET_MM: (
        Step(
            "ni_hit_send",
            (
                Term("ni_hit_send", ("lookups_send", "ni_misses_send")),
                Term("ni_check", ("lookups_send",)),
            ),
        ),
        Step(
            "ni_hit_receive",
            (
                Term("ni_hit_receive", ("lookups_receive", "ni_misses_receive")),
                Term("ni_check", ("lookups_receive",)),
            ),
        ),
        Step("ni_handshake", (Term("ni_handshake", ("ni_misses",)),)),
        _INTERRUPT,
        Step("kernel_pin", (Term("kernel_pin", ("ni_misses_send",)),)),
        Step(
            "kernel_pin_receive",
            (
                Term("kernel_pin_receive", ("ni_misses_receive",)),
                Term("kernel_pin", ("ni_misses_receive",)),
            ),
        ),
        _KERNEL_UNPIN,
    ),
    Scheme.UTLB: (_USER_CHECK, _USER_PIN, _NI_CHECK, _NI_WAYS, _NI_MISS, _USER_UNPIN),
    Scheme.UTLB_SHARED: (_USER_TREE, _USER_PIN, _NI_CHECK, _NI_WAYS, _NI_MISS, _USER_UNPIN),
    Scheme.UTLB_PROCESS: (_USER_TREE, _USER_PIN, _NI_TABLE, _USER_UNPIN),
    Scheme.HANDLE: (
        _NI_CHECK,
        _NI_WAYS,
        Step(
            "interrupt",
            (Term("miss_delay", ("interrupts",)), Term("interrupt", ("interrupts",))),
        ),
        Step("miss_processing", (Term("miss_processing", ("interrupts",)),)),
        Step("kernel_pin", (Term("kernel_pin", ("pins",)),)),
        Step("retransmission", (Term("retransmission", ("dropped",)),)),
        _KERNEL_UNPIN,
    ),
    # What is registered ahead is no part of a lookup: 'nicscope rdma register' tells what it takes.
    Scheme.RNIC: (_NI_CHECK, Step("icm_fetch", (Term("icm_fetch", ("icm_fetches",)),))),
}
WAYS_STEP = _NI_WAYS.name
STEP_NAMES: tuple[str, ...] = tuple(
    dict.fromkeys(step.name for steps in MODELS.values() for step in steps)
)


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """A priced step: ``count`` events, the bounds on one of them, and on all of them."""

    name: str
    cost: str  # the platform's name for what one event costs
    count: int
    size: Fraction | None  # mean size of an event, for a tabulated cost
    unit_ps: tuple[Fraction, Fraction]
    low_ps: int
    high_ps: int
    evidence: Evidence
    source: str

    def to_json(self) -> dict[str, Any]:
        """Everything in microseconds; a range is a pair."""
        return {
            "name": self.name,
            "cost": self.cost,
            "count": self.count,
            "size": None if self.size is None else float(self.size),
            "unit_cost_us": plain((in_us(self.unit_ps[0]), in_us(self.unit_ps[1]))),
            "total_us": plain((in_us(self.low_ps), in_us(self.high_ps))),
            "evidence": self.evidence.value,
            "source": self.source,
        }


class Unpriced(msgspec.Struct, frozen=True):
    """A step that happened ``count`` times (None: not counted) at an unknown cost."""

    name: str
    count: int | None
    why: str
    cost: str | None = None  # what the platform does not state; None: it does, a count is missing


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The priced components of a replay, and their sum."""

    platform: str
    lookups: int
    requests: int
    components: tuple[Component, ...]
    not_applicable: dict[str, str]  # step: why
    unpriced: tuple[Unpriced, ...]

    @property
    def low_ps(self) -> int:
        """Sum of the components' lower bounds."""
        return sum(part.low_ps for part in self.components)

    @property
    def high_ps(self) -> int:
        """Sum of the components' upper bounds; no bound at all if ``is_lower_bound``."""
        return sum(part.high_ps for part in self.components)

    @property
    def is_lower_bound(self) -> bool:
        """Whether a step that happened has no price."""
        return bool(self.unpriced)

    @property
    def reason(self) -> str:
        """Why the cost is a lower bound, in a clause; empty if it is none."""
        missing = [part.cost for part in self.unpriced if part.cost is not None]
        parts = [f"{self.platform} states no {', '.join(dict.fromkeys(missing))}"] * bool(missing)
        parts += [f"{part.name} {part.why}" for part in self.unpriced if part.cost is None]
        return "; ".join(parts)

    @property
    def is_known(self) -> bool:
        """Whether a step has a price, or no step that happened lacks one."""
        return any(part.count for part in self.components) or not self.unpriced

    def total_us(self) -> tuple[Decimal, Decimal] | None:
        """Bounds on the total, or None if nothing that happened has a price."""
        return (in_us(self.low_ps), in_us(self.high_ps)) if self.is_known else None

    def per_us(self, parts: int) -> tuple[Decimal, Decimal] | None:
        """Bounds on each of ``parts`` equal parts; None if there are none, or nothing is priced."""
        if not self.is_known or not parts:
            return None
        return in_us(Fraction(self.low_ps, parts)), in_us(Fraction(self.high_ps, parts))

    def per_lookup_us(self) -> tuple[Decimal, Decimal] | None:
        """Bounds on the mean per lookup, or None without lookups or prices."""
        return self.per_us(self.lookups)

    def count_of(self, denominator: Denominator) -> int:
        """The count of the denominator."""
        return self.lookups if denominator is Denominator.LOOKUP else self.requests

    def to_json(self) -> dict[str, Any]:
        """Flat view in microseconds: means and ``total`` are null where unknown."""
        means = {"per_lookup": self.per_lookup_us(), "per_request": self.per_us(self.requests)}
        total = self.total_us()
        return {
            "platform": self.platform,
            **{name: plain(mean) for name, mean in means.items()},
            "total": plain(total),
            "lower_bound": self.is_lower_bound,
            "components": [part.to_json() for part in self.components],
            "not_applicable": [
                {"name": name, "why": why} for name, why in self.not_applicable.items()
            ],
            "unpriced": [
                {"name": part.name, "count": part.count, "why": part.why} for part in self.unpriced
            ],
        }


def price(counts: Mapping[str, int], design: Design, platform: Platform) -> Cost:
    """Price of ``counts`` (under the names that replay reports) of ``design`` on ``platform``.

    ``unet-mm`` needs ``lookups_send`` and ``lookups_receive`` too, as a hit costs differently on
    each path.  A count that is not given leaves its step unpriced.
    """
    components: list[Component] = []
    unpriced: list[Unpriced] = []
    own = {step.name for step in MODELS[design.scheme]}
    no_step = f"scheme {design.scheme.value} has no such step"
    not_applicable = {name: no_step for name in STEP_NAMES if name not in own}
    for step in MODELS[design.scheme]:
        why_not = _why_skipped(step.name, design, platform)
        if why_not is not None:
            not_applicable[step.name] = why_not
            continue
        term = _first_priced(step, platform)
        if term is None:
            costs = " or ".join(term.cost for term in step.terms)
            count = _count(step.terms[0], counts)
            if count != 0:
                why = f"{platform.name} states no {costs}"
                unpriced.append(Unpriced(step.name, count, why, costs))
        elif term.cost in platform.not_applicable:
            not_applicable[step.name] = platform.not_applicable[term.cost]
        else:
            part = _component(step, term, counts, platform)
            if isinstance(part, Component):
                components.append(part)
            else:
                unpriced.append(part)
    return Cost(
        platform=platform.name,
        lookups=counts["lookups"],
        requests=counts.get("requests", 0),
        components=tuple(components),
        not_applicable=not_applicable,
        unpriced=tuple(unpriced),
    )


def _why_skipped(step: str, design: Design, platform: Platform) -> str | None:
    """Why ``design`` on ``platform`` skips a step that its scheme has; None if it does not."""
    if step in _WITHOUT:
        return _WITHOUT[step](design)
    stated = {*platform.costs, *platform.not_applicable}
    if step in BESIDE_PINS and step not in stated and "kernel_pin" in stated:
        return f"{platform.name} states no {step}: a miss takes what its pins take"
    return None


def _why_no_search(design: Design) -> str | None:
    """Why no lookup of ``design`` searches beyond the first way; None if some may."""
    from nicscope.nic.layout import SEARCHED_WAYS

    ways = design.ways or 1
    if ways == 1:
        return "sets have one way"
    if ways > SEARCHED_WAYS:
        return f"sets of more than {SEARCHED_WAYS} ways have an index and are not searched"
    return None


def _why_no_exchange(design: Design) -> str | None:
    """Why a miss of ``design`` needs no exchange between NIC and host; None if it does."""
    if design.served_by == ServedBy.KERNEL:
        return "the host's kernel translates itself, in a trap"
    return None


# Steps that a design may be without although its scheme has them, and what says why.
_WITHOUT = {
    WAYS_STEP: _why_no_search,
    "ni_handshake": _why_no_exchange,
}


def _first_priced(step: Step, platform: Platform) -> Term | None:
    """The first term of ``step`` that the platform prices or declares not applicable."""
    for term in step.terms:
        if term.cost in platform.costs or term.cost in platform.not_applicable:
            return term
    return None


def _count(term: Term, counts: Mapping[str, int]) -> int | None:
    if any(name not in counts for name in term.count):
        return None
    first, *others = term.count
    return counts[first] - sum(counts[name] for name in others)


def _component(
    step: Step, term: Term, counts: Mapping[str, int], platform: Platform
) -> Component | Unpriced:
    """``term`` priced.

    A tabulated cost is read at the mean size of its events.  That is exact if they are alike,
    and nearly so otherwise, because the published tables are nearly straight lines (UTLB's pin
    and unpin: within 0.5 and 1.4 us of the line through their ends).
    """
    count = _count(term, counts)
    if count is None or (term.size is not None and term.size not in counts):
        needed = ", ".join([*term.count, *([term.size] if term.size else [])])
        return Unpriced(step.name, count, f"needs the counts {needed}")
    size = None
    if term.size is not None:
        size = Fraction(counts[term.size], count) if count else Fraction(1)
    unit_cost = platform.costs[term.cost]
    low, high = unit_cost.each(size)
    return Component(
        name=step.name,
        cost=term.cost,
        count=count,
        size=size,
        unit_ps=(low, high),
        low_ps=half_up(low * count),
        high_ps=half_up(high * count),
        evidence=unit_cost.evidence_at(size),
        source=unit_cost.origin.source,
    )


def plain(bounds: tuple[Decimal, Decimal] | None) -> float | list[float] | None:
    """``bounds`` as JSON: a number, a pair if they differ, null if unknown."""
    if bounds is None:
        return None
    low, high = map(float, bounds)
    return low if low == high else [low, high]


REPLAY = "replay, sweep, size"
SIMULATE = "simulate"
FLOW = "flow"
LATENCY = "latency"


def cost_uses() -> dict[str, dict[str, str]]:
    """For each name of ``COSTS``, by command: the schemes, or parts, that it is charged for."""
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


def charged_by(name: str) -> str:
    """Which commands and schemes charge the cost ``name``, on one line."""
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
