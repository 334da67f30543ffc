"""Keeping Arrow from loading pandas, for a command that makes no use of it.

Where pandas is installed, Arrow loads it to ask of each array that it makes whether it is a frame's
column: a third of the time that a short command takes.  Arrow asks but once, so this is for a
process that is the command's own.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType


class _WithoutPandas(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as Python calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Nothing for any module but pandas; errors: ``ModuleNotFoundError`` for that one."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=fullname)


def leave_pandas_out() -> None:
    """Have this process take pandas for not installed from now on."""
    sys.meta_path.insert(0, _WithoutPandas())
