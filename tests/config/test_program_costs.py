"""What a running program is charged: whole picoseconds, and one line for what is not stated."""

from fractions import Fraction

import numpy as np
import pytest

from nicscope.config.costs import COSTS
from nicscope.config.design import CELL_WORDS, DELIVERY_COSTS, Scheme, design_names, load_design
from nicscope.config.platform import (
    EVERYWHERE,
    FALLBACKS,
    OF_SCHEME,
    PROGRAM_COSTS,
    TABLES,
    delivery_costs,
    load_platform,
    program_costs,
    transfer_costs,
)
from nicscope.errors import PlatformError
from refusals import refused

US = 10**6
RUNNING = ["pca200-linux", "dc21140-linux", "dc21140-nt", "utlb-prototype", "mini-cluster"]
OWN = {"unet": "dc21140-linux"} | {
    name: load_design(name).platform
    for name in design_names()
    if load_design(name).platform in RUNNING
}


def steps(platform, scheme, **options):
    return program_costs(load_platform(platform), scheme, **options).steps


def platform_of(tmp_path, costs, absent=""):
    lines = "".join(
        f'{name} = {{ value = {value}, unit = "us", evidence = "assumed", source = "x" }}\n'
        for name, value in costs.items()
    )
    file = tmp_path / "lab.toml"
    file.write_text(f'title = "Lab"\n[costs]\n{lines}[not_applicable]\n{absent}')
    return load_platform(file)


def test_every_scheme_says_what_its_programs_need():
    assert set(OF_SCHEME) == set(Scheme)
    named = {*PROGRAM_COSTS, *TABLES, *FALLBACKS, *(b for one in FALLBACKS.values() for b in one)}
    assert named <= set(COSTS)
    assert {name for name in named if COSTS[name].size_of} == set(TABLES)


@pytest.mark.parametrize(("design", "platform"), sorted(OWN.items()))
def test_every_published_design_can_run_on_its_own_platform(design, platform):
    costs = program_costs(load_platform(platform), load_design(design).scheme)
    assert set(costs.steps) == {*PROGRAM_COSTS}
    assert set(costs.tables) == set(TABLES)
    assert all(isinstance(ps, int) and ps >= 0 for ps in costs.steps.values())


@pytest.mark.parametrize("platform", RUNNING)
def test_what_carries_messages_is_stated_on_every_such_platform(platform):
    stated = load_platform(platform)
    assert set(transfer_costs(stated)) == {*DELIVERY_COSTS, *CELL_WORDS}
    for name in (*EVERYWHERE, *DELIVERY_COSTS):
        assert (name in stated.costs) != (name in stated.not_applicable), name


@pytest.mark.parametrize("platform", RUNNING)
def test_rates_are_such_that_the_driver_can_run(platform):
    costs = transfer_costs(load_platform(platform))
    rates = [name for name in DELIVERY_COSTS if name.endswith("_per_byte")]
    for name in rates:
        assert costs[name] >= (0 if name == "nic_memory_per_byte" else 1), name
        if name.startswith("pci_"):
            assert costs[name] > costs["nic_memory_per_byte"], name
    for direction in ("pci_read", "pci_write", "block_copy"):
        assert costs[f"{direction}_contended_per_byte"] > costs[f"{direction}_per_byte"]


@pytest.mark.parametrize("platform", RUNNING)
def test_firmware_is_not_paid_for_twice(platform):
    stated = load_platform(platform)
    assert stated.costs["send_queue"].high_ps > 0
    assert transfer_costs(stated)["firmware_start"] == 0
    with refused(PlatformError, "firmware_start, firmware_finish"):
        delivery_costs(stated)


@pytest.mark.parametrize(
    ("platform", "bits_per_s", "share"),
    [("pca200-linux", 155 * 10**6, Fraction(48, 53)), ("dc21140-nt", 10**8, 1)],
)
def test_a_link_is_as_fast_as_its_paper_says(platform, bits_per_s, share):
    exact = Fraction(8 * 10**12, bits_per_s) / share
    assert abs(transfer_costs(load_platform(platform))["link_per_byte"] - exact) < 1


@pytest.mark.requirement("UM-81")
def test_the_steps_of_unet_mm_come_back_as_table_1_prints_them():
    pca200 = steps("pca200-linux", Scheme.UNET_MM)
    assert pca200["send_queue"] + pca200["ni_hit_send"] == 11 * US
    plain = ("ni_handshake", "interrupt", "kernel_pin", "kernel_unpin")
    assert sum(pca200[name] for name in plain) == 49 * US
    assert pca200["trap"] == 0
    nt = steps("dc21140-nt", Scheme.UNET_MM)
    assert nt["interrupt_entry"] + nt["receive_queue"] + nt["ni_hit_receive"] == 7.7 * US
    assert (nt["ni_handshake"], nt["interrupt"]) == (0, 0)
    assert nt["copy_start"] + 1498 * nt["copy_per_byte"] == pytest.approx(42 * US, rel=0.002)


@pytest.mark.requirement("UT-71")
def test_tables_reach_every_size_and_go_on_as_a_straight_line():
    platform = load_platform("utlb-prototype")
    tables = program_costs(platform, Scheme.UTLB, longest=100).tables
    for name, table in tables.items():
        assert table.shape == (101,)
        assert table.dtype == np.int64
        assert table[0] == 0
        for size in range(1, 101):
            assert table[size] == int(platform.costs[name].each(Fraction(size))[0])
        assert len(set(np.diff(table[32:]))) == 1
    assert tables["user_pin"][[1, 2, 16, 32]].tolist() == [27 * US, 30 * US, 70 * US, 115 * US]
    assert tables["ni_miss"][32] == 3.2 * US


@pytest.mark.requirement("MI-58")
@pytest.mark.parametrize(("place", "delay"), [(0, 0), ("1/2", 25), (1, 50)])
def test_of_a_range_a_run_takes_one_place(place, delay):
    costs = steps("mini-cluster", Scheme.HANDLE, place=Fraction(place))
    assert (costs["miss_delay"], costs["miss_processing"]) == (delay * US, 5 * US)
    assert costs["kernel_pin"] == 1.8 * US  # of each page besides
    assert steps("mini-cluster", Scheme.HANDLE)["miss_delay"] == 25 * US  # unless told


@pytest.mark.parametrize("options", [{"longest": 32}, {"place": Fraction(3, 2)}])
def test_options_out_of_range_are_a_mistake_in_the_program(options):
    with refused(ValueError, "longest", "33", "place", "from 0 to 1"):
        steps("mini-cluster", Scheme.HANDLE, **options)


def test_all_that_is_not_stated_is_named_in_one_line():
    with refused(PlatformError, "'mini-cluster'", "user_check, ni_dma, ni_"):
        steps("mini-cluster", Scheme.UTLB)


def test_a_call_that_was_not_timed_is_a_crossing_and_the_kernels_pages(tmp_path):
    costs = dict.fromkeys(EVERYWHERE, 1) | {"system_call": 10, "kernel_pin": 17, "ni_check": 2}
    found = program_costs(platform_of(tmp_path, costs), Scheme.STATIC)
    assert found.tables["user_pin"][[0, 1, 3]].tolist() == [0, 27 * US, 61 * US]
    assert found.steps["ni_table_read"] == 2 * US


def test_a_lookup_that_does_not_apply_stands_in_for_no_other(tmp_path):
    costs = dict.fromkeys(EVERYWHERE, 1) | {"interrupt": 1, "kernel_pin": 1, "kernel_unpin": 1}
    del costs["ni_handle"]
    with refused(PlatformError, "ni_check"):
        program_costs(
            platform_of(tmp_path, costs, 'ni_handle = "in the queue"\n'), Scheme.INTERRUPT
        )


def test_a_miss_thread_that_was_not_timed_takes_what_its_pins_take(tmp_path):
    costs = dict.fromkeys(EVERYWHERE, 1) | {"interrupt": 9, "kernel_pin": 17, "kernel_unpin": 1}
    found = program_costs(platform_of(tmp_path, costs), Scheme.HANDLE).steps
    assert (found["miss_delay"], found["miss_processing"]) == (9 * US, 0)
    assert found["kernel_pin"] == 17 * US
    del costs["kernel_pin"]
    with refused(PlatformError, "kernel_pin"):
        program_costs(platform_of(tmp_path, costs), Scheme.HANDLE)
