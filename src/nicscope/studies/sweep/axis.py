"""What a grid varies: one key and its values, each checked as a design's or a platform's is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.cost_name import COSTS
from nicscope.config.cost_override import PREFIX, read_cost
from nicscope.config.platform import load_platform
from nicscope.config.scheme import SETTINGS, Scheme
from nicscope.config.setting import NONE, read_scheme, read_setting
from nicscope.config.time_unit import PS_PER_US
from nicscope.errors import StudyError, did_you_mean
from nicscope.memory.replacement import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.design import Design

Plain = int | bool | str | None  # as JSON has it; a cost in whole picoseconds
PS_PER_NS = 1000
SCHEME, PLATFORM, PAGE_SIZE = "scheme", "platform", "page_size"
# Units of the settings that do not name theirs.
_UNITS = {
    PAGE_SIZE: "bytes",
    "pin_limit": "pages",
    "prepin": "pages",
    "line": "pages",
    "high_water": "pages",
}


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a grid and its different values, in the order given."""

    key: str
    values: tuple[Plain, ...]

    @property
    def cost(self) -> str | None:
        """Name of the cost that it varies, if it varies one."""
        return self.key.removeprefix(PREFIX) if self.key.startswith(PREFIX) else None

    @property
    def prices(self) -> bool:
        """Whether it changes what things cost, and not what is counted."""
        return self.key == PLATFORM or self.cost is not None

    @property
    def unit(self) -> str | None:
        """Unit of its values, where the key does not name it."""
        if self.cost is None:
            return _UNITS.get(self.key)
        return "ns_per_byte" if COSTS[self.cost].by_byte else "us"

    @property
    def column(self) -> str:
        """Its name in the table, with its unit."""
        name = self.key if self.cost is None else f"cost_{self.cost}"
        return name if self.unit is None else f"{name}_{self.unit}"

    @property
    def shown(self) -> tuple[Plain | float, ...]:
        """The values in the unit of its column."""
        if self.cost is None:
            return self.values
        ps_per_unit = PS_PER_NS if COSTS[self.cost].by_byte else PS_PER_US
        return tuple(value / ps_per_unit for value in self.values if isinstance(value, int))

    def text(self, place: int) -> str:
        """The value there, as ``--set`` would spell it."""
        value = self.values[place]
        if value is None:
            return NONE
        return str(value).lower() if isinstance(value, bool) else str(value)


def read_axes(assignments: Sequence[str], base: Design) -> tuple[Axis, ...]:
    """The axes that ``--grid KEY=V1,V2,...`` spell, for variations of ``base``.

    Errors: ``StudyError`` for an empty, unknown or repeated key or value, ``DesignError`` or
    ``PlatformError`` for a value that a design or a platform would refuse.
    """
    if not assignments:
        raise StudyError("an empty grid; name what to vary, such as --grid entries=1024,2048")
    given = [_split(assignment) for assignment in assignments]
    keys = [key for key, _ in given]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise StudyError(f"--grid {key} is there twice; give all its values at once")
    schemes = [base.scheme]
    for key, texts in given:
        if key == SCHEME:
            schemes = [read_scheme(text, f"--grid scheme={text}") for text in texts]
    return tuple(_axis(key, texts, schemes) for key, texts in given)


def _split(assignment: str) -> tuple[str, list[str]]:
    key, sign, listed = assignment.partition("=")
    key = key.strip()
    if not sign or not key:
        raise StudyError(f"--grid {assignment}: write it as KEY=V1,V2,...")
    known = [SCHEME, PLATFORM, *SETTINGS, *(f"{PREFIX}{name}" for name in COSTS)]
    if key not in known:
        few = [name for name in known if not name.startswith(PREFIX)]
        told = did_you_mean(key, known)
        if "did you mean" not in told:
            told = f"{did_you_mean('', few)}, or costs.NAME"
        raise StudyError(f"--grid {key}: unknown key {key!r}{told}")
    texts = [text.strip() for text in listed.split(",")]
    if not listed.strip():
        raise StudyError(f"--grid {key}= has no values; give at least one")
    if "" in texts:
        raise StudyError(f"--grid {assignment}: a value between its commas is missing")
    return key, texts


def _axis(key: str, texts: Sequence[str], schemes: Sequence[Scheme]) -> Axis:
    values: list[Plain] = []
    for text in texts:
        value = _value(key, text, schemes)
        if value in values:
            raise StudyError(f"--grid {key}: the value {text!r} is there twice")
        values.append(value)
    return Axis(key=key, values=tuple(values))


def _value(key: str, text: str, schemes: Sequence[Scheme]) -> Plain:
    where = f"--grid {key}={text}"
    if key == SCHEME:
        return read_scheme(text, where).value
    if key == PLATFORM:
        load_platform(text)
        return text
    if key.startswith(PREFIX):
        return read_cost(key.removeprefix(PREFIX), text, where).low_ps
    for scheme in schemes:  # each must use it; what it means is the same for all
        value = read_setting(scheme, key, text, where)
    return value.name.lower() if isinstance(value, Replacement) else value
