"""Calls from a distance, under the name by which modules know them."""

from nicscope.kernel.distant import call, link, new_calls

__all__ = ["call", "link", "new_calls"]
