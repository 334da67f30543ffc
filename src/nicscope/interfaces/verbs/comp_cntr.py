"""Counters of completions, which this device has not."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Unbuilt, Values


class CompCntrInitAttr(Values):
    """What a counter should be."""


class CompCntrAttachAttr(Values):
    """What a counter should count."""


class CompCntr(Unbuilt):
    """A counter of completions."""
