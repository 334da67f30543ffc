"""Every byte of NIC memory has one owner, and the account adds up."""

from itertools import pairwise

import numpy as np
import pytest

from nicscope.nic.layout import new_cache, new_table, region_bytes

SHAPES = [(8, 1, 1, None), (64, 4, 1, None), (64, 2, 8, None), (64, 64, 1, None), (16, 1, 1, 16)]
PLAIN = {"config": 40, "registers": 24}


def span(array):
    first = array.ctypes.data
    return first, first + array.nbytes


@pytest.mark.parametrize(("entries", "ways", "line", "victims"), SHAPES)
def test_regions_lie_on_cache_lines_of_their_own_in_one_arena(entries, ways, line, victims):
    nic = new_cache(entries, ways, line, victims)
    spans = sorted(span(array) for array in nic if array.nbytes)
    for begin, _ in spans:
        assert begin % 64 == 0
    for (_, end), (begin, _) in pairwise(spans):
        assert end <= begin < end + 64
    owners = {id(owner_of(array)) for array in nic if array.nbytes}
    assert len(owners) == 1


def owner_of(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


@pytest.mark.requirement("UT-58", "MI-40")
def test_a_direct_mapped_cache_takes_a_tag_and_a_word_per_entry():
    # UTLB 4.2: 32 KB of translations for 8 K entries; the tags come on top
    assert region_bytes(new_cache(8192)) == {**PLAIN, "tags": 32768, "frames": 32768}


@pytest.mark.requirement("MI-40")
def test_lines_share_a_tag_and_a_place():
    # miNI's C16 L64 A4: 256 lines
    assert region_bytes(new_cache(16384, 4, 64)) == {
        **PLAIN,
        "tags": 1024,
        "frames": 65536,
        "places": 256,
        "uses": 256,
    }


def test_wide_sets_pay_for_links_and_an_index_instead_of_places():
    assert region_bytes(new_cache(64, 32)) == {
        **PLAIN,
        "tags": 256,
        "frames": 256,
        "links": (64 + 2) * 8,
        "left": 2 * 8,
        "chains": 512,
        "nexts": 256,
    }


def test_victims_are_a_tag_and_a_frame_each_and_one_more_that_is_on_its_way_out():
    assert region_bytes(new_cache(1024, victim_entries=16))["victims"] == 17 * 8


@pytest.mark.requirement("MI-60")
def test_a_plain_table_is_one_word_per_translation():
    assert region_bytes(new_table(65536)) == {**PLAIN, "frames": 262144}
