"""HTML and SVG as nested calls: what is text stays text, whatever is in it.

A template language would be a dependency for one page, and would leave each value to be escaped by
whoever writes the template; here nothing but ``Markup`` goes in as it is.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WITHOUT_END = ("meta", "input", "img", "br")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: object) -> Markup:
    """One element; text among ``children`` is escaped, None is left out.

    A trailing underscore of an attribute's name is dropped (``class_``) and others are hyphens
    (``data_label``).  An attribute that is True has no value; those that are None or False are not
    there.
    """
    said = ""
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = name.rstrip("_").replace("_", "-")
        said += f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'
    if tag in _WITHOUT_END:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[str | None]) -> Markup:
    """Several pieces one after the other."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(each, quote=False)
            for each in children
            if each is not None
        )
    )
