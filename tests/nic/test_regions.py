"""Which stretches of registered memory a port may use, and its peer from afar."""

import pytest
from bare_driver import Bare

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.nic.ports.layout import MAY_FETCH, MAY_WRITE, NOBODY
from nicscope.nic.ports.regions import OWN, permits

KEY, REGIONS = 7, 4
START, LENGTH = 10_000, 500
SIZE = PortSize(connections=1, receives=2, regions=REGIONS)


def nics(**changed):
    """Node 0 of two, whose port 1 may use one region; ``changed``: fields of port or region."""
    bare = Bare("vmmc-static", size=SIZE)
    port, region = bare.ports.table[0, 1], bare.ports.work.regions[0, KEY % REGIONS]
    port["domain"] = region["domain"] = 3
    port["rights"] = region["rights"] = MAY_WRITE | MAY_FETCH
    region["key"], region["space"] = KEY, port["space"]
    region["address"], region["length"] = START, LENGTH
    for name, value in changed.items():
        of, field = name.split("_")
        (port if of == "port" else region)[field] = value
    return bare.nics


@pytest.mark.parametrize(
    ("address", "length", "inside"),
    [
        (START, LENGTH, True),
        (START + LENGTH - 1, 1, True),
        (START + LENGTH, 0, True),
        (START - 1, 2, False),
        (START, LENGTH + 1, False),
        (START + LENGTH, 1, False),
        (START + 1, LENGTH, False),
        (START, -1, False),
        (-(2**63), 2**63 - 1, False),
        (START, 2**63 - 1, False),
    ],
)
def test_a_stretch_lies_in_its_region_wholly(address, length, inside):
    assert bool(permits(nics(), 0, 1, KEY, address, length, OWN)) is inside


@pytest.mark.parametrize("key", [0, -KEY, KEY + REGIONS, KEY + 1, 2**62])
def test_a_key_names_one_region_or_none(key):
    assert not permits(nics(), 0, 1, key, START, 1, OWN)


@pytest.mark.parametrize(
    ("changed", "own", "write"),
    [
        ({}, True, True),
        ({"region_domain": 4}, False, False),
        ({"port_domain": 4}, False, False),
        ({"region_space": 5}, False, False),
        ({"region_key": 0}, False, False),
        ({"region_rights": MAY_FETCH}, True, False),
        ({"port_rights": MAY_FETCH}, True, False),
        ({"port_channel": NOBODY}, True, True),
    ],
)
def test_process_and_domain_must_agree_and_from_afar_both_must_give_the_right(changed, own, write):
    there = nics(**changed)
    assert bool(permits(there, 0, 1, KEY, START, 1, OWN)) is own
    assert bool(permits(there, 0, 1, KEY, START, 1, MAY_WRITE)) is write
