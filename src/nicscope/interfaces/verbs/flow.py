"""Steering of packets, which this device has not."""

from __future__ import annotations

from typing import Any

from nicscope.interfaces.verbs.unbuilt import Unbuilt, Values


class FlowAttr(Values):
    """Which packets a pair wants."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.specs: list[Any] = []
        super().__init__(*given, **named)


class Flow(Unbuilt):
    """A rule of steering."""
