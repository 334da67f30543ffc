"""Putting another number in the place of one of a platform's costs, as ``costs.NAME=0.3us``."""

from __future__ import annotations

import re
from decimal import Decimal

import msgspec

from nicscope.config.cost_name import COSTS
from nicscope.config.evidence import Evidence, Origin
from nicscope.config.platform import Platform, UnitCost, read_ps
from nicscope.config.time_unit import PER_BYTE_UNITS, TIME_UNITS
from nicscope.errors import PlatformError, did_you_mean

PREFIX = "costs."
_TIME = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z/]+)")


def read_cost(key: str, text: str, where: str) -> UnitCost:
    """The cost ``key`` (a name of ``COSTS``) as ``text`` spells it, the same for every size.

    A time with its unit, such as ``0.3us`` or ``13.5ns/B``.  Errors: ``PlatformError`` beginning
    with ``where`` if there is no such cost, or the text is no time.
    """
    if key not in COSTS:
        raise PlatformError(f"{where}: no cost {key!r}{did_you_mean(key, COSTS)}")
    units = PER_BYTE_UNITS if COSTS[key].by_byte else TIME_UNITS
    split = _TIME.fullmatch(text)
    if split is None or split[2] not in units:
        example = "'13.5ns/B'" if COSTS[key].by_byte else "'0.3us'"
        raise PlatformError(
            f"{where}: {PREFIX}{key} must be a time in {', '.join(units)}, such as {example}, "
            f"got {text!r}"
        )
    ps = read_ps(Decimal(split[1]), split[2], units[split[2]], where)
    return UnitCost(
        name=key, unit=split[2], origin=Origin(Evidence.ASSUMED, where), low_ps=ps, high_ps=ps
    )


def with_cost(platform: Platform, cost: UnitCost) -> Platform:
    """``platform`` with ``cost`` in the place of what it stated, if it stated any."""
    absent = {key: why for key, why in platform.not_applicable.items() if key != cost.name}
    return msgspec.structs.replace(
        platform, costs=platform.costs | {cost.name: cost}, not_applicable=absent
    )
