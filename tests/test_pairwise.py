"""Every pair of values occurs, in few cases, and always the same ones."""

from itertools import combinations, product

import pytest

from pairwise import in_turn, others_marked, pairs_among, pairs_of

SIZES = [(2, 2, 2), (7, 3, 20), (1, 4, 1, 4), (3, 3, 3, 3), (2, 5, 3, 4, 2), (9, 1, 2)]


def pairs(cases):
    return {pair for case in cases for pair in combinations(enumerate(case), 2)}


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_pair_of_values_of_any_two_axes_occurs_in_few_cases(sizes):
    axes = {f"axis {number}": range(size) for number, size in enumerate(sizes)}

    cases = pairs_of(**axes)

    assert pairs(cases) == pairs(product(*axes.values()))
    *_, second, first = sorted(sizes)
    assert first * second <= len(cases) <= 2 * first * second
    assert cases == pairs_of(**axes)
    assert len({*cases}) == len(cases)


@pytest.mark.parametrize("sizes", [(5,), (4, 6)], ids=str)
def test_of_one_axis_or_two_every_case_occurs(sizes):
    axes = {f"axis {number}": range(size) for number, size in enumerate(sizes)}

    assert pairs_of(**axes) == [*product(*axes.values())]


def test_values_that_cannot_be_hashed_will_do():
    cases = pairs_of(first=[{}, []], second=[{1: 2}], third=[[3], [4]])

    assert len(cases) == 4
    assert ({}, {1: 2}, [4]) in cases


def test_a_case_that_is_not_possible_does_not_occur_and_each_pair_of_the_others_does():
    axes = {"way": range(4), "level": range(3), "row": range(3)}

    def possible(way, level, row):
        return not (way == 1 and (level == 2 or row == 0))

    cases = pairs_of(possible=possible, **axes)

    assert all(possible(*case) for case in cases)
    assert pairs(cases) == pairs(case for case in product(*axes.values()) if possible(*case))


def test_among_cases_that_are_no_product_each_pair_of_aspects_is_kept():
    numbers = [*range(0, 200, 3)]

    def digits(number):
        return divmod(number, 10)[0] % 5, number % 10, number % 4

    chosen = pairs_among(numbers, digits)

    assert pairs(map(digits, chosen)) == pairs(map(digits, numbers))
    assert len(chosen) < len(numbers)
    assert {*chosen} <= {*numbers}


def test_what_is_not_chosen_is_there_with_its_mark():
    found = others_marked(pytest.mark.skip, [(1, "a"), (2, "b")], [(2, "b")])

    assert [case.values for case in found] == [(1, "a"), (2, "b")]
    assert [[mark.name for mark in case.marks] for case in found] == [["skip"], []]
    assert [case.values for case in others_marked(pytest.mark.skip, "xy", "x")] == [("x",), ("y",)]


def test_in_turn_leaves_every_value_in_a_case_that_is_not_marked():
    cases = in_turn(pytest.mark.long, "abcde", [1, 2, 3])

    left = [case.values for case in cases if not case.marks]
    assert len(cases) == 15
    assert left == [("a", 1), ("b", 2), ("c", 3), ("d", 1), ("e", 2)]
