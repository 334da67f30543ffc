"""A page of VI-MSG's looked up in a translation cache: ask, and serve if it misses.

What a hit answers is a real frame: after each call the entries filled in get the frames that the
NIC's table of registrations has for their pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.translate.asking import admit_request, ask, page_of_key, serve
from nicscope.nic.translate.book import note_request
from nicscope.nic.translate.deeds import FILL, clear_deeds, write_frame
from nicscope.nic.translate.nodes import translation_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.nic.translate.nodes import Translations

PROCESS = 0  # the only one of a node


class Looked(NamedTuple):
    """What is handed over: the NICs' translations, and one node's registrations."""

    translations: Translations
    frames: NDArray[np.int64]  # shape (pages,): frame of each page that is registered


@step
def follow(nic, host, book, frames):
    """Write real frames where stand-ins were filled in."""
    for d in range(host.deed_count[0]):
        deed = host.deeds[d]
        if deed.what == FILL:
            _, page = page_of_key(host, book, deed.key)
            write_frame(nic, deed.place, frames[page])
    clear_deeds(host)


@kernel
def admit_pages(looked, scheme, n, first, pages, receive):
    """What became of a request for ``pages`` pages from ``first`` on, as its program makes it."""
    nic, host, book = translation_of(looked.translations, n)
    note_request(book, pages, receive)
    found = admit_request(scheme, nic, host, book, PROCESS, first, pages)
    follow(nic, host, book, looked.frames)
    return found


@kernel
def ask_page(looked, scheme, n, page, receive):
    """Frame of ``page`` if node ``n``'s NIC has its translation, or what ``ask`` says instead."""
    nic, host, book = translation_of(looked.translations, n)
    found = ask(scheme, nic, host, book, PROCESS, page, receive)
    follow(nic, host, book, looked.frames)
    return found


@kernel
def serve_page(looked, scheme, n, page):
    """At least 0 once the translation of ``page`` has come to the NIC."""
    nic, host, book = translation_of(looked.translations, n)
    found = serve(scheme, nic, host, book, PROCESS, page)
    follow(nic, host, book, looked.frames)
    return found
