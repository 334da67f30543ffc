"""The table of functions that can be compiled, and how each of them is."""

from __future__ import annotations

from typing import Any, NamedTuple


class Compiled(NamedTuple):
    """How a function is compiled into its callers."""

    inline: bool = True
    code: str = ""  # module and name of what writes its code, if that is not its own


STEPS: dict[Any, Compiled] = {}
