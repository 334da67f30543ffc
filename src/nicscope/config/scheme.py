"""The nine translation schemes, and every setting that a design may give them.

``SETTINGS`` is the single list of names; ``USES`` says which scheme knows which.  What a setting
does is told in ``docs/designs.md``.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum, StrEnum, auto
from typing import Any

import msgspec

from nicscope.config.byte_size import read_bytes
from nicscope.config.delivery import PARTS
from nicscope.errors import DesignError, did_you_mean
from nicscope.memory.replacement import Replacement

_SWITCH = {"true": True, "false": False}
NONE = "none"


def known_setting(scheme: Scheme, key: str, where: str) -> Setting:
    """Entry of ``SETTINGS`` for ``key``, provided that ``scheme`` uses it.

    Errors: ``DesignError`` if there is none of that name, or the scheme does not use it.
    """
    if key not in SETTINGS:
        raise DesignError(
            f"{where}: unknown key {key!r}{did_you_mean(key, ['scheme', *SETTINGS, *PARTS])}"
        )
    if key not in USES[scheme]:
        raise DesignError(
            f"{where}: scheme {scheme.value!r} does not use {key!r}; "
            f"it uses {', '.join(USES[scheme])}"
        )
    return SETTINGS[key]


def read_scheme(given: object, where: str) -> Scheme:
    """Scheme that ``given`` names; errors: ``DesignError`` with the nearest name."""
    names = [scheme.value for scheme in Scheme]
    if given not in names:
        raise DesignError(f"{where}: no scheme {given!r}{did_you_mean(str(given), names)}")
    return Scheme(given)


def read_setting(scheme: Scheme, key: str, given: Any, where: str) -> Value:
    """``given`` (a TOML value, or text) as the value of ``key``; None where "none" removes it.

    Errors: ``DesignError``, beginning with ``where``, if it is no such value or out of range.
    """
    setting = known_setting(scheme, key, where)
    if given == NONE:
        if setting.optional:
            return None
        raise DesignError(f"{where}: {key} is needed by scheme {scheme.value!r}; give it a value")
    if setting.kind is Kind.SWITCH:
        return _switch(key, given, where)
    if setting.kind is Kind.POLICY:
        return _policy(key, given, where)
    number = _count(key, given, where, in_bytes=setting.kind is Kind.BYTES)
    if not setting.low <= number <= setting.high:
        raise DesignError(
            f"{where}: {key} must be from {setting.low} to {setting.high}, got {number}"
        )
    is_table = key == "entries" and scheme in TABLES
    if setting.power_of_two and not is_table and number & (number - 1):
        raise DesignError(f"{where}: {key} must be a power of two, got {number}")
    return number


def _switch(key: str, given: Any, where: str) -> bool:
    if isinstance(given, str):
        given = _SWITCH.get(given.lower(), given)
    if not isinstance(given, bool):
        raise DesignError(f"{where}: {key} must be true or false, got {given!r}")
    return given


def _policy(key: str, given: Any, where: str) -> Replacement:
    names = [policy.name.lower() for policy in Replacement]
    if not isinstance(given, str) or given.lower() not in names:
        raise DesignError(f"{where}: no {key} {given!r}{did_you_mean(str(given), names)}")
    return Replacement[given.upper()]


def _count(key: str, given: Any, where: str, *, in_bytes: bool) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    if isinstance(given, str):
        text = given.strip().replace("_", "")
        if re.fullmatch(r"-?[0-9]{1,20}", text):
            return int(text)
        if in_bytes and (size := read_bytes(text)) is not None:
            return size
    what = "a whole number of bytes, such as 65536 or '64KiB'" if in_bytes else "a whole number"
    shown = given if isinstance(given, Decimal) else repr(given)
    raise DesignError(f"{where}: {key} must be {what}, got {shown}")


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
    RNIC = "rnic"


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
    "most_valid": Setting(
        "valid entries at most, so pinned pages of a node", Kind.COUNT, low=1, optional=True
    ),
    "index_offset": Setting("processes spread over the sets", Kind.SWITCH, default=True),
    "prefetch": Setting("entries fetched per miss", Kind.COUNT, low=1, high=1024, default=1),
    "prepin": Setting("pages pinned per check miss", Kind.COUNT, low=1, default=1),
    "pin_limit": Setting("pinned pages per process", Kind.COUNT, low=1, high=2**40, optional=True),
    "replacement": Setting("victim among the pinned pages", Kind.POLICY, default=Replacement.LRU),
    "high_water": Setting(
        "pinned pages per node that start unpinning", Kind.COUNT, high=2**40, optional=True
    ),
    "mpt_entries": Setting(
        "regions that the NIC has at hand", Kind.COUNT, low=1, power_of_two=True
    ),
    "mpt_ways": Setting(
        "associativity of the regions", Kind.COUNT, low=1, power_of_two=True, default=1
    ),
    "l1_entries": Setting(
        "translations of a second level on the NIC",
        Kind.COUNT,
        low=1,
        power_of_two=True,
        optional=True,
    ),
    "l1_ways": Setting(
        "associativity of the second level", Kind.COUNT, low=1, power_of_two=True, default=1
    ),
    "l1_shared": Setting("regions have lines of the second level too", Kind.SWITCH, default=False),
    "mpt_l1_entries": Setting(
        "regions of a second level of their own",
        Kind.COUNT,
        low=1,
        power_of_two=True,
        optional=True,
    ),
    "mpt_l1_ways": Setting(
        "associativity of that level", Kind.COUNT, low=1, power_of_two=True, default=1
    ),
    "mtu": Setting(
        "bytes of a packet, each of which has its region looked up",
        Kind.BYTES,
        low=1,
        high=2**32,
        optional=True,
    ),
    "indirect": Setting(
        "bytes of each region that an indirect region is made of",
        Kind.BYTES,
        low=512,
        high=2**48,
        power_of_two=True,
        optional=True,
    ),
    "registered": Setting(
        "bytes that each process registers, from its lowest address on",
        Kind.BYTES,
        low=1,
        high=2**60,
        optional=True,
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
    Scheme.UNET_MM: ("entries", "victim_entries", "most_valid", "page_size"),
    Scheme.UTLB: (*_UTLB, "page_size"),
    Scheme.UTLB_SHARED: (*_UTLB, "page_size"),
    Scheme.UTLB_PROCESS: ("entries", "prepin", "replacement", "seed", "page_size"),
    Scheme.HANDLE: ("entries", "ways", "line", "high_water", "page_size"),
    Scheme.RNIC: (
        *("entries", "ways", "line", "mpt_entries", "mpt_ways"),
        *("l1_entries", "l1_ways", "l1_shared", "mpt_l1_entries", "mpt_l1_ways"),
        *("mtu", "indirect", "registered", "page_size"),
    ),
}

# Their entries are a plain table that nothing is hashed into, so any length will do.
TABLES = (Scheme.STATIC, Scheme.UTLB_PROCESS)
