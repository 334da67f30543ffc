"""The victim cache: first in first out, but for those that are called back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.nic.layout import EMPTY, new_cache
from nicscope.nic.victim import ABSENT, add_victim, find_victim, remove_victim


def held(nic):
    count = int(nic.registers[0]["victim_count"])
    return [(int(v["tag"]), int(v["frame"])) for v in nic.victims[:count]]


@pytest.mark.requirement("UM-41", "UM-43")
def test_sixteen_victims_stay_and_the_seventeenth_pushes_out_the_first():
    nic = new_cache(1024, victim_entries=16)
    assert [add_victim(nic, tag, 10 * tag) for tag in range(1, 18)] == [EMPTY] * 16 + [1]
    assert held(nic) == [(tag, 10 * tag) for tag in range(2, 18)]


@pytest.mark.requirement("UM-42")
def test_a_victim_that_is_called_back_leaves_the_others_in_their_order():
    nic = new_cache(4, victim_entries=3)
    for tag in (5, 6, 7):
        add_victim(nic, tag, tag)
    assert remove_victim(nic, find_victim(nic, 6)) == 6
    assert find_victim(nic, 6) == ABSENT
    assert held(nic) == [(5, 5), (7, 7)]


def test_without_victim_entries_what_is_displaced_leaves_at_once():
    nic = new_cache(4, victim_entries=0)
    assert add_victim(nic, 9, 0) == 9
    assert held(nic) == []


@pytest.mark.requirement("UM-43")
@given(room=st.integers(0, 5), steps=st.lists(st.integers(1, 12), max_size=60))
def test_victims_do_what_a_list_does(room, steps):
    nic = new_cache(4, victim_entries=room)
    plain = []
    for tag in steps:
        place = find_victim(nic, tag)
        if tag in plain:
            assert plain[place] == tag
            assert remove_victim(nic, place) == plain.pop(place)
        else:
            assert place == ABSENT
            plain.append(tag)
            leaving = plain.pop(0) if len(plain) > room else EMPTY
            assert add_victim(nic, tag, tag) == leaving
        assert held(nic) == [(held_tag, held_tag) for held_tag in plain]
