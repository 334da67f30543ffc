"""What a coherent host and its interface are like comes from platforms, and from nowhere else."""

import msgspec
import pytest

from bus_by_hand import Bus
from nicscope.config.costs import COSTS, Evidence
from nicscope.config.design import Way
from nicscope.config.platform import (
    MACHINE,
    MACHINE_TIMES,
    OF_ANY,
    OF_VIA,
    VIA_COSTS,
    load_platform,
)
from nicscope.drivers.simulate.bus.state import UNFITTED, machine_parameters, unfitted, word_of
from nicscope.errors import PlatformError
from nicscope.interfaces.ways import Combination, check_runs
from nicscope.memory.coherence.layout import HOST_PARAMETERS, host_settings
from nicscope.nic.coherent import NIC_PARAMETERS, nic_settings

SONIC = "sonic-via"


def test_every_parameter_of_the_kernels_is_a_word_of_platforms_and_the_other_way_round():
    words = set(HOST_PARAMETERS) | {word_of(name) for name in NIC_PARAMETERS}

    assert words == (set(MACHINE) - {*OF_VIA, *OF_ANY}) | set(MACHINE_TIMES)
    assert set(MACHINE_TIMES) | set(VIA_COSTS) <= set(COSTS)
    assert not set(MACHINE) & set(COSTS)


@pytest.mark.parametrize("given", [host_settings, nic_settings])
def test_no_parameter_has_a_value_of_its_own_in_code(given):
    with pytest.raises(ValueError, match="needs memory_bytes"):
        given({})


@pytest.mark.parametrize("name", [*sorted({*MACHINE} - {*OF_ANY}), *MACHINE_TIMES, *VIA_COSTS])
def test_a_parameter_that_a_platform_does_not_state_is_an_error_in_one_line(name):
    whole = load_platform(SONIC)
    costs = {key: cost for key, cost in whole.costs.items() if key != name}
    machine = {key: one for key, one in whole.machine.items() if key != name}
    without = msgspec.structs.replace(whole, costs=costs, machine=machine)

    with pytest.raises(PlatformError, match=f"'sonic-via' states no {name}, so ") as refused:
        check_runs(Combination("VIA", without, Way.EDT))

    assert "\n" not in str(refused.value)


def test_what_a_platform_states_is_what_the_machine_has():
    platform = load_platform(SONIC)
    host, nic = machine_parameters(platform)
    bus = Bus(host, nic).bus

    for name in HOST_PARAMETERS:
        stated = platform.machine.get(name)
        value = platform.costs[name].high_ps if stated is None else stated.value
        assert int(bus.hosts.config[0, 0][name]) == value, name
    for name in NIC_PARAMETERS:
        word = word_of(name)
        stated = platform.machine.get(word)
        value = platform.costs[word].high_ps if stated is None else stated.value
        assert int(bus.ways.nics.config[0, 0][name]) == value, name


def test_what_is_not_said_of_a_machine_is_as_before_any_fit():
    hosts = Bus({"snoop": 3}).bus.hosts
    platform = load_platform(UNFITTED)

    assert int(hosts.config[0, 0]["snoop"]) == 3
    assert {name: int(hosts.config[0, 0][name]) for name in HOST_PARAMETERS} == {
        **unfitted().host,
        "snoop": 3,
    }
    kinds = [cost.origin.evidence for cost in platform.costs.values()]
    kinds += [one.origin.evidence for one in platform.machine.values()]
    assert Evidence.FITTED not in kinds


def test_the_two_platforms_differ_in_what_was_fitted_and_in_room_alone():
    fitted, before = load_platform(SONIC), load_platform(UNFITTED)

    times = {
        name for name, one in before.costs.items() if fitted.costs[name].high_ps != one.high_ps
    }
    others = {
        name for name, one in before.machine.items() if fitted.machine[name].value != one.value
    }

    assert times == {"cache_supply", "dma_init", "dma_interrupt"}
    assert {fitted.costs[name].origin.evidence for name in times} == {Evidence.FITTED}
    assert others == {"memory_bytes", "staging_bytes", "dma_window", "background_bytes"}
    is_fitted = {name: fitted.machine[name].origin.evidence is Evidence.FITTED for name in others}
    assert {name for name, one in is_fitted.items() if one} == {"dma_window", "background_bytes"}
