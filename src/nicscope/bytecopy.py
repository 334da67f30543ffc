"""Copies of bytes, under the name by which modules know them."""

from nicscope.kernel.bytecopy import copy_bytes

__all__ = ["copy_bytes"]
