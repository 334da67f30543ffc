"""The CRC is that of Ethernet, whole or piece by piece."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.nic.crc import crc32


def as_bytes(content):
    return np.frombuffer(content, np.uint8)


def test_the_check_value_of_the_standard_comes_out():
    assert crc32(as_bytes(b"123456789"), 0) == 0xCBF43926


@given(st.binary(max_size=300))
def test_it_is_the_one_that_zlib_has(content):
    assert crc32(as_bytes(content), 0) == zlib.crc32(content)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_pieces_give_what_the_whole_gives(pieces):
    crc = 0
    for piece in pieces:
        crc = crc32(as_bytes(piece), crc)

    assert crc == zlib.crc32(b"".join(pieces))


@pytest.mark.parametrize("size", [1, 7, 8, 65])
def test_no_single_bit_can_change_unseen(size):
    content = np.arange(size, dtype=np.uint8)
    crc = crc32(content, 0)
    for bit in range(8 * size):
        changed = content.copy()
        changed[bit // 8] ^= 1 << bit % 8
        assert crc32(changed, 0) != crc
