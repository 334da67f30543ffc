"""The enumerations of the verbs and of the connection manager, made of their table of values."""

from __future__ import annotations

import tomllib
from enum import IntEnum
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


@cache
def _tables() -> dict[str, dict[str, dict[str, int | str]]]:
    return tomllib.loads(Path(__file__).with_name("values.toml").read_text())


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


def module_of(name: str, content: dict[str, Any]) -> ModuleType:
    """A module of pyverbs with ``content``."""
    made = ModuleType(f"{__package__}.{name}")
    made.__spec__ = ModuleSpec(made.__name__, None)
    made.__dict__.update(content)
    return made


libibverbs_enums: Any = module_of("libibverbs_enums", names_of("libibverbs_enums"))
librdmacm_enums: Any = module_of("librdmacm_enums", names_of("librdmacm_enums"))
