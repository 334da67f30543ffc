"""The connection manager's enumerations."""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.verbs.enumerations import names_of

globals().update(names_of("librdmacm_enums"))


def __getattr__(name: str) -> Any:  # for type checkers: what is there is in the module already
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
