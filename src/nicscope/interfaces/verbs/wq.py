"""Work queues that packets are spread over, which this device has not."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Unbuilt, Values


class WQInitAttr(Values):
    """What a work queue should be."""


class WQAttr(Values):
    """A work queue's state."""


class RwqIndTableInitAttr(Values):
    """What a table of work queues should be."""


class RxHashConf(Values):
    """How packets should be spread."""


class WQ(Unbuilt):
    """A work queue."""


class RwqIndTable(Unbuilt):
    """A table of work queues."""
