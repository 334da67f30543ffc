"""The verbs' enumerations, made of their table of values when the first module asks for them."""

from __future__ import annotations

import tomllib
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _tables() -> dict[str, dict[str, dict[str, int | str]]]:
    text = files("nicscope.interfaces.verbs").joinpath("values.toml").read_text()
    return tomllib.loads(text)


@cache
def names_of(module: str) -> dict[str, Any]:
    """Every enumeration of a module, all of their members, and names that are in none.

    Members stand beside their enumerations too, as programs written before there were
    enumerations know them.
    """
    names: dict[str, Any] = {}
    for title, values in _tables()[module].items():
        members = {name: int(str(value), 0) for name, value in values.items()}
        if title == "module_level":
            names |= members
        else:
            made: Any = IntEnum(title, members)  # type: ignore[misc]  # of a table
            names[title] = made
            names |= made.__members__
    return names
