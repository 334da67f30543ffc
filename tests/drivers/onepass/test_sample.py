from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookups import chunks, cuts, lookups

from nicscope.drivers.onepass import sample
from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.sample import (
    BUCKETS,
    PARTS,
    SampledCurve,
    at_or_beyond,
    bucket_of,
    bucket_starts,
)
from oracle.onepass import fully_associative_misses

MILLION = 1_000_000
SIZES = np.array([256, 1024, 4096, 8192, 16384, 32768, 65536, 1 << 18, 1 << 19, MILLION])


def zipf(exponent, count, keys, rng):
    law = np.cumsum(1.0 / np.arange(1, keys + 1) ** exponent)
    rank = np.searchsorted(law, rng.random(count) * law[-1]).clip(max=keys - 1)
    return rng.permutation(keys).astype(np.uint32)[rank]


def runs(count, keys, rng):
    """Runs of about ten neighbours, which start anywhere, popular places more often."""
    starts = zipf(0.8, count // 8, keys, rng)
    lengths = 1 + rng.geometric(0.1, len(starts))
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return ((starts.repeat(lengths) + step) % keys).astype(np.uint32)[:count]


def phases(count, keys, rng):
    """Now a scan of all, now reuse of a few: what a sample over time could miss."""
    scan = np.arange(keys, dtype=np.uint32)
    few = zipf(0.9, count * 3 // 10, keys // 20, rng)
    return np.concatenate([scan, few, few[::-1], scan])[:count]


TRACES = {
    "even": lambda rng: rng.integers(0, MILLION, 5 * MILLION, dtype=np.uint32),
    "skewed": lambda rng: zipf(0.9, 5 * MILLION, MILLION, rng),
    "runs": lambda rng: runs(5 * MILLION, MILLION, rng),
    "phases": lambda rng: phases(5 * MILLION, MILLION, rng),
    "loop": lambda _: np.arange(5 * MILLION, dtype=np.uint32) % np.uint32(MILLION),
}


class Trials(NamedTuple):
    """The exact miss ratios of a trace of a million pages at ``SIZES``, and samples of 1 %."""

    exact: np.ndarray
    estimates: list
    has_phases: bool


@pytest.fixture(scope="module", params=TRACES)
def trials(request):
    numbers = TRACES[request.param](np.random.default_rng(11))
    exact = LruCurve().feed(numbers).result().misses_at(SIZES) / len(numbers)
    estimates = [SampledCurve(0.01, seed=seed).feed(numbers).result(SIZES) for seed in range(20)]
    return Trials(exact, estimates, request.param == "phases")


@pytest.mark.compiled
def test_the_interval_holds_the_exact_value_in_nine_of_ten_trials_at_each_size(trials):
    exact, estimates, _ = trials

    held = [(found.low <= exact + 1e-9) & (exact - 1e-9 <= found.high) for found in estimates]

    assert np.mean(held, axis=0).min() >= 0.9


@pytest.mark.compiled
def test_a_hundredth_of_a_million_pages_is_off_by_less_than_a_hundredth_on_average(trials):
    exact, estimates, has_phases = trials

    errors = np.abs([found.miss_ratio - exact for found in estimates])

    # Ten bursts say little about a program that has phases: small capacities stay uncertain.
    first = np.searchsorted(SIZES, 16384) if has_phases else 0
    assert errors[:, first:].mean(axis=1).max() < 0.01  # over the sizes, in every trial
    assert errors[:, first:].mean(axis=0).max() < 0.01  # over the trials, at every size


@pytest.mark.compiled
def test_the_interval_is_of_use(trials):
    _, estimates, has_phases = trials

    widths = np.array([found.high - found.low for found in estimates])

    assert widths[:, np.searchsorted(SIZES, 16384) :].max() < 0.06
    assert has_phases or widths.max() < 0.06


@pytest.mark.compiled
def test_a_cache_for_all_keys_misses_only_first_lookups():
    numbers = np.tile(np.arange(30_000, dtype=np.uint32), 4)

    found = SampledCurve(0.1).feed(numbers).result([29_999, 30_000, 10**9])

    assert found.high[0] == 1
    for column in (found.miss_ratio, found.low, found.high):
        assert column[1:].tolist() == [0.25, 0.25]


@given(columns=lookups(), where=cuts(), keys=st.sampled_from((None, 64)), seed=st.integers(0, 5))
def test_how_the_lookups_are_cut_changes_nothing(columns, where, keys, seed):
    numbers, _ = columns
    rate = 0.5 if keys is None else None
    whole = SampledCurve(rate, keys=keys, seed=seed).feed(numbers)
    pieces = SampledCurve(rate, keys=keys, seed=seed)
    for chunk, _ in chunks(columns, where):
        pieces.feed(chunk)

    for got, want in zip(pieces.result([0, 5, 40]), whole.result([0, 5, 40]), strict=True):
        assert np.array_equal(got, want)


@pytest.mark.compiled
@pytest.mark.parametrize("most", [100, 5000])
def test_a_sample_of_fixed_size_stays_within_it_however_the_lookups_are_cut(most):
    rng = np.random.default_rng(3)
    numbers = zipf(0.7, 3_000_000, 200_000, rng)
    whole = SampledCurve(keys=most).feed(numbers)
    pieces = SampledCurve(keys=most)
    for chunk in np.split(numbers, np.sort(rng.integers(0, len(numbers), 60))):
        pieces.feed(chunk)
        assert pieces.result([1]).sampled_keys <= most

    want, got = whole.result([1000, 50_000]), pieces.result([1000, 50_000])

    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    assert want.sampled_keys >= most * 0.8
    assert want.sampled_keys / want.compulsory == pytest.approx(want.rate, rel=0.5)
    exact = LruCurve().feed(numbers).result().misses_at([1000, 50_000]) / len(numbers)
    assert ((want.low <= exact) & (exact <= want.high)).all()
    assert np.abs(want.miss_ratio - exact).max() < (0.02 if most == 5000 else 0.3)


@given(columns=lookups())
def test_a_sample_of_everything_is_exact(columns):
    numbers, _ = columns

    found = SampledCurve(1.0).feed(numbers).result(range(70))

    exact = [fully_associative_misses(numbers.tolist(), capacity) for capacity in range(70)]
    assert found.lookups == found.sampled_lookups == len(numbers)
    assert found.compulsory == found.sampled_keys == len(set(numbers.tolist()))
    assert found.miss_ratio * len(numbers) == pytest.approx(exact)


@pytest.mark.compiled
def test_the_seed_and_nothing_else_chooses_the_keys():
    numbers = np.arange(50_000, dtype=np.uint32)
    first, again, other = (
        SampledCurve(0.01, seed=seed).feed(numbers).result([100]) for seed in (1, 1, 2)
    )

    assert first.sampled_keys == again.sampled_keys != other.sampled_keys
    assert 400 < first.sampled_keys < 600
    order = np.random.default_rng(1).permutation(numbers)
    assert SampledCurve(0.01, seed=1).feed(order).result([100]).sampled_keys == first.sampled_keys


@pytest.mark.compiled
def test_a_small_footprint_makes_a_sample_pointless():
    some, many = (np.arange(keys, dtype=np.uint32) for keys in (50_000, 200_000))

    assert SampledCurve(0.01).feed(some).result([1]).is_pointless
    assert not SampledCurve(0.01).feed(many).result([1]).is_pointless


def test_a_sample_of_nothing_knows_nothing():
    found = SampledCurve(0.5).feed(np.empty(0, np.uint32)).result([0, 10])

    assert (found.lookups, found.sampled_keys, found.is_pointless) == (0, 0, True)
    assert (found.low.tolist(), found.high.tolist()) == ([0, 0], [1, 1])


@pytest.mark.compiled
def test_bursts_tell_small_capacities_however_the_lookups_are_cut():
    rng = np.random.default_rng(8)
    numbers = zipf(0.8, 8 * sample.PERIOD, 100_000, rng)
    whole, pieces = sample.Bursts(4), sample.Bursts(4)
    whole.feed(numbers)
    for chunk in np.split(numbers, np.sort(rng.integers(0, len(numbers), 50))):
        pieces.feed(chunk)
    sizes = np.array([64.0, 500.0, 4096.0])

    want, got = whole.guess(sizes), pieces.guess(sizes)

    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    exact = LruCurve().feed(numbers).result().misses_at(sizes.astype(int)) / len(numbers)
    assert (np.abs(want.ratio - exact) <= want.error).all()
    assert want.error.max() < 0.01


def test_a_capacity_is_told_to_within_the_bucket_that_it_is_counted_in():
    capacities = np.arange(1.0, 4 * PARTS)
    curve = SampledCurve(1.0).feed(np.arange(9, dtype=np.uint32))

    margin = curve._sideways(capacities, 9)  # all keys are sampled: nothing is left to chance

    starts = bucket_starts()
    width = np.diff(starts)[np.searchsorted(starts, capacities, "right") - 1]
    assert (margin >= width * (width > 1)).all()
    assert (margin < 2 * width).all()
    assert (margin[width == 1] == 0).all()


@given(distance=st.integers(0, 2**39))
def test_a_bucket_holds_the_distances_from_its_start_to_the_next(distance):
    starts = bucket_starts()
    bucket = bucket_of(distance)

    assert starts[bucket] <= distance < starts[bucket + 1]


def test_a_divided_bucket_counts_in_part():
    counts = np.zeros(BUCKETS + 1)
    counts[[3, 128, BUCKETS]] = 10, 20, 5  # bucket 128 holds distances 128 and 129

    places = np.array([0, 3, 3.5, 4, 128, 129, 130, 1e15])

    assert at_or_beyond(counts, places).tolist() == [35, 35, 30, 25, 25, 15, 5, 5]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "give either rate or keys"),
        ({"rate": 0.1, "keys": 100}, "give either rate or keys"),
        ({"rate": 0.0}, "rate must be above 0 and at most 1, got 0.0"),
        ({"rate": 1.5}, "rate must be above 0 and at most 1, got 1.5"),
        ({"keys": 63}, "keys must be at least 64, got 63"),
    ],
)
def test_a_sample_of_no_sensible_size_is_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        SampledCurve(**arguments)
