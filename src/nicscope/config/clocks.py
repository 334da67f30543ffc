"""Clocks of a machine's processors: which costs go by which, and what they are at another one.

A step of firmware takes so many clocks of the NIC's processor, one of libraries and kernel so many
of the host's.  Buses, links, memory and disks keep their own time.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nicscope.config.evidence import Evidence, Origin
from nicscope.config.machine import BYTES, MACHINE, Parameter, read_number
from nicscope.config.unit_cost import half_up
from nicscope.errors import PlatformError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.config.unit_cost import UnitCost

NI, HOST = "ni_mhz", "host_mhz"  # words of ``[machine]``
CHANGEABLE = (NI, HOST, "nic_memory_bytes")
BY_NI = (
    "ni_check", "ni_further_way", "ni_handle", "ni_table_read", "ni_hit_send", "ni_hit_receive",
    "ni_hit_pretranslate", "ni_miss", "send_queue", "receive_queue", "firmware_start",
    "firmware_finish", "firmware_log", "dma_init", "dma_interrupt", "pci_read_start",
    "pci_write_start", "link_start",
)  # fmt: skip
BY_HOST = (
    "user_check", "user_tree", "request_check_min", "request_check_max", "user_pin", "user_unpin",
    "trap", "system_call", "interrupt", "interrupt_entry", "kernel_pin", "kernel_pin_receive",
    "kernel_pin_shared", "kernel_unpin", "zero_map_in", "thread_delay", "wake_up", "notify",
    "miss_delay", "miss_processing", "send_call",
)  # fmt: skip
# Where the host's kernel serves ports it does what firmware would.
OF_WHO_SERVES = tuple(name for name in BY_NI if name.startswith(("ni_", "send_", "receive_")))
WITHIN = {"ni_miss": "ni_dma"}  # the part of a cost that is a bus's


def clocks_of(machine: Mapping[str, Parameter]) -> dict[str, int]:
    """The clocks that a machine states, in MHz."""
    return {name: machine[name].value for name in (NI, HOST) if name in machine}


def at_clocks(
    costs: Mapping[str, UnitCost],
    stated: Mapping[str, int],
    wanted: Mapping[str, int],
    name: str,
    *,
    serves: bool,
) -> dict[str, UnitCost]:
    """``costs`` of platform ``name`` at the clocks ``wanted`` instead of those ``stated``.

    ``serves``: whether its NIC runs firmware.  Errors: ``PlatformError`` if a clock is to be
    changed that the platform does not state.
    """
    for clock in wanted:
        if clock not in stated:
            raise PlatformError(
                f"platform {name!r} states no {clock} of its [machine]: what it costs at "
                f"{wanted[clock]} MHz cannot be told; state it there"
            )
    changed = {clock: Fraction(stated[clock], wanted[clock]) for clock in wanted}
    found = dict(costs)
    for key in (*BY_NI, *BY_HOST):
        clock = NI if key in BY_NI and (serves or key not in OF_WHO_SERVES) else HOST
        if key in costs and changed.get(clock, 1) != 1:
            words = f"{name} by {stated[clock]} over {wanted[clock]} MHz"
            found[key] = _scaled(costs[key], changed[clock], costs.get(WITHIN.get(key, "")), words)
    return found


def _scaled(cost: UnitCost, by: Fraction, within: UnitCost | None, words: str) -> UnitCost:
    """``cost`` times ``by``, but for what is ``within`` it."""

    def at(ps: int, size: int | None) -> int:
        fixed = Fraction(0)
        if within is not None:
            fixed = min(Fraction(ps), within.each(None if size is None else Fraction(size))[0])
        return half_up(fixed + (ps - fixed) * by)

    source = cost.origin.source.removeprefix("assumed: ")
    return msgspec.structs.replace(
        cost,
        low_ps=at(cost.low_ps, None) if not cost.points else 0,
        high_ps=at(cost.high_ps, None) if not cost.points else 0,
        points=tuple((size, at(ps, size)) for size, ps in cost.points),
        origin=Origin(Evidence.ASSUMED, f"assumed: {words} ({cost.origin.evidence}: {source})"),
    )


def split_changes(name_or_path: str | Path) -> tuple[str | Path, str]:
    """The platform that is named, and the changes behind an @; none of a name without any."""
    text = str(name_or_path)
    before, at, after = text.rpartition("@")
    if not at or "=" not in after:
        return name_or_path, ""
    return (Path(before) if isinstance(name_or_path, Path) else before), after


def read_changes(changes: str, where: str) -> dict[str, Parameter]:
    """The parameters that ``WORD=VALUE,...`` states.  Errors: ``PlatformError``."""
    found: dict[str, Parameter] = {}
    for change in changes.split(","):
        word, _, text = change.partition("=")
        if word not in CHANGEABLE:
            raise PlatformError(f"{where}: no {word!r} behind @{did_you_mean(word, CHANGEABLE)}")
        number = read_number(word, text)
        if not number:
            example = "512KiB" if MACHINE[word].unit == BYTES else "66MHz"
            raise PlatformError(f"{where}: {word} must be like {example}, got {text!r}")
        origin = Origin(Evidence.ASSUMED, f"assumed: {where}")
        found[word] = Parameter(word, number, MACHINE[word].unit, origin)
    return found
