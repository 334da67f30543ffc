"""Mellanox's objects."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Foreign


class Mlx5Context(Foreign):
    """A context."""


class Mlx5DVContextAttr(Foreign):
    """What a context should be."""


class Mlx5DVQPInitAttr(Foreign):
    """What a pair should be."""


class Mlx5QP(Foreign):
    """A queue pair."""


class Mlx5DVDCInitAttr(Foreign):
    """What a dynamically connected pair should be."""


class Mlx5DCIStreamInitAttr(Foreign):
    """What streams of a pair should be."""


class Mlx5DevxObj(Foreign):
    """An object by the firmware's commands."""


class Mlx5UMEM(Foreign):
    """A registered buffer."""


class Mlx5UAR(Foreign):
    """A page of doorbells."""


class WqeDataSeg(Foreign):
    """A piece of a request."""


class WqeCtrlSeg(Foreign):
    """The head of a request."""


class Wqe(Foreign):
    """A request."""


class Mlx5Cqe64(Foreign):
    """A completion."""


class Mlx5DVCQInitAttr(Foreign):
    """What a completion queue should be."""


class Mlx5CQ(Foreign):
    """A completion queue."""
