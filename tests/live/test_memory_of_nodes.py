"""How much memory of regions a node has, by what the machine has left."""

from __future__ import annotations

import pytest

from nicscope import memory_limit
from nicscope.errors import RoomError
from nicscope.live.build import ENGINE
from nicscope.live.device import Engine, LiveFabric

MIB, GIB, PAGE = 1 << 20, 1 << 30, 4096


@pytest.fixture
def fabric(libraries, monkeypatch):
    """Makes one where so many bytes are left."""

    def made(left):
        monkeypatch.setattr(memory_limit, "available_bytes", lambda: left)
        return LiveFabric(Engine(libraries / ENGINE), "rnic", None)

    return made


@pytest.mark.parametrize(
    ("left", "region"),
    [(None, 1088), (16 * GIB, 1088), (10 * GIB, 544), (19 * GIB // 4, 68)],
)
def test_a_node_has_as_large_regions_as_there_is_memory_for(fabric, left, region):
    assert fabric(left).frames * PAGE == region * MIB


def test_a_machine_that_has_no_room_for_the_least_says_what_it_takes(fabric):
    with pytest.raises(RoomError, match=r"4\.\d GiB.* 1\.0 GiB"):
        fabric(GIB)
