"""Another number in the place of a platform's."""

from __future__ import annotations

from fractions import Fraction

import pytest

from nicscope.config.evidence import Evidence
from nicscope.config.platform import load_platform, read_cost, with_cost
from nicscope.errors import PlatformError


@pytest.mark.parametrize(
    ("key", "text", "ps"),
    [
        ("ni_check", "0.3us", 300_000),
        ("interrupt", "10 us", 10_000_000),
        ("interrupt", "0s", 0),
        ("copy_per_byte", "13.5ns/B", 13_500),
    ],
)
def test_a_cost_is_a_time_with_its_unit_in_whole_picoseconds(key, text, ps):
    cost = read_cost(key, text, "here")

    assert (cost.low_ps, cost.high_ps, cost.points) == (ps, ps, ())
    assert cost.origin.evidence is Evidence.ASSUMED


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("ni_chek", "1us", "did you mean 'ni_check'?"),
        ("ni_check", "1", "such as '0.3us'"),
        ("ni_check", "-1us", "such as '0.3us'"),
        ("ni_check", "1ns/B", "such as '0.3us'"),
        ("copy_per_byte", "1us", "such as '13.5ns/B'"),
        ("ni_check", "0.3ps", "not a whole number of picoseconds"),
        ("ni_check", "9999999999s", "must be from 0"),
    ],
)
def test_what_is_no_such_cost_is_told_with_its_place(key, text, words):
    with pytest.raises(PlatformError, match=r"^here: ") as refused:
        read_cost(key, text, "here")

    assert words in str(refused.value)


def test_a_number_takes_the_place_of_a_table_for_every_size():
    platform = load_platform("utlb-prototype")
    assert platform.costs["ni_miss"].points

    changed = with_cost(platform, read_cost("ni_miss", "2us", "here"))

    assert changed.costs["ni_miss"].each(Fraction(5)) == (2_000_000, 2_000_000)
    assert changed.costs["ni_check"] == platform.costs["ni_check"]
    assert platform.costs["ni_miss"].points


def test_what_was_not_applicable_applies_once_it_has_a_cost():
    platform = load_platform("dc21140-linux")
    absent = next(iter(platform.not_applicable))

    changed = with_cost(platform, read_cost(absent, "1us", "here"))

    assert absent in changed.costs
    assert absent not in changed.not_applicable
