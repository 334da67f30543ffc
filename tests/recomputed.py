"""Costs of a replay, computed anew from its counts and a platform's file: for tests to compare.

Written from the table of docs/platforms.md and from what the file says; nothing is imported that
prices anything.
"""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import NamedTuple

import nicscope

PLATFORMS = Path(nicscope.__file__).parent / "catalog" / "platforms"
US = {"ps": 1e-6, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}

# By scheme, what is counted, what one costs (or else), and the count whose mean is its size.
FORMULAS = {
    "utlb": [
        ("lookups", ["user_check"], None),
        ("pin_calls", ["user_pin"], "pins"),
        ("lookups", ["ni_check"], None),
        ("further_ways", ["ni_further_way"], None),
        ("ni_misses", ["ni_miss"], "entries_fetched"),
        ("unpin_calls", ["user_unpin"], "unpins"),
    ],
    "utlb-process": [
        ("lookups", ["user_tree"], None),
        ("pin_calls", ["user_pin"], "pins"),
        ("lookups", ["ni_table_read"], None),
        ("unpin_calls", ["user_unpin"], "unpins"),
    ],
    "interrupt": [
        ("lookups", ["ni_check"], None),
        ("further_ways", ["ni_further_way"], None),
        ("interrupts", ["interrupt"], None),
        ("pins", ["kernel_pin"], None),
        ("unpins", ["kernel_unpin"], None),
    ],
    "unet-mm": [
        ("lookups_send - ni_misses_send", ["ni_hit_send"], None),
        ("lookups_receive - ni_misses_receive", ["ni_hit_receive"], None),
        ("ni_misses", ["ni_handshake"], None),
        ("interrupts", ["interrupt"], None),
        ("ni_misses_send", ["kernel_pin"], None),
        ("ni_misses_receive", ["kernel_pin_receive", "kernel_pin"], None),
        ("unpins", ["kernel_unpin"], None),
    ],
    "rnic": [("lookups", ["ni_check"], None), ("icm_fetches", ["icm_fetch"], None)],
    "static": [("lookups", ["ni_table_read"], None), ("pin_calls", ["user_pin"], "pins")],
    "pinned": [
        ("requests - rejected", ["copy_start"], None),
        ("bytes_copied", ["copy_per_byte"], None),
    ],
    "handle": [
        ("lookups", ["ni_check"], None),
        ("further_ways", ["ni_further_way"], None),
        ("interrupts", ["miss_delay", "interrupt"], None),
        ("interrupts", ["miss_processing"], None),
        ("pins", ["kernel_pin"], None),
        ("dropped", ["retransmission"], None),
        ("unpins", ["kernel_unpin"], None),
    ],
}
FORMULAS["utlb-shared"] = [
    (count, ["user_tree"] if costs == ["user_check"] else costs, size)
    for count, costs, size in FORMULAS["utlb"]
]

ELSE = {
    "ni_hit_send": ("lookups_send", "ni_check"),
    "ni_hit_receive": ("lookups_receive", "ni_check"),
}


class Recomputed(NamedTuple):
    """What a replay cost: bounds on the whole in us, if all of it has a price."""

    low: float
    high: float
    missing: set[str]  # costs that the platform does not state
    parts: list[tuple[float, float]]  # bounds on each term that has a price, and was paid


def recomputed(total, scheme, platform) -> Recomputed:
    """The cost of a replay's ``total`` under ``scheme``, on the catalog's ``platform``."""
    file = tomllib.loads((PLATFORMS / f"{platform}.toml").read_text())
    stated, absent = file["costs"], file.get("not_applicable", {})
    missing, parts = set(), []
    for counted, names, size in FORMULAS[scheme]:
        first, _, less = counted.partition(" - ")
        count = total[first] - (total[less] if less else 0)
        name = next((name for name in names if name in {*stated, *absent}), None)
        if name != names[0] and names[0] in ELSE:
            # Another step pays where this one is not stated, and is counted otherwise.
            count, names = total[ELSE[names[0]][0]], [names[0], ELSE[names[0]][1]]
            name = names[1] if names[1] in {*stated, *absent} else None
        if name in absent or not count:
            continue
        if names == ["miss_processing"] and name is None and "kernel_pin" in stated:
            continue  # a miss thread that was not timed takes what its pins take
        if name is None:
            missing.add(" or ".join(names))
            continue
        mean = total[size] / count if size else 1.0
        low, high = _each(stated[name], mean)
        parts.append((low * count, high * count))
    low, high = (sum(part[end] for part in parts) for end in (0, 1))
    return Recomputed(low, high, missing, parts)


def _each(cell, size) -> tuple[float, float]:
    """Bounds, in us, on one event of ``size``."""
    unit = US[cell["unit"].removesuffix("/B")]
    value = cell["value"]
    if "at" not in cell:
        low, high = value if isinstance(value, list) else (value, value)
        return low * unit, high * unit
    points = list(zip(cell["at"], value, strict=True))
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if size <= x1 or (x1, y1) == points[-1]:
            found = max(0.0, y0 + (size - x0) * (y1 - y0) / (x1 - x0)) * unit
            return found, found
    raise AssertionError("a table has two points at least")
