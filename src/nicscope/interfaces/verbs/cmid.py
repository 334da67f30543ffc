"""Connection management, which this device has not yet."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Unbuilt, Values


class ConnParam(Values):
    """What a connection is asked for."""


class UDParam(Values):
    """Where a peer's datagrams go."""


class JoinMCAttrEx(Values):
    """Which group is joined, and how."""


class CMEventChannel(Unbuilt):
    """Where connections report what has happened."""


class AddrInfo(Unbuilt):
    """What an address leads to."""


class CMEvent(Unbuilt):
    """What has happened to a connection."""


class CMID(Unbuilt):
    """An end of a connection."""
