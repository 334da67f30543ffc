"""Traces that are made: strides to the byte, popularity by its law, the same for the same seed."""

import json
import math
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.cli.app import main
from nicscope.cli.trace import sizes_of
from nicscope.traces.importers.services import ALIGNED, BASE
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OP_CODES
from nicscope.traces.synthetic import (
    CHUNK_ROWS,
    Recipe,
    SpreadPermutation,
    Zipf,
    batches,
    check,
    make,
    ops_of,
)
from oracle import made_traces as oracle

FAR_OFF = 5.0  # standard deviations: once in two million


def columns_of(recipe):
    check(recipe)
    parts = [columns for columns, _ in batches(recipe)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


recipes = st.builds(
    Recipe,
    requests=st.integers(1, 60),
    sizes=st.sampled_from([((1, 1.0),), ((8, 1.0),), ((100, 1.0),)]),
    zipf=st.none(),
    stride=st.integers(1, 150),
    pool=st.integers(600, 2_000),
    regions=st.integers(1, 4),
    tenants=st.integers(1, 4),
    nodes=st.integers(1, 3),
    rate=st.sampled_from([1, 7, 1_000_000, 10**9]),
    ops=st.just((("recv", 1.0),)),
    page_size=st.just(4096),
    seed=st.integers(0, 3),
    arrivals=st.just("even"),
)


@given(recipes)
def test_strides_are_those_of_a_twin_that_takes_one_step_after_the_other(recipe):
    made = columns_of(recipe)

    region, offset = np.divmod(made["address"].astype(np.int64) - BASE, ALIGNED)
    ours = zip(
        *(made[name].tolist() for name in ("time_ns", "node", "pid")),
        region.tolist(),
        offset.tolist(),
        made["length"].tolist(),
        strict=True,
    )
    [(size, _)] = recipe.sizes
    assert [*ours] == oracle.strided(
        recipe.requests,
        size,
        recipe.stride,
        recipe.pool,
        recipe.regions,
        recipe.tenants,
        recipe.nodes,
        recipe.rate,
    )


@pytest.mark.parametrize("exponent", [0, 0.3, 0.99, 1, 1.000001, 1.7, 4, 16])
@pytest.mark.parametrize("many", [1, 2, 7, 200])
def test_ranks_come_as_often_as_zipfs_law_says(many, exponent):
    count = 60_000
    drawn = Zipf(many, exponent).draw(np.random.default_rng(3), count)

    found = np.bincount(drawn, minlength=many)
    assert found.size == many
    expected = count * np.array(oracle.zipf(many, exponent))
    often = expected >= 10
    rare = np.array([found[~often].sum(), expected[~often].sum()])
    pairs = [*zip(found[often], expected[often], strict=True), *([rare] if rare[1] >= 10 else [])]
    squares = sum((ours - law) ** 2 / law for ours, law in pairs)
    degrees = len(pairs) - 1
    assert squares <= degrees + FAR_OFF * math.sqrt(2 * degrees) + FAR_OFF**2


def test_the_law_holds_for_more_ranks_than_anybody_keeps():
    many, count = 1 << 40, 200_000
    drawn = Zipf(many, 1.0).draw(np.random.default_rng(1), count)

    assert drawn.min() >= 0
    assert drawn.max() < many
    for below in (1, 10, 1_000, 1 << 20, 1 << 30):
        # The harmonic numbers, by Euler's constant; the first ones exactly.
        part = sum(1 / k for k in range(1, min(below, 1_000) + 1))
        if below > 1_000:
            part = math.log(below) + 0.5772156649
        share = part / (math.log(many) + 0.5772156649)
        spread = math.sqrt(count * share * (1 - share))
        assert abs((drawn < below).sum() - count * share) < FAR_OFF * spread


@given(st.integers(1, 3_000), st.integers(0, 9))
def test_every_rank_has_a_place_of_its_own(many, seed):
    places = SpreadPermutation(many, seed).place(np.arange(many))

    assert sorted(places.tolist()) == [*range(many)]


@given(st.integers(1 << 20, 1 << 40), st.integers(0, 9), st.data())
def test_places_of_many_are_those_of_whole_numbers(many, seed, data):
    scattered = SpreadPermutation(many, seed)
    ranks = data.draw(st.lists(st.integers(0, many - 1), min_size=2, max_size=20))

    places = scattered.place(np.array(ranks, np.int64)).tolist()

    first = int(scattered.place(np.array([0]))[0])
    step = (int(scattered.place(np.array([1]))[0]) - first) % many
    assert places == [(first + rank * step) % many for rank in ranks]
    assert math.gcd(step, many) == 1


def test_popular_places_are_drawn_by_the_law_and_sizes_and_operations_by_their_weights():
    recipe = Recipe(
        requests=90_000,
        sizes=sizes_of("4K:3,64K:1"),
        ops=ops_of("serve_read:2,serve_write:1"),
        zipf=1.2,
        pool=8 << 20,
        regions=2,
        tenants=3,
        nodes=2,
        seed=5,
    )
    made = columns_of(recipe)

    def near(found, share, of):
        return abs(found - of * share) < FAR_OFF * math.sqrt(of * share * (1 - share))

    assert near((made["length"] == 4096).sum(), 0.75, recipe.requests)
    assert near((made["op"] == OP_CODES["serve_read"]).sum(), 2 / 3, recipe.requests)
    assert set(made["length"].tolist()) == {4096, 65536}
    tenants = Counter(zip(made["node"].tolist(), made["pid"].tolist(), strict=True))
    assert tenants == dict.fromkeys([(n, p) for n in range(2) for p in range(3)], 15_000)
    region, offset = np.divmod(made["address"].astype(np.int64) - BASE, ALIGNED)
    assert set((offset % 65536).tolist()) == {0}
    assert (offset + 65536 <= 4 << 20).all()
    often = sorted(Counter(zip(region.tolist(), offset.tolist(), strict=True)).values())[::-1]
    law = oracle.zipf(128, 1.2)
    assert all(near(often[rank], law[rank], recipe.requests) for rank in range(8))


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(tmp_path):
    recipe = Recipe(requests=500, sizes=((64, 0.5), (128, 0.5)), tenants=3)
    paths = [tmp_path / f"{name}.parquet" for name in "abc"]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        make(recipe._replace(seed=seed), path, None)

    contents = [path.read_bytes() for path in paths]
    assert contents[0] == contents[1]
    for name in ("address", "length"):
        columns = [pq.read_table(path)[name].to_pylist() for path in paths]
        assert columns[0] != columns[2]


def test_a_longer_trace_begins_as_a_shorter_one():
    recipe = Recipe(requests=CHUNK_ROWS + 1_000, sizes=((64, 0.5), (128, 0.5)), tenants=3)

    longer, shorter = columns_of(recipe), columns_of(recipe._replace(requests=CHUNK_ROWS + 7))

    for name, column in shorter.items():
        assert (column == longer[name][: CHUNK_ROWS + 7]).all()


def test_a_trace_says_how_it_was_made_and_what_is_registered(tmp_path, capsys):
    path = tmp_path / "made.parquet"
    words = [
        "--requests",
        "50",
        "--pool",
        "64K",
        "--regions",
        "2",
        "--tenants",
        "2",
        "--nodes",
        "2",
    ]

    assert main(["trace", "make", str(path), *words, "--seed", "4", "--json"]) == 0

    said = json.loads(capsys.readouterr().out)
    assert said["requests"] == 50
    trace = open_trace(path)
    origin, regions = trace.metadata.origin, trace.metadata.regions
    assert (origin["evidence"], origin["seed"], origin["zipf"]) == ("assumed", 4, 0.99)
    assert len(regions) == 8
    kept = {(one["node"], one["pid"], one["address"]): one["bytes"] for one in regions}
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        starts = [
            start
            for (node, pid, start), count in kept.items()
            if (node, pid) == (row["node"], row["pid"])
            and start <= row["address"]
            and row["address"] + row["length"] <= start + count
        ]
        assert len(starts) == 1
    assert len({row["address"] for row in rows}) > 2


@given(st.integers(1, 40), st.sampled_from([1, 3, 10**6, 10**9]), st.integers(0, 5))
def test_random_arrivals_are_those_of_a_twin_that_adds_one_exact_gap_after_the_other(
    requests, rate, seed
):
    recipe = Recipe(requests=requests, rate=rate, seed=seed, arrivals="poisson")

    times = columns_of(recipe)["time_ns"].tolist()

    # What is rounded in adding up may be on the other side of a nanosecond.
    twin = oracle.poisson(requests, rate, seed, CHUNK_ROWS)
    assert all(abs(ours - one) <= 1 for ours, one in zip(times, twin, strict=True))


@pytest.mark.parametrize("rate", [1_000, 1_000_000, 10**9])
def test_gaps_of_random_arrivals_are_exponential_and_independent(rate):
    count = 3 * CHUNK_ROWS  # chunks follow each other
    recipe = Recipe(requests=count, rate=rate, seed=11, stride=4096, zipf=None, arrivals="poisson")
    times = columns_of(recipe)["time_ns"]
    mean = 1e9 / rate

    gaps = np.diff(times)

    assert gaps.min() >= 0
    assert abs(times[-1] / count - mean) < FAR_OFF * mean / math.sqrt(count)
    assert abs(gaps.mean() - mean) < FAR_OFF * mean / math.sqrt(count)
    # Each end of a gap is cut to its nanosecond, which adds a sixth in all where gaps are long.
    law = mean**2 if mean > 10 else None
    if law is not None:
        assert abs(gaps.var() - law - 1 / 6) < FAR_OFF * law * math.sqrt(8 / count)
        late = np.exp(-np.sort(gaps) / mean)
        apart = np.abs(late - np.linspace(1, 0, gaps.size))
        assert apart.max() < 2.2 / math.sqrt(count)  # Kolmogorov: once in eight thousand
    # In windows of a hundred gaps there come as many, give or take: mean and variance are alike.
    windows = np.bincount((times // round(100 * mean)).astype(np.int64))[:-1]
    often = windows.size
    assert abs(windows.mean() - 100) < FAR_OFF * math.sqrt(100 / often)
    assert abs(windows.var() / 100 - 1) < FAR_OFF * math.sqrt(2 / often)


def test_arrivals_change_times_alone_and_even_ones_are_what_they_were(tmp_path):
    recipe = Recipe(requests=CHUNK_ROWS + 60, sizes=((64, 0.5), (128, 0.5)), tenants=3, seed=2)
    even, random = columns_of(recipe), columns_of(recipe._replace(arrivals="poisson"))

    for name, column in even.items():
        assert (column == random[name]).all() == (name != "time_ns")
    assert even["time_ns"].tolist() == [1_000 * row for row in range(recipe.requests)]
    assert "arrivals" not in recipe.said()
    assert recipe._replace(arrivals="poisson").said()["arrivals"] == "poisson"
    paths = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path in paths:
        make(recipe._replace(requests=50, arrivals="poisson"), path, None)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_no_more_is_made_than_is_asked_for():
    endless = Recipe(requests=1 << 40, pool=1 << 50, rate=10**9)
    check(endless)

    [first, second] = [columns for (columns, _), _ in zip(batches(endless), range(2), strict=False)]

    assert len(first["address"]) == len(second["address"]) == CHUNK_ROWS
    assert second["time_ns"][0] == CHUNK_ROWS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--zipf", "1", "--stride", "8"], "give one of both"),
        (["--size", "4KB"], "--size: '4KB' is no length"),
        (["--size", "0"], "--size: '0' is no length"),
        (["--size", "4G"], "--size: '4G' is no length"),
        (["--size", "4K,,8K"], "--size has an empty part"),
        (["--size", "4K,4K:2"], "--size names '4K' twice"),
        (["--size", "4K:0"], "weight of '4K' must be above 0"),
        (["--size", "4K:x"], "weight of '4K' must be above 0"),
        (["--size", "2M", "--pool", "1M"], "does not fit into a region of 1,048,576"),
        (["--size", "64K", "--pool", "1M", "--regions", "17"], "does not fit into a region"),
        (["--op", "sned"], "did you mean 'send'"),
        (["--tenants", "0"], "--tenants must be from 1"),
        (["--nodes", "70000"], "--nodes must be from 1 to 65,536"),
        (["--nodes", "60000", "--tenants", "2"], "make 120,000 regions"),
        (["--requests", "0"], "--requests must be from 1"),
        (["--rate", "0"], "--rate must be from 1"),
        (["--seed", "-1"], "--seed must be from 0"),
        (["--page-size", "3000"], "--page-size must be a power of two"),
        (["--stride", "2G"], "--stride must be from 1 to the 1,073,741,824 bytes of a region"),
        (["--zipf", "nan"], "--zipf must be from 0 to 16"),
        (["--zipf", "-0.5"], "--zipf must be from 0 to 16"),
        (["--size", "1", "--pool", "1P"], "no whole number of bytes"),
        (["--size", "1", "--pool", "2T"], "has 2,199,023,255,552 places"),
        (["--rate", "1", "--requests", "99999999999"], "longer than 292 years"),
        (["--arrivals", "poison"], "did you mean 'poisson'"),
        (["--arrivals", "poisson", "--rate", "1", "--requests", "9220000000"], "292 years"),
        (["--to", "strace"], "can only be read"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(tmp_path, capsys, words, said):
    path = tmp_path / "made.parquet"

    assert main(["trace", "make", str(path), *words]) == 2

    err = capsys.readouterr().err
    assert said in err
    assert not [*tmp_path.iterdir()]


def test_shares_are_of_the_whole():
    assert sizes_of("1K:3,2K") == ((1024, 0.75), (2048, 0.25))
