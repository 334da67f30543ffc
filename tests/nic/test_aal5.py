"""Cells, padding and CRC of AAL5, by the standard's examples and a twin that takes every bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.nic import aal5
from oracle.aal5 import CELL, TRAILER, cells_of, message_of

MESSAGES = st.binary(max_size=200)


def framed(message: bytes) -> tuple[np.ndarray, int, int]:
    """The message, what is framed behind it, and the CRC in that."""
    content = np.frombuffer(message, np.uint8)
    framing = int(aal5.framing_of(len(message), CELL, TRAILER))
    return content, framing, int(aal5.checksum(content, len(message), framing, aal5.INTACT))


@pytest.mark.requirement("UM-66", weak="the AAL5 CRC alone")
@pytest.mark.parametrize(
    ("message", "sum_of_it"),
    [
        (bytes(40), 0x864D7F99),
        (b"\xff" * 40, 0xC55E457A),
        (bytes(range(1, 41)), 0xBF671ED0),
    ],
)
def test_the_crc_is_that_of_the_standards_examples(message, sum_of_it):
    """ITU-T I.363.5, Appendix: 40 bytes fill one cell with the trailer."""
    _, framing, sent = framed(message)

    assert (len(message) + framing, sent) == (CELL, sum_of_it)


@given(message=MESSAGES)
def test_a_message_takes_as_many_cells_and_has_the_crc_that_the_book_says(message):
    cells = cells_of(message)
    _, framing, sent = framed(message)

    assert len(message) + framing == CELL * len(cells)
    assert sent.to_bytes(4, "big") == cells[-1][-4:]


@given(message=MESSAGES, place=st.integers(0, 1 << 20))
def test_one_damaged_bit_of_a_cell_wherever_it_is_has_the_message_dropped(message, place):
    content, framing, sent = framed(message)
    cells = cells_of(message)
    place %= 8 * CELL * len(cells)
    pdu = bytearray(b"".join(cells))
    # Of the machine's bit in the CRC field the lowest comes first, of the book's the highest byte.
    pdu[place >> 3] ^= 1 << (place & 7)
    damaged = place - 8 * content.size
    if damaged < 0:
        content = np.frombuffer(bytes(pdu[: content.size]), np.uint8)
        damaged = aal5.INTACT

    assert message_of([bytes(pdu[at : at + CELL]) for at in range(0, len(pdu), CELL)]) is None
    assert not aal5.is_whole(content, len(message), framing, sent, damaged)
    whole = np.frombuffer(message, np.uint8)
    assert aal5.is_whole(whole, len(message), framing, sent, aal5.INTACT)
    assert message_of(cells) == message


@given(message=MESSAGES, lost=st.integers(0, 4))
def test_a_lost_cell_has_the_message_dropped(message, lost):
    """The machine has no cell by itself: it loses packets, for which this is the reason."""
    cells = cells_of(message)
    del cells[lost % len(cells)]

    assert message_of(cells) is None
