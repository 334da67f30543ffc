"""Studies of a trace's requests: libraries' caches of registrations, paths to memory, commands."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from request_tables import table

import nicscope as ns
from nicscope.cli.app import main
from nicscope.config.costs import (
    fault_names,
    load_fault_costs,
    load_path_costs,
    load_registration_costs,
    path_names,
    registration_names,
)
from oracle.iommu import Twin
from oracle.registration_cache import Cache

COSTS = [
    *((load_path_costs, name) for name in path_names()),
    *((load_fault_costs, name) for name in fault_names()),
    *((load_registration_costs, name) for name in registration_names()),
]


@pytest.mark.parametrize(
    ("words", "rows", "kept"),
    [
        (["rdma", "descriptors", "--engine", "nixl"], "transfers", "descriptors"),
        (["rdma", "cache", "--policy", "page", "--entries", "64"], "libraries", "caches"),
        (["rdma", "odp", "--prefetch", "none", "--fault-bytes", "request"], "on_demand", "odp"),
        (["rdma", "path"], "paths", "paths"),
    ],
)
def test_the_command_prints_json_and_keeps_its_table(words, rows, kept, tmp_path, capsys):
    trace = str(tmp_path / "ring.parquet")
    pq.write_table(table([(4096 * (place % 8), 64) for place in range(80)]), trace)
    command, options = words[:2], words[2:]

    assert main([*command, trace, *options, "--json", "--out", str(tmp_path / "found")]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["trace"]["requests"] == 80
    assert found["repeat"]["command"][:4] == ["nicscope", *command, trace]
    written = pq.read_table(tmp_path / "found" / f"{kept}.parquet")
    assert len(written) == len(found[rows]) > 0
    if command == "descriptors":
        [one] = found[rows]
        assert sum(one["by_size"].values()) == one["descriptors"] <= 80


@pytest.mark.parametrize(("load", "name"), COSTS)
def test_every_cost_is_stated_with_its_evidence_or_says_why_it_is_not(load, name):
    costs = load(name)
    assert set(costs.costs) == set(costs.origins)
    assert all(getattr(costs, "not_applicable", {}).values())


def counted(trace, **options):
    return ns.rdma.cache(trace, **options).as_json()["libraries"]


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

    told = " ".join(ns.rdma.cache(table(ring), policy="page", entries="4,16").summary())

    assert "at most 16 regions costs least: 98.0 % of requests" in told
    assert "at most 4 regions thrashes: it registers 400 times and deregisters 396" in told


PAGE = 4096


def found(trace, **options):
    return ns.rdma.path(trace, **options).as_json()["paths"]


# 96 pages, one every 64 KiB, over and over.
RING = [(place % 96 * 16 * PAGE, PAGE) for place in range(480)]


def test_an_iotlb_that_is_too_small_for_a_ring_misses_always_and_larger_pages_never():
    small, large, wide = found(
        table(RING), iommu="strict", page_size="4KiB,2MiB", walks=1, iotlb="64"
    ) + found(table(RING), iommu="strict", page_size="4KiB", walks=1, iotlb="128")

    assert small["counts"]["misses"] == small["counts"]["pieces"] == 480
    assert large["counts"]["misses"] == 3  # 96 x 64 KiB
    assert wide["counts"]["misses"] == 96


def test_the_iommu_allows_what_the_formula_says_of_the_twins_counts():
    twin = Twin(PAGE, 64, 32)
    for address, length in RING:
        twin.access(7, address, length)

    one, four = found(table(RING), iommu="strict", page_size="4KiB", walks="1,4")

    assert one["counts"] == dict(twin.counts)
    rate = 480 * PAGE * 8 / (480 * 65 + twin.counts["reads"] * 197)  # bits per nanosecond
    assert one["allows_gbits"]["IOMMU"] == pytest.approx([rate, rate])
    assert four["allows_gbits"]["IOMMU"] == pytest.approx([4 * rate, 4 * rate])
    assert one["reads_per_piece"] == pytest.approx(twin.counts["reads"] / 480)


def test_a_nic_that_keeps_translations_asks_the_iommu_for_the_others_alone():
    twin = Twin(PAGE, 64, 32, device=128)
    for address, length in RING:
        twin.access(7, address, length)

    few, many = found(table(RING), iommu="ats", page_size="4KiB", walks=1, atc="64,128")

    assert many["counts"] == dict(twin.counts)
    assert few["counts"]["lookups"] == 480  # a ring of 96 that 64 do not hold
    assert many["counts"]["lookups"] == many["counts"]["misses"] == 96
    costs = load_path_costs("connectx")
    for one in (few, many):
        lookups, reads = one["counts"]["lookups"], one["counts"]["reads"]
        for end in (0, 1):
            asked = costs.each("translation_request")[end] * 1000
            takes = lookups * (65 + asked) + reads * 197  # ns
            assert one["allows_gbits"]["IOMMU"][1 - end] == pytest.approx(480 * PAGE * 8 / takes)


def test_writes_in_order_bind_by_their_share_of_the_bytes():
    half = table(RING)
    written = table(RING, op=["send", "recv"] * (len(RING) // 2))

    relaxed, ordered = found(written, iommu="off", pcie="gen5", ordering="relaxed,strict")
    [none] = found(half, iommu="off", pcie="gen5", ordering="strict")

    assert "ordering" not in relaxed["allows_gbits"]
    assert "ordering" not in none["allows_gbits"]  # nothing is written into memory
    costs = load_path_costs("connectx").each("ordered")
    assert ordered["allows_gbits"]["ordering"] == pytest.approx(
        [PAGE * 8 / 1000 / end / 0.5 for end in (costs.high, costs.low)]
    )
    # ucx, pull request 10955: 16 GB/s in order
    assert ordered["allows_gbits"]["ordering"][0] == pytest.approx(2 * 8 * 16, rel=0.01)
    assert (relaxed["bound"], ordered["bound"]) == ("PCIe", "ordering")


def test_what_passes_the_iommu_by_is_bound_by_pcie_or_the_window_of_reads():
    off, through = found(table(RING), iommu="off,pt")
    assert off["counts"] is through["counts"] is None
    assert off["bound"] == through["bound"] == "PCIe"
    costs = load_path_costs("connectx").each("gen4")
    assert off["allows_gbits"]["PCIe"] == pytest.approx(
        [PAGE * 8 / 1000 / costs.high, PAGE * 8 / 1000 / costs.low]
    )

    [few] = found(table(RING), iommu="off", reads=8)

    latency = load_path_costs("connectx").each("dma_read")
    assert few["bound"] == "window"
    assert few["allows_gbits"]["window"] == pytest.approx(
        [8 * 512 * 8 / 1000 / latency.high, 8 * 512 * 8 / 1000 / latency.low]
    )


def test_the_answer_says_what_bounds_and_where_that_shows():
    told = " ".join(
        ns.rdma.path(table(RING), iommu="off,strict", page_size="4KiB", walks=1).summary()
    )

    assert "229 to 234 Gb/s at best, limited by PCIe: with the IOMMU off on PCIe gen4." in told
    assert "translating pages of 4 KiB with 64 entries, 1 walk at once" in told
    assert "limited by the IOMMU and reads tables" in told
    assert "outbound_pci_stalled_wr" in told
    assert "IOTLB misses (pcm-iio)" in told
