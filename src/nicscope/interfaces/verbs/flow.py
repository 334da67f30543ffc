"""Steering of packets, which this device has not."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Unbuilt, Values


class FlowAttr(Values):
    """Which packets a pair wants."""


class Flow(Unbuilt):
    """A rule of steering."""
