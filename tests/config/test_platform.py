"""Platform files: values, ranges and tables in whole picoseconds, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.evidence import Evidence
from nicscope.config.platform import load_platform
from nicscope.errors import PlatformError

if TYPE_CHECKING:
    from pathlib import Path

US = 10**6
WHY = 'evidence = "assumed", source = "a guess"'


def loaded(tmp_path: Path, costs: str):
    file = tmp_path / "mine.toml"
    file.write_text(f"[costs]\n{costs}\n")
    return load_platform(file)


def complaint(tmp_path: Path, text: str) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(PlatformError) as caught:
        load_platform(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("written", "ps"),
    [
        ('value = 1.1, unit = "us"', 1_100_000),
        ('value = 22, unit = "ms"', 22 * 10**9),
        ('value = 250, unit = "ps"', 250),
        ('value = 0.001, unit = "ns"', 1),
        ('value = 0, unit = "s"', 0),
    ],
)
def test_times_become_whole_picoseconds(tmp_path, written, ps):
    cost = loaded(tmp_path, f"interrupt = {{ {written}, {WHY} }}").costs["interrupt"]
    assert cost.each() == (ps, ps)


def test_a_range_has_two_bounds(tmp_path):
    cost = loaded(tmp_path, f'interrupt = {{ value = [5, 500], unit = "us", {WHY} }}')
    assert cost.costs["interrupt"].each() == (5 * US, 500 * US)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[cost]", "unknown key 'cost'; did you mean 'costs'?"),
        ("title = 'x'", "has no [costs]; state at least one"),
        ("costs = 3", "has no [costs]; state at least one"),
        (
            "[costs]\nintrrupt = 3",
            "costs: unknown key 'intrrupt'; did you mean 'interrupt'?",
        ),
        ("[costs]\ninterrupt = 3", "costs.interrupt must be a table of value, unit, evidence and"),
        (
            f"[costs]\ninterrupt = {{ value = 3, units = 'us', {WHY} }}",
            "costs.interrupt: unknown key 'units'; did you mean 'unit'?",
        ),
        (f"[costs]\ninterrupt = {{ value = 3, {WHY} }}", "costs.interrupt has no unit; choose"),
        (
            f"[costs]\ninterrupt = {{ value = 3, unit = 'h', {WHY} }}",
            "costs.interrupt has unknown unit 'h'; choose from ps, ns, us, ms, s",
        ),
        (
            f"[costs]\ncopy_per_byte = {{ value = 3, unit = 'ns', {WHY} }}",
            "costs.copy_per_byte has unknown unit 'ns'; choose from ps/B,",
        ),
        (f"[costs]\ninterrupt = {{ unit = 'us', {WHY} }}", "costs.interrupt has no value"),
        (
            f"[costs]\ninterrupt = {{ value = 'x', unit = 'us', {WHY} }}",
            "costs.interrupt: value must be a number, got 'x'",
        ),
        (
            f"[costs]\ninterrupt = {{ value = -1, unit = 'us', {WHY} }}",
            "costs.interrupt: value must be from 0 to ",
        ),
        (
            f"[costs]\ninterrupt = {{ value = nan, unit = 'us', {WHY} }}",
            "costs.interrupt: value must be from 0 to ",
        ),
        (
            f"[costs]\ninterrupt = {{ value = 1e300, unit = 'us', {WHY} }}",
            "costs.interrupt: value must be from 0 to ",
        ),
        (
            f"[costs]\ninterrupt = {{ value = 0.0000001, unit = 'us', {WHY} }}",
            "costs.interrupt: 1E-7 us is not a whole number of picoseconds",
        ),
        (
            f"[costs]\ninterrupt = {{ value = 1e-300000, unit = 'us', {WHY} }}",
            "costs.interrupt: 1E-300000 us is not a whole number of picoseconds",
        ),
        (
            f"[costs]\ninterrupt = {{ value = [2, 1], unit = 'us', {WHY} }}",
            "costs.interrupt: a range must be [low, high], got [2, 1]",
        ),
        (
            f"[costs]\ninterrupt = {{ value = [], unit = 'us', {WHY} }}",
            "costs.interrupt: a range must be [low, high], got []",
        ),
        (
            f"[costs]\ninterrupt = {{ at = [1], value = 2, unit = 'us', {WHY} }}",
            "costs.interrupt does not depend on a size; drop 'at'",
        ),
        (
            f"[costs]\nuser_pin = {{ value = [2, 3], unit = 'us', {WHY} }}",
            "costs.user_pin is a table: give numbers of pages as 'at'",
        ),
        (
            f"[costs]\nuser_pin = {{ at = [1, 2], value = [2], unit = 'us', {WHY} }}",
            "costs.user_pin is a table: give numbers of pages as 'at'",
        ),
        (
            f"[costs]\nuser_pin = {{ at = [2, 1], value = [2, 3], unit = 'us', {WHY} }}",
            "costs.user_pin: 'at' must rise from 1 or more, got [2, 1]",
        ),
        (
            f"[costs]\nuser_pin = {{ at = [1, 1.5], value = [2, 3], unit = 'us', {WHY} }}",
            "costs.user_pin: 'at' must hold whole numbers, got [1, 1.5]",
        ),
        (
            "[costs]\ninterrupt = { value = 3, unit = 'us' }",
            "costs.interrupt has no evidence; choose from published, derived,",
        ),
        (
            "[costs]\ninterrupt = { value = 3, unit = 'us', evidence = 'published', source = 'A' }",
            "costs.interrupt cites 'A', which [sources] lacks",
        ),
        (
            f"[costs]\ninterrupt = {{ value = 3, unit = 'us', {WHY} }}\n"
            "[not_applicable]\ninterrupt = 'none'",
            "interrupt has a cost and is not applicable; drop one",
        ),
        (
            f"[costs]\ninterrupt = {{ value = 3, unit = 'us', {WHY} }}\n"
            "[not_applicable]\ninterupt = 'none'",
            "not_applicable: unknown key 'interupt'; did you mean 'interrupt'?",
        ),
    ],
)
def test_a_bad_platform_file_is_refused_by_one_line_that_names_file_and_key(
    tmp_path, text, message
):
    assert complaint(tmp_path, text).startswith(message)


def test_an_unknown_platform_suggests_the_nearest():
    with pytest.raises(PlatformError, match="no platform 'utlb-protoype'; did you mean 'utlb-pro"):
        load_platform("utlb-protoype")


def combined(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_platform(path)


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
    one = combined(
        tmp_path,
        'combines = ["utlb-prototype", "pca200-linux"]\n'
        f"[costs]\ndma_init = {cost}\ntrap = {cost}\n"
        '[not_applicable]\npost = "a test"\n',
    )

    assert one.costs["dma_init"].high_ps == one.costs["trap"].high_ps == 9_000_000
    assert "trap" not in one.not_applicable
    assert "post" not in one.costs
    first = load_platform("utlb-prototype")
    assert one.costs["notify"].high_ps == first.costs["notify"].high_ps


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('"edt-table1"', "must be a list of platforms of the catalog"),
        ('["no such"]', "must be a list of platforms of the catalog"),
        ("[3]", "must be a list of platforms of the catalog"),
        ("[[]]", "must be a list of platforms of the catalog"),
        ('["utlb-edt"]', "'utlb-edt', which is combined itself"),
    ],
)
def test_a_platform_combines_only_what_stands_alone_in_the_catalog(tmp_path, given, why):
    with pytest.raises(PlatformError, match=why):
        combined(tmp_path, f"combines = {given}\n")


def test_a_combined_platform_may_say_whose_a_cost_is(tmp_path):
    text = (
        'combines = ["sonic-via", "utlb-prototype"]\n'
        '[takes]\nutlb-prototype = ["send_queue", "firmware_start"]\n'
    )
    one, first, second = combined(tmp_path, text), *map(load_platform, PARTS)

    assert one.costs["send_queue"].high_ps == second.costs["send_queue"].high_ps
    assert "firmware_start" not in one.costs  # nor is it the first's
    assert one.costs["receive_queue"].high_ps == first.costs["receive_queue"].high_ps


PARTS = ("sonic-via", "utlb-prototype")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ('utlb-prototype = ["dma_init"]', "'utlb-prototype' says nothing of 'dma_init'"),
        ('utlb-prototype = "post"', "must be a table of lists of costs, by platform"),
        ('mini = ["post"]', "takes"),
        ('sonic-via = ["post"]\nutlb-prototype = ["post"]', "post is taken twice; keep one"),
    ],
)
def test_what_a_combined_platform_takes_is_checked(tmp_path, given, why):
    with pytest.raises(PlatformError, match=why):
        combined(tmp_path, f'combines = ["sonic-via", "utlb-prototype"]\n[takes]\n{given}\n')
