"""The command line for tests that call ``main`` again and again."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import typer.main

if TYPE_CHECKING:
    import pytest

_built = functools.cache(typer.main.get_command)


def build_once(patch: pytest.MonkeyPatch) -> None:
    """Have Typer build the commands once: it does so for each call, in more time than most take."""
    patch.setattr("typer.main.get_command", _built)
