"""What the steps of a running program cost on a platform: integer picoseconds for the driver.

Machines describe one step in different words.  ``FALLBACKS`` and ``_CALLS`` say which other cost
stands in for one that a platform does not state; replay's prices borrow less (``cost_model``).
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.delivery import ServedBy
from nicscope.config.scheme import Scheme
from nicscope.errors import PlatformError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.config.platform import Platform
    from nicscope.config.unit_cost import UnitCost

# Whatever translates: queues, the kernel, processes, the disk.
EVERYWHERE = (
    "system_call",
    "post",
    "poll",
    "interrupt_entry",
    "kernel_pin_shared",
    "zero_map_in",
    "page_fault",
    "page_out",
    "thread_delay",
    "wake_up",
    "notify",
    "ni_handle",
    "send_queue",
    "receive_queue",
)
# Where the host's kernel serves ports, besides; elsewhere it need not be stated.
OF_KERNEL = ("trap",)
_COPY = ("copy_start", "copy_per_byte")
_KERNEL = ("interrupt", "kernel_pin", "kernel_unpin")
# What translation takes besides.
OF_SCHEME: dict[Scheme, tuple[str, ...]] = {
    Scheme.PINNED: _COPY,
    Scheme.STATIC: ("ni_table_read", "user_pin"),
    Scheme.INTERRUPT: ("ni_check", *_KERNEL),
    Scheme.UNET_MM: (
        "ni_hit_send",
        "ni_hit_receive",
        "ni_hit_pretranslate",
        "ni_handshake",
        *_KERNEL,
        "kernel_pin_receive",
        *_COPY,
    ),
    # the interrupt is for a second-level table that is swapped out (UTLB, 3.3)
    Scheme.UTLB: (
        "user_check",
        "user_pin",
        "user_unpin",
        "ni_check",
        "ni_dma",
        "ni_miss",
        "interrupt",
    ),
    Scheme.UTLB_SHARED: ("user_tree", "user_pin", "user_unpin", "ni_check", "ni_dma", "ni_miss"),
    Scheme.UTLB_PROCESS: ("user_tree", "user_pin", "user_unpin", "ni_table_read"),
    Scheme.HANDLE: ("ni_check", "miss_delay", "kernel_pin", "kernel_unpin"),
    Scheme.RNIC: ("ni_check", "icm_fetch", "user_pin"),
}
# What some designs of a scheme never charge: it may be unstated where it is not charged.
OF_DESIGN = ("ni_further_way",)
# What may be unstated: a miss thread that was not timed takes what its pins take.
BESIDE_PINS = ("miss_processing",)
TABLES = ("request_check_min", "request_check_max", "user_pin", "user_unpin", "ni_dma", "ni_miss")
PROGRAM_COSTS = (
    *OF_KERNEL,
    *EVERYWHERE,
    *dict.fromkeys(name for names in OF_SCHEME.values() for name in names if name not in TABLES),
    *OF_DESIGN,
    *BESIDE_PINS,
)

# Where a cost is not stated, the first of these that is. What does not apply stands in for none.
FALLBACKS = {
    "user_tree": ("user_check",),
    "ni_hit_send": ("ni_check", "ni_handle"),
    "ni_hit_receive": ("ni_check", "ni_handle"),
    "ni_hit_pretranslate": ("ni_check", "ni_handle"),
    "ni_check": ("ni_hit_send", "ni_handle"),
    "ni_table_read": ("ni_check", "ni_hit_send", "ni_handle"),
    "kernel_pin_receive": ("kernel_pin",),
    "miss_delay": ("interrupt",),
}
# A user's call where it was not timed: into the kernel and back, and the kernel's work by page.
# On UTLB's prototype that is how the two relate (27 = 10 + 17 us, 25 = 10 + 15).
_CALLS = {"user_pin": "kernel_pin", "user_unpin": "kernel_unpin"}

LONGEST = 64  # sizes that a table holds by itself
MIDDLE = Fraction(1, 2)


class ProgramCosts(NamedTuple):
    """Picoseconds of each step (per byte, where the name says so); what does not apply is 0."""

    steps: dict[str, int]
    """Every name of ``PROGRAM_COSTS``."""
    tables: dict[str, NDArray[np.int64]]
    """Every name of ``TABLES``: entry n is a call of n pages, or a fetch of n entries; entry 0 is
    0.  Beyond its end the straight line through its last two entries goes on."""
    unstated: tuple[str, ...]
    """Names of ``OF_DESIGN`` that the platform does not state; they are 0 in ``steps``."""
    served_by: str = ServedBy.NIC.value


def program_costs(
    platform: Platform,
    scheme: Scheme,
    longest: int = LONGEST,
    place: Fraction = MIDDLE,
    *,
    served_by: str = ServedBy.NIC,
) -> ProgramCosts:
    """Costs of programs on ``platform`` whose NICs translate by ``scheme``.

    Tables reach to ``longest`` (33 or more, so that its end lies beyond every printed size).  Of a
    range the value at ``place`` is taken: 0 is its low end, 1 its high end.  What the scheme never
    charges is 0 if the platform does not state it; what only a kernel that serves ports charges is
    0 unless ``served_by`` is one, whatever the platform states.  Errors: ``PlatformError`` naming
    every cost that scheme and program need and the platform does not state; ``ValueError`` for a
    ``longest`` or ``place`` out of range.
    """
    import numpy as np

    if longest < 33 or not 0 <= place <= 1:
        raise ValueError(f"longest must be 33 or more and place from 0 to 1: {longest}, {place}")
    check_priced(platform, scheme, served_by)
    steps = {name: _step(platform, name, place) for name in PROGRAM_COSTS}
    if served_by != ServedBy.KERNEL:
        steps |= dict.fromkeys(OF_KERNEL, 0)
    tables = {name: _table(platform, name, longest, place) for name in TABLES}
    return ProgramCosts(
        {name: ps or 0 for name, ps in steps.items()},
        {
            name: np.array([0] * (longest + 1) if row is None else row, np.int64)
            for name, row in tables.items()
        },
        unpriced_of_design(platform),
        served_by,
    )


def check_priced(platform: Platform, scheme: Scheme, served_by: str = ServedBy.NIC) -> None:
    """Return if ``platform`` states all that programs whose NICs translate by ``scheme`` need.

    Errors: ``PlatformError`` naming what it does not.
    """
    needed = [*EVERYWHERE, *OF_SCHEME[scheme]]
    needed += OF_KERNEL if served_by == ServedBy.KERNEL else ()
    absent = [name for name in needed if not _is_priced(platform, name)]
    if absent:
        raise PlatformError(
            f"platform {platform.name!r} states no {', '.join(absent)}: programs over "
            f"{scheme.value} cannot be simulated on it; state them in a file of your own, or "
            "choose another platform"
        )


def unpriced_of_design(platform: Platform) -> tuple[str, ...]:
    """Names of ``OF_DESIGN`` that ``platform`` does not state."""
    return tuple(name for name in OF_DESIGN if not _is_priced(platform, name))


def _is_priced(platform: Platform, name: str) -> bool:
    """Whether ``platform`` states that cost, what stands in for it, or that it does not apply."""
    if name in platform.not_applicable:
        return True
    if any(one in platform.costs for one in (name, *FALLBACKS.get(name, ()))):
        return True
    return name in _CALLS and all(
        _is_priced(platform, part) for part in ("system_call", _CALLS[name])
    )


def _step(platform: Platform, name: str, place: Fraction) -> int | None:
    """Picoseconds of one event; None if neither it nor what stands in for it is stated."""
    if name in platform.not_applicable:
        return 0
    for one in (name, *FALLBACKS.get(name, ())):
        if one in platform.costs:
            cost = platform.costs[one]
            return int(cost.low_ps + place * (cost.high_ps - cost.low_ps))
    return None


def _table(platform: Platform, name: str, longest: int, place: Fraction) -> list[int] | None:
    """Picoseconds by size, from 0 to ``longest``; None as in ``_step``."""
    if name in platform.not_applicable:
        return [0] * (longest + 1)
    if name in platform.costs:
        return [0, *_by_size(platform.costs[name], longest)]
    if name not in _CALLS:
        return None
    call, page = (_step(platform, part, place) for part in ("system_call", _CALLS[name]))
    if call is None or page is None:
        return None
    return [0, *(call + size * page for size in range(1, longest + 1))]


@functools.lru_cache(maxsize=64)
def _by_size(cost: UnitCost, longest: int) -> tuple[int, ...]:
    """Picoseconds of sizes 1 to ``longest``; a line between printed sizes is rounded down."""
    return tuple(int(cost.each(Fraction(size))[0]) for size in range(1, longest + 1))
