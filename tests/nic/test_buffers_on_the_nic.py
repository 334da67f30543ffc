"""Buffers of registered ranges in the memory of an EDT interface: the first that fits."""

from hypothesis import given
from hypothesis import strategies as st

from nicscope.nic.coherent import (
    NIC_PARAMETERS,
    NOWHERE,
    clear_tag,
    find_buffer_space,
    free_tag,
    new_interfaces,
    queue_bytes,
    set_tag,
)
from nicscope.nic.ways.state import nic_of

BLOCK = 64
BLOCKS = 12  # for buffers


def interface_of(blocks):
    """An interface of a node, whose memory holds ``blocks`` for buffers, and where they begin."""
    settings = dict.fromkeys(NIC_PARAMETERS, 1) | {"queue_blocks": 2, "staging_bytes": BLOCK}
    start = BLOCK + queue_bytes(settings, BLOCK)
    settings["memory_bytes"] = start + blocks * BLOCK
    return nic_of(new_interfaces(1, settings, BLOCK, 1 << 20, 2 * blocks), 0), start


def first_fit(taken, count):
    """The lowest of the blocks from which ``count`` in a row are not taken, or None."""
    for first in range(BLOCKS - count + 1):
        if taken.isdisjoint(range(first, first + count)):
            return first
    return None


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 99)), max_size=30))
def test_a_buffer_begins_at_the_lowest_place_where_no_other_is(calls):
    nic, start = interface_of(BLOCKS)
    buffers = {}  # by tag: the blocks
    for frees, count, which in calls:
        if frees and buffers:
            tag = sorted(buffers)[which % len(buffers)]
            clear_tag(nic, tag)
            del buffers[tag]
            continue
        expected = first_fit({block for blocks in buffers.values() for block in blocks}, count)

        place = int(find_buffer_space(nic, count * BLOCK))

        if expected is None:
            assert place == NOWHERE
            continue
        assert place == start + expected * BLOCK
        tag = int(free_tag(nic))
        assert tag not in buffers
        set_tag(nic, tag, 0, count * BLOCK, place)
        buffers[tag] = range(expected, expected + count)
