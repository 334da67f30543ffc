"""Records read the same compiled and not; every byte of a NIC's memory is some structure's."""

import importlib
import pkgutil
from itertools import pairwise

import numpy as np
import pytest

import nicscope
from nicscope.nic.layout import new_cache, new_table, region_bytes

NICS = {
    "direct-mapped": new_cache(64),
    "searched sets": new_cache(64, ways=4, line=4),
    "linked sets": new_cache(64, ways=64),
    "with a victim cache": new_cache(64, ways=2, victim_entries=4),
    "with a victim cache of none": new_cache(64, victim_entries=0),
    "plain table": new_table(100),
}


def structured_dtypes():
    found = {}
    for module in pkgutil.walk_packages(nicscope.__path__, "nicscope."):
        if module.name == "nicscope.__main__":
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, np.dtype) and value.names:
                found[f"{module.name}.{name}"] = value
    return found


def test_no_field_of_a_record_hides_behind_an_attribute_of_np_record():
    # Compiled code would read the field, plain Python the attribute.
    dtypes = structured_dtypes()
    hidden = {
        (place, field)
        for place, dtype in dtypes.items()
        for field in dtype.names
        if hasattr(np.record, field)
    }

    assert "nicscope.nic.layout.CONFIG" in dtypes
    assert hidden == set()


@pytest.mark.parametrize("nic", NICS.values(), ids=NICS)
def test_the_regions_of_a_nic_lie_apart_in_one_arena(nic):
    regions = sorted(
        (array.ctypes.data, array.ctypes.data + array.nbytes) for array in nic if array.nbytes
    )

    assert all(end <= start for (_, end), (start, _) in pairwise(regions))
    assert len({id(arena_of(array)) for array in nic if array.nbytes}) == 1


@pytest.mark.parametrize("nic", NICS.values(), ids=NICS)
def test_region_bytes_add_up_to_the_arena_but_for_alignment(nic):
    regions = region_bytes(nic)
    arena = arena_of(nic.config).nbytes

    assert regions == {name: array.nbytes for name, array in nic._asdict().items() if array.nbytes}
    assert 0 <= arena - sum(regions.values()) < 64 * (len(regions) + 1)


@pytest.mark.parametrize("nic", NICS.values(), ids=NICS)
def test_every_region_begins_a_cache_line(nic):
    assert all(array.ctypes.data % 64 == 0 for array in nic if array.nbytes)


def test_a_byte_written_to_one_region_shows_in_no_other():
    nic = new_cache(64, ways=4, victim_entries=4)
    for name, array in nic._asdict().items():
        before = {other: region.tobytes() for other, region in nic._asdict().items()}
        array.view(np.uint8)[:] = 0xFF
        after = {other: region.tobytes() for other, region in nic._asdict().items()}

        changed = {other for other in after if after[other] != before[other]}
        assert changed == ({name} if array.nbytes else set())


def arena_of(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
