"""``nicscope rcache``: libraries' caches of registrations over traces."""

from __future__ import annotations

import json

import numpy as np
import pytest
from request_tables import table

import nicscope as ns
from nicscope.cli.app import main
from nicscope.config.registration import load_registration_costs, registration_names
from oracle.registration_cache import Cache


def counted(trace, **options):
    return ns.rcache(trace, **options).as_json()["libraries"]


def test_a_key_that_is_exact_never_comes_again_and_a_page_comes_512_times():
    strided = [(0x10000 + 8 * place, 4) for place in range(2_048)]

    exact, page, merge = counted(table(strided))

    assert (exact["hits"], exact["registrations"]) == (0, 2_048)
    assert (page["hits"], page["registrations"]) == (2_044, 4)
    assert (merge["hits"], merge["registrations"]) == (1_792, 256)  # cache lines


def test_each_process_has_a_cache_of_its_own_and_each_is_the_twins():
    rng = np.random.default_rng(5)
    ranges = [
        (int(begin), int(size))
        for begin, size in zip(
            rng.integers(4096, 80_000, 400), rng.integers(1, 9_000, 400), strict=True
        )
    ]
    pids = rng.integers(1, 4, 400).tolist()

    found = counted(table(ranges, pids), policy="page,merge", entries="2,8", most_bytes=40_000)

    rules = [(4096, False, 2), (4096, False, 8), (64, True, 2), (64, True, 8)]
    for (alignment, merges, entries), one in zip(rules, found, strict=True):
        twins = {pid: Cache(alignment, merges, entries, 40_000) for pid in set(pids)}
        for pid, (begin, size) in zip(pids, ranges, strict=True):
            twins[pid].use(begin, size)
        for name, of in (
            ("hits", "hits"),
            ("registrations", "registrations"),
            ("registered_bytes", "registered"),
            ("evicted", "evicted"),
            ("overlapped", "overlapped"),
            ("uncached", "uncached"),
        ):
            assert one[name] == sum(getattr(twin, of) for twin in twins.values()), name


def test_what_registering_takes_is_counts_times_costs():
    costs = load_registration_costs("connectx")

    [one] = counted(table([(0x10000, 9_000), (0x10000, 10), (0x40000, 1)]), policy="page")

    for end, name in enumerate(("registration_us_low", "registration_us_high")):
        total = (
            3 * costs.each("lookup")[end]
            + 2 * costs.each("region")[end]
            + 4 * (costs.each("pin")[end] + costs.each("entry")[end])
        )
        assert one[name] == pytest.approx(total / 3)


def test_the_answer_names_what_costs_least_and_what_thrashes():
    ring = [(0x10000 + 4096 * (place % 8), 64) for place in range(400)]

    told = " ".join(ns.rcache(table(ring), policy="page", entries="4,16").summary())

    assert "at most 16 regions costs least: 98.0 % of requests" in told
    assert "at most 4 regions thrashes: it registers 400 times and deregisters 396" in told


def test_the_command_prints_json_and_keeps_its_table(tmp_path, capsys):
    words = ["rcache", "bundled:redis_server", "--policy", "page", "--entries", "64"]

    assert main([*words, "--json", "--out", str(tmp_path / "found")]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["libraries"][0]["lookups"] == found["trace"]["requests"]
    assert found["repeat"]["command"][:3] == ["nicscope", "rcache", "bundled:redis_server"]
    assert (tmp_path / "found" / "caches.parquet").exists()


def test_every_cost_is_stated_or_says_why_it_is_not():
    for name in registration_names():
        costs = load_registration_costs(name)
        assert all(why for why in costs.not_applicable.values())
        assert set(costs.costs) == set(costs.origins)
