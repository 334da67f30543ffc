"""Which counts pay which costs, scheme by scheme: data for ``pricing``.

The two formulas of UTLB 6.2 are the entries ``utlb`` and ``interrupt``; the sums of U-Net/MM's
Table 1 are ``unet-mm``.  Where a component lists several terms, the first one whose cost the
platform states is used: machines describe the same step in different words.
"""

from __future__ import annotations

import msgspec

from nicscope.config.scheme import Scheme


class Term(msgspec.Struct, frozen=True):
    """A count times a cost; ``count`` names the first count less the others.

    ``size`` names the count that, divided by ``count``, is the mean size of one event: the
    argument of a tabulated cost.
    """

    cost: str
    count: tuple[str, ...]
    size: str | None = None


class Step(msgspec.Struct, frozen=True):
    """A component of a lookup's cost and the terms that can price it, best first."""

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
        Step(
            "miss_processing",
            (Term("miss_processing", ("interrupts",)), Term("kernel_pin", ("pins",))),
        ),
        Step("retransmission", (Term("retransmission", ("dropped",)),)),
        _KERNEL_UNPIN,
    ),
}

# Steps that a design may be without although its scheme has them.
WAYS_STEP = _NI_WAYS.name

STEP_NAMES: tuple[str, ...] = tuple(
    dict.fromkeys(step.name for steps in MODELS.values() for step in steps)
)
