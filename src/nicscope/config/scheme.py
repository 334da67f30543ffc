"""The eight translation schemes, and every setting that a design may give them.

``SETTINGS`` is the single list of names; ``USES`` says which scheme knows which.  What a setting
does is told in ``docs/designs.md``.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto

import msgspec

from nicscope.memory.replacement import Replacement


class Scheme(StrEnum):
    """How a network interface comes by its translations."""

    PINNED = "pinned"
    STATIC = "static"
    INTERRUPT = "interrupt"
    UNET_MM = "unet-mm"
    UTLB = "utlb"
    UTLB_SHARED = "utlb-shared"
    UTLB_PROCESS = "utlb-process"
    HANDLE = "handle"


class Kind(Enum):
    """What a value of a setting looks like."""

    COUNT = auto()
    BYTES = auto()  # a count of bytes; text may carry a unit, as in "64KiB"
    SWITCH = auto()
    POLICY = auto()


Value = int | bool | Replacement | None


class Setting(msgspec.Struct, frozen=True):
    """One name of design files and ``--set``: its kind, range (inclusive) and default.

    ``optional`` settings may be absent; the others without a default must be given.
    """

    meaning: str
    kind: Kind
    low: int = 0
    high: int = 2**26
    power_of_two: bool = False
    default: Value = None
    optional: bool = False


SETTINGS: dict[str, Setting] = {
    "area_bytes": Setting("pinned buffer area per process", Kind.BYTES, low=1, high=2**48),
    "entries": Setting("translations in all", Kind.COUNT, low=1, power_of_two=True),
    "ways": Setting("associativity", Kind.COUNT, low=1, power_of_two=True, default=1),
    "line": Setting("translations per line", Kind.COUNT, low=1, power_of_two=True, default=1),
    "victim_entries": Setting("entries of the victim cache", Kind.COUNT, default=0),
    "index_offset": Setting("processes spread over the sets", Kind.SWITCH, default=True),
    "prefetch": Setting("entries fetched per miss", Kind.COUNT, low=1, high=1024, default=1),
    "prepin": Setting("pages pinned per check miss", Kind.COUNT, low=1, default=1),
    "pin_limit": Setting("pinned pages per process", Kind.COUNT, low=1, high=2**40, optional=True),
    "replacement": Setting("victim among the pinned pages", Kind.POLICY, default=Replacement.LRU),
    "high_water": Setting(
        "pinned pages per node that start unpinning", Kind.COUNT, high=2**40, optional=True
    ),
    "seed": Setting("seed of random replacement", Kind.COUNT, high=2**62, default=0),
    "page_size": Setting(
        "bytes per page; absent: the trace's",
        Kind.BYTES,
        low=512,
        high=2**30,
        power_of_two=True,
        optional=True,
    ),
}

_HOST = ("prepin", "pin_limit", "replacement", "seed")
_UTLB = ("entries", "ways", "index_offset", "prefetch", *_HOST)

USES: dict[Scheme, tuple[str, ...]] = {
    Scheme.PINNED: ("area_bytes", "page_size"),
    Scheme.STATIC: ("entries", "page_size"),
    Scheme.INTERRUPT: ("entries", "ways", "index_offset", "pin_limit", "page_size"),
    Scheme.UNET_MM: ("entries", "victim_entries", "page_size"),
    Scheme.UTLB: (*_UTLB, "page_size"),
    Scheme.UTLB_SHARED: (*_UTLB, "page_size"),
    Scheme.UTLB_PROCESS: ("entries", "prepin", "replacement", "seed", "page_size"),
    Scheme.HANDLE: ("entries", "ways", "line", "high_water", "page_size"),
}

# Their entries are a plain table that nothing is hashed into, so any length will do.
TABLES = (Scheme.STATIC, Scheme.UTLB_PROCESS)
