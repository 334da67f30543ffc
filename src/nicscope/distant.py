"""Calls from a distance, under the name by which modules know them."""

from nicscope.kernel.distant import Declarations, call, link, new_calls

__all__ = ["Declarations", "call", "link", "new_calls"]
