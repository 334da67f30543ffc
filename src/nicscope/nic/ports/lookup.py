"""What the firmware knows of a page: its number, its frame's generation, the ways of its set."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.translate.asking import key_of_page, ways_to_check
from nicscope.nic.translate.nodes import translation_of


@step
def page_at(nics, address):
    """The page of a virtual address, which may be any of 64 bits."""
    bits = nics.ports.rules[0].page_bits
    return (address >> bits) & ((np.int64(1) << (64 - bits)) - 1)


@step
def until_page_ends(nics, address, count):
    """How many of the ``count`` bytes at ``address`` lie in its page."""
    page = np.int64(1) << nics.ports.rules[0].page_bits
    return min(count, page - (address & (page - 1)))


@step
def key_of(nics, n, space, page):
    """The number under which everything about ``page`` is kept."""
    _, host, book = translation_of(nics.ports.translations, n)
    return key_of_page(host, book, space, page)


@step
def generation_of(nics, n, frame):
    """What tells later whether a translation to ``frame`` still holds."""
    return nics.ports.memory.frames[n, frame].generation


@routine
def further_ways(nics, n, space, page):
    """How many ways after the first a lookup of ``page`` checks, as the NIC has its set now."""
    ports = nics.ports
    nic, host, book = translation_of(ports.translations, n)
    return ways_to_check(ports.rules[0].scheme, nic, host, book, space, page)
