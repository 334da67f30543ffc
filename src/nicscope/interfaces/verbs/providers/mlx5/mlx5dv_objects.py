"""Mellanox's insides of objects."""

from __future__ import annotations

from nicscope.interfaces.verbs.unbuilt import Foreign


class Mlx5DvObj(Foreign):
    """What lies within an object."""
