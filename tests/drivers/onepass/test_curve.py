import numpy as np
import pytest
from hypothesis import given
from lookups import chunks, cuts, lookups

from nicscope.drivers.onepass import distance
from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.distance import NEVER, StackDistances
from oracle.onepass import fully_associative_misses, stack_distances


def distances_of(numbers, shortest=distance.SHORTEST):
    measured = StackDistances(shortest).pieces(numbers)
    return np.concatenate([np.empty(0, np.uint32), *(piece.copy() for piece in measured)])


def reference(numbers):
    """Stack distances by counting the latest lookups in between, one vector per lookup."""
    last, latest = {}, np.zeros(len(numbers), bool)
    found = []
    for i, key in enumerate(numbers.tolist()):
        before = last.get(key)
        found.append(NEVER if before is None else np.count_nonzero(latest[before + 1 : i]))
        if before is not None:
            latest[before] = False
        latest[i] = True
        last[key] = i
    return np.array(found, np.uint32)


@given(columns=lookups())
def test_a_distance_is_the_number_of_other_keys_since_the_last_lookup(columns):
    numbers, _ = columns

    got = [None if found == NEVER else found for found in distances_of(numbers).tolist()]

    assert got == stack_distances(numbers.tolist())


@given(columns=lookups(), where=cuts())
def test_the_curve_is_what_single_caches_miss_however_the_lookups_are_cut(columns, where):
    numbers, _ = columns
    curve = LruCurve()
    for chunk, _ in chunks(columns, where):
        curve.feed(chunk)

    result = curve.result()

    footprint = len(set(numbers.tolist()))
    assert (result.lookups, result.compulsory) == (len(numbers), footprint)
    assert result.misses.tolist() == [
        fully_associative_misses(numbers.tolist(), capacity) for capacity in range(footprint + 1)
    ]
    assert result.misses_at([footprint + 1, 10**9]).tolist() == [footprint] * 2


@pytest.mark.compiled
@pytest.mark.parametrize("keys", [3, 900, 1100, 5000])
def test_distances_stay_right_while_the_time_line_fills_up_and_grows(keys):
    rng = np.random.default_rng(keys)
    numbers = (rng.zipf(1.3, 30_000) % keys).astype(np.uint32)
    numbers[:keys] = np.arange(keys)[::-1]

    assert np.array_equal(distances_of(numbers, shortest=4096), reference(numbers))


@pytest.mark.compiled
def test_a_loop_over_more_keys_than_a_region_has_slots_always_misses_in_smaller_caches():
    keys = 1 << 19
    curve = LruCurve()
    for _ in range(5):
        curve.feed(np.arange(keys, dtype=np.uint32))

    result = curve.result()

    assert result.misses_at([0, 1, keys - 1, keys]).tolist() == [5 * keys] * 3 + [keys]


def test_an_unused_curve_misses_nothing():
    result = LruCurve().feed(np.empty(0, np.uint32)).result()

    assert (result.lookups, result.compulsory, result.misses.tolist()) == (0, 0, [0])


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2), np.uint32)])
def test_a_column_of_another_type_or_shape_is_refused(wrong):
    with pytest.raises(ValueError, match="numbers must be a column of uint32"):
        LruCurve().feed(wrong)


@pytest.mark.parametrize("shortest", [64, 5000])
def test_a_time_line_that_groups_do_not_fill_is_refused(shortest):
    with pytest.raises(ValueError, match="power of two"):
        StackDistances(shortest)
