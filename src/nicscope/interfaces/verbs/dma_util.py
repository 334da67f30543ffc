"""Barriers and doorbells of the makers' own modules, of which there are none."""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.verbs.providers import named


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named("dma_util", name)
