"""Platform files: values, ranges and tables in whole picoseconds, and others in their place."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.costs import Evidence
from nicscope.config.platform import load_platform, platform_names, read_cost, with_cost
from nicscope.errors import PlatformError
from refusals import refused

US = 10**6
WHY = 'evidence = "assumed", source = "a guess"'


def loaded(tmp_path, costs, head="[costs]"):
    file = tmp_path / "mine.toml"
    file.write_text(f"{head}\n{costs}\n")
    return load_platform(file)


@pytest.mark.parametrize(
    ("written", "ps"),
    [
        ('value = 1.1, unit = "us"', 1_100_000),
        ('value = 22, unit = "ms"', 22 * 10**9),
        ('value = 250, unit = "ps"', 250),
        ('value = 0.001, unit = "ns"', 1),
        ('value = 0, unit = "s"', 0),
        ('value = [5, 500], unit = "us"', (5 * US, 500 * US)),
    ],
)
def test_times_become_whole_picoseconds(tmp_path, written, ps):
    cost = loaded(tmp_path, f"interrupt = {{ {written}, {WHY} }}").costs["interrupt"]
    assert cost.each() == (ps if isinstance(ps, tuple) else (ps, ps))


@pytest.mark.requirement("UT-71")
@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("request_check_min", [0.2, 0.2, 0.2, 0.2, 0.2, 0.2]),
        ("request_check_max", [0.4, 0.6, 0.6, 0.6, 0.6, 0.7]),
        ("user_pin", [27, 30, 36, 47, 70, 115]),
        ("user_unpin", [25, 30, 36, 50, 80, 139]),
    ],
)
def test_the_rows_of_utlb_table_1_come_back_at_their_sizes(name, printed):
    cost = load_platform("utlb-prototype").costs[name]
    got = [float(cost.each(Fraction(size))[0] / US) for size in (1, 2, 4, 8, 16, 32)]
    assert got == printed


@pytest.mark.requirement("UT-72")
def test_the_rows_of_utlb_table_2_come_back_at_their_sizes():
    costs = load_platform("utlb-prototype").costs
    sizes = [Fraction(size) for size in (1, 2, 4, 8, 16, 32)]
    dma = [float(costs["ni_dma"].each(size)[0] / US) for size in sizes]
    whole = [float(costs["ni_miss"].each(size)[0] / US) for size in sizes]
    assert dma == [1.5, 1.6, 1.6, 1.9, 2.1, 2.5]
    assert whole == [1.8, 1.9, 1.9, 2.3, 2.8, 3.2]
    assert costs["ni_check"].each() == (800_000, 800_000)


@pytest.mark.requirement("UM-81")
def test_every_row_of_unet_mm_table_1_is_a_cost():
    stated = {
        name: {
            key: float(cost.each()[0] / US)
            for key, cost in load_platform(name).costs.items()
            if cost.origin.evidence is Evidence.PUBLISHED
        }
        for name in ("pca200-linux", "dc21140-linux", "dc21140-nt")
    }
    pca200, linux, nt = stated.values()
    assert pca200 == {
        "send_queue": 10,
        "ni_hit_send": 1,
        "ni_handshake": 24,
        "interrupt": 10,
        "kernel_pin": 11,
        "page_fault": 22000,
        "kernel_unpin": 4,
        "ni_hit_pretranslate": 1,
        "kernel_pin_receive": 11,
        "kernel_pin_shared": 44,
        "zero_map_in": 36,
        "receive_queue": 13,
        "ni_hit_receive": 2,
    }
    assert (linux["trap"], linux["send_queue"]) == (1, 3.2)
    assert (linux["interrupt_entry"], linux["receive_queue"]) == (2, 3.3)
    assert (nt["trap"], nt["send_queue"], nt["interrupt_entry"]) == (3, 2.8, 3)
    assert (nt["receive_queue"], nt["ni_hit_send"], nt["ni_hit_receive"]) == (3.7, 1, 1)
    assert (nt["kernel_pin"], nt["kernel_pin_receive"], nt["kernel_unpin"]) == (16, 37, 4)
    assert nt["page_fault"] == 22000


@pytest.mark.parametrize(
    ("size", "us"), [(Fraction(3), 33), (Fraction(3, 2), Fraction(57, 2)), (Fraction(64), 205)]
)
def test_between_points_a_table_is_a_line_and_beyond_the_last_it_goes_on(size, us):
    cost = load_platform("utlb-prototype").costs["user_pin"]
    assert cost.each(size)[0] == us * US
    assert cost.evidence_at(size) is Evidence.DERIVED
    assert cost.evidence_at(Fraction(4)) is Evidence.PUBLISHED


@given(a=st.fractions(1, 100), b=st.fractions(1, 100))
def test_pinning_more_pages_never_costs_less(a, b):
    cost = load_platform("utlb-prototype").costs["user_pin"]
    small, large = sorted([a, b])
    assert cost.each(small) <= cost.each(large)


@pytest.mark.parametrize(("name", "most_us"), [("user_pin", 0.5), ("user_unpin", 1.4)])
def test_the_tables_of_utlb_stay_near_the_line_through_their_ends(name, most_us):
    # This bounds what reading a table at the mean size can get wrong.
    points = load_platform("utlb-prototype").costs[name].points
    (x0, y0), (x1, y1) = points[0], points[-1]
    off = [abs(y - y0 - (x - x0) * (y1 - y0) / (x1 - x0)) for x, y in points]
    assert max(off) <= most_us * US


def test_a_falling_table_does_not_fall_below_zero(tmp_path):
    text = f'ni_miss = {{ at = [1, 2], value = [2, 1], unit = "us", {WHY} }}'
    assert loaded(tmp_path, text).costs["ni_miss"].each(Fraction(9)) == (0, 0)


def test_a_table_without_a_size_is_a_mistake_in_the_program():
    with pytest.raises(ValueError, match="needs a size"):
        load_platform("utlb-prototype").costs["user_pin"].each()


def test_what_a_platform_combines_is_assumed_there_and_names_whose_it_is():
    one, bus, nic = (load_platform(name) for name in ("utlb-edt", "edt-table1", "utlb-prototype"))

    assert {*one.machine} == {*bus.machine, *nic.machine}
    assert {*one.costs} == ({*bus.costs} | {*nic.costs}) - {"nic_memory_per_byte"}
    for part in (bus, nic):
        for name, cost in part.costs.items():
            if name not in one.not_applicable:
                assert one.costs[name].points == cost.points
                assert one.costs[name].high_ps == cost.high_ps
                assert one.costs[name].origin.evidence is Evidence.ASSUMED
                assert part.name in one.costs[name].origin.source
    assert {*one.not_applicable} == {*nic.not_applicable, "nic_memory_per_byte"}


def test_what_a_platform_states_itself_goes_before_what_it_combines(tmp_path):
    cost = '{ value = 9, unit = "us", evidence = "assumed", source = "assumed: a test" }'
    costs = f'dma_init = {cost}\ntrap = {cost}\n[not_applicable]\npost = "a test"'
    one = loaded(tmp_path, costs, 'combines = ["utlb-prototype", "pca200-linux"]\n[costs]')

    assert one.costs["dma_init"].high_ps == one.costs["trap"].high_ps == 9_000_000
    assert "trap" not in one.not_applicable
    assert "post" not in one.costs
    first = load_platform("utlb-prototype")
    assert one.costs["notify"].high_ps == first.costs["notify"].high_ps


def test_a_combined_platform_may_say_whose_a_cost_is(tmp_path):
    parts = ("sonic-via", "utlb-prototype")
    takes = 'utlb-prototype = ["send_queue", "firmware_start"]'
    one = loaded(tmp_path, takes, f"combines = {[*parts]}\n[takes]")
    first, second = map(load_platform, parts)

    assert one.costs["send_queue"].high_ps == second.costs["send_queue"].high_ps
    assert "firmware_start" not in one.costs  # nor is it the first's
    assert one.costs["receive_queue"].high_ps == first.costs["receive_queue"].high_ps


@pytest.mark.parametrize(
    ("key", "text", "ps"),
    [
        ("ni_check", "0.3us", 300_000),
        ("interrupt", "10 us", 10_000_000),
        ("interrupt", "0s", 0),
        ("copy_per_byte", "13.5ns/B", 13_500),
    ],
)
def test_a_cost_is_set_to_a_time_with_its_unit(key, text, ps):
    cost = read_cost(key, text, "here")

    assert (cost.low_ps, cost.high_ps, cost.points) == (ps, ps, ())
    assert cost.origin.evidence is Evidence.ASSUMED


@pytest.mark.parametrize(
    ("key", "text", "fact"),
    [
        ("ni_chek", "1us", "'ni_check'"),
        *(("ni_check", text, "'0.3us'") for text in ("1", "-1us", "1ns/B")),
        ("copy_per_byte", "1us", "'13.5ns/B'"),
        ("ni_check", "0.3ps", "whole number of picoseconds"),
        ("ni_check", "9999999999s", "from 0"),
    ],
)
def test_what_is_no_such_cost_is_told_with_its_place(key, text, fact):
    with refused(PlatformError, "here: ", fact):
        read_cost(key, text, "here")


def test_a_number_takes_the_place_of_a_table_or_of_what_was_not_applicable():
    platform, linux = load_platform("utlb-prototype"), load_platform("dc21140-linux")
    assert platform.costs["ni_miss"].points
    absent = next(iter(linux.not_applicable))

    changed = with_cost(platform, read_cost("ni_miss", "2us", "here"))
    applies = with_cost(linux, read_cost(absent, "1us", "here"))

    assert changed.costs["ni_miss"].each(Fraction(5)) == (2_000_000, 2_000_000)
    assert changed.costs["ni_check"] == platform.costs["ni_check"]
    assert platform.costs["ni_miss"].points
    assert absent in applies.costs
    assert absent not in applies.not_applicable


def test_sizes_may_be_written_in_larger_units(tmp_path):
    costs = f'post = {{ value = 1, unit = "us", {WHY} }}'
    machine = f"[machine]\nl1_bytes = {{ value = 3, unit = 'KiB', {WHY} }}\n[costs]"

    assert loaded(tmp_path, costs, machine).machine["l1_bytes"].value == 3072


LIKE = re.compile(
    r"assumed: (?:as (?P<same>[\w-]+)"
    r"|(?P<other>[\w-]+)'s by (?P<by>\d+) over (?P<over>\d+) MHz)\b"
)


@pytest.mark.parametrize("name", platform_names())
def test_a_cost_that_is_said_to_be_another_platforms_is_that(name):
    for key, cost in load_platform(name).costs.items():
        like = LIKE.match(cost.origin.source)
        source = like and (like["same"] or like["other"])
        if source not in platform_names() or key not in load_platform(source).costs:
            continue
        factor = 1.0 if like["same"] else int(like["by"]) / int(like["over"])
        theirs = load_platform(source).costs[key]
        assert cost.high_ps == pytest.approx(theirs.high_ps * factor, rel=5e-3), key
