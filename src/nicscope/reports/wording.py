"""Numbers formatted for people, and colours safe for colour blindness."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from nicscope.config.costs import Origin
    from nicscope.studies.pricing import Cost, Denominator


SIGNIFICANT = 3
UNKNOWN = "?"


def byte_size(count: int) -> str:
    """``count`` bytes in the largest binary unit with a value of at least 1."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if size == int(size) else f"{size:,.1f} {unit}"


def whole(count: int | None) -> str:
    """A count with thousands separators; a question mark if it is unknown."""
    return UNKNOWN if count is None else f"{count:,}"


def in_words(count: int, thing: str) -> str:
    """``count`` things, in the plural unless there is one."""
    return f"{whole(count)} {thing}{'' if count == 1 else 's'}"


def per_hundred(rate: float | None) -> str:
    """A rate with two decimals; only exact 0 looks like 0."""
    if rate is None:
        return UNKNOWN
    if 0 < rate < 0.005:
        return "<0.01"
    return f"{rate:.2f}" if rate else "0"


def significant(number: float) -> str:
    """``number`` to three significant digits, without exponent."""
    if not number:
        return "0"
    if abs(number) >= 10 ** (SIGNIFICANT - 1):
        return f"{number:,.0f}"
    decimals = SIGNIFICANT - 1 - math.floor(math.log10(abs(number)))
    return f"{number:.{decimals}f}"


def between(low: float, high: float) -> str:
    """A range to three significant digits, or a number where both ends look the same."""
    first, last = significant(low), significant(high)
    return first if first == last else f"{first} to {last}"


def us_per(denominator: Denominator, cost: Cost) -> str:
    """Microseconds per lookup or request: a number or a range, "≥" before a lower bound."""
    return us_within(cost.per_us(cost.count_of(denominator)), cost)


def us_within(bounds: tuple[Decimal, Decimal] | None, cost: Cost) -> str:
    """``bounds`` of ``cost``: a number or a range, "≥" before a lower bound."""
    if bounds is None:
        return "unknown"
    low, high = (float(bound) for bound in bounds)
    return f"≥ {significant(low)}" if cost.is_lower_bound else between(low, high)


def listed(words: Sequence[str]) -> str:
    """``words`` separated by commas, the last by "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def of_trace(trace: Mapping[str, Any]) -> str:
    """The file of a trace, whatever folder it is in, and its requests."""
    return f"{Path(trace['file']).name}: {in_words(trace['requests'], 'request')}"


def evidence_classes(origins: Mapping[str, Origin]) -> str:
    """The numbers by class of evidence."""
    classes: dict[str, list[str]] = {}
    for name, origin in origins.items():
        classes.setdefault(origin.evidence.value, []).append(name)
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in classes.items())


ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"

KIND_COLOURS = {
    "compulsory": SKY,
    "invalidated": PURPLE,
    "capacity": BLUE,
    "conflict": ORANGE,
    "not compulsory": ORANGE,
}
# Colour alone does not tell them apart in a log file, so each has a texture too.
KIND_TEXTURES = {
    "compulsory": "░",
    "invalidated": "▚",
    "capacity": "▓",
    "conflict": "█",
    "not compulsory": "█",
}
PATH_COLOURS = {"send": GREEN, "receive": VERMILION}
MEMORY_COLOURS = {"NIC memory": BLUE, "pinned host memory": ORANGE}
# Steps of every scheme's cost, gathered into as many groups as there are colours.
STEP_GROUPS = {
    "copying": ("copy_start", "copy"),
    "check in the user library": ("user_check",),
    "lookup on the NIC": ("ni_check", "further_ways", "ni_hit_send", "ni_hit_receive"),
    "miss on the NIC": ("ni_miss", "ni_handshake", "icm_fetch"),
    "interrupt": ("interrupt", "miss_processing"),
    "pinning": ("user_pin", "kernel_pin", "kernel_pin_receive", "registration"),
    "unpinning": ("user_unpin", "kernel_unpin"),
    "sending again": ("retransmission",),
}
GROUP_COLOURS = dict(
    zip(STEP_GROUPS, (YELLOW, SKY, BLUE, PURPLE, VERMILION, ORANGE, GREEN, GREY), strict=True)
)
# The bands of a packet flow graph: dark and light take turns from packet to packet.
BAND_SHADES = {
    "hostTx": (BLUE, "#8FC7EA"),
    "netTx": (GREEN, "#8AD6BE"),
    "netRcv": (PURPLE, "#EBC8DC"),
    "hostRcv": (VERMILION, "#F2B48A"),
}
# Activities by the end of the wire that they are at; waits are grey (and thin, in text).
PART_COLOURS = {
    "HOST_WRITE": SKY,
    "SEND_RING": GREY,
    "FIRMWARE_SEND": ORANGE,
    "HOST_TX": BLUE,
    "SENDER_NIC": GREY,
    "NETWORK": GREEN,
    "FIRMWARE_RECEIVE": ORANGE,
    "HOST_RCV": VERMILION,
    "RECEIVER_NIC": GREY,
    "RECEIVE_RING": GREY,
    "HOST_READ": SKY,
}
# Schemes, by curve and marker alike.
FAMILY_LOOKS = {
    "pinned": (GREY, "P"),
    "static": ("#222222", "X"),
    "interrupt": (VERMILION, "o"),
    "unet-mm": (ORANGE, "s"),
    "utlb": (BLUE, "D"),
    "utlb-shared": (SKY, "v"),
    "utlb-process": (GREEN, "^"),
    "handle": (PURPLE, "<"),
    "rnic": ("#8C510A", ">"),
}
