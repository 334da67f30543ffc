"""The translation state of all nodes of a cluster, and of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.kernel.decorators import step
from nicscope.kernel.rows import row_of

if TYPE_CHECKING:
    from nicscope.nic.layout import Nic
    from nicscope.nic.translate.book import Book
    from nicscope.nic.translate.rnic import Rnic
    from nicscope.nic.translate.state import Host


class Translations(NamedTuple):
    """Every node's NIC, host and book; each array of theirs has a leading axis of nodes."""

    nic: Nic
    host: Host
    book: Book
    levels: Rnic  # of an RDMA NIC beside its pages' first, which is in ``nic``; else empty


@step
def translation_of(translations, n):
    """Node ``n`` as (nic, host, book); ``translations`` were handed over."""
    return row_of(translations.nic, n), row_of(translations.host, n), row_of(translations.book, n)


@step
def levels_of(translations, n):
    """What node ``n`` caches besides, of an RDMA NIC."""
    return row_of(translations.levels, n)
