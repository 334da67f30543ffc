"""``nicscope path``: what lies between an RDMA NIC and memory, and which part of it bounds."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from request_tables import table

import nicscope as ns
from nicscope.cli.app import main
from nicscope.config.path_costs import load_path_costs, path_names
from oracle.iommu import Twin

PAGE = 4096


def found(trace, **options):
    return ns.path(trace, **options).as_json()["paths"]


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
    told = " ".join(ns.path(table(RING), iommu="off,strict", page_size="4KiB", walks=1).summary())

    assert "PCIe bounds with the IOMMU off on PCIe gen4: 229 to 234 Gb/s" in told
    assert "translating pages of 4 KiB with 64 entries, 1 walk at once" in told
    assert "it is the IOMMU: 12" in told
    assert "outbound_pci_stalled_wr" in told
    assert "IOTLB misses (pcm-iio)" in told


def test_the_command_prints_json_and_keeps_its_table(tmp_path, capsys):
    trace = str(tmp_path / "ring.parquet")
    pq.write_table(table(RING), trace)

    assert main(["path", trace, "--json", "--out", str(tmp_path / "found")]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["repeat"]["command"][:3] == ["nicscope", "path", trace]
    assert pq.read_table(tmp_path / "found" / "paths.parquet").num_rows == len(answer["paths"]) == 6


def test_every_cost_of_a_path_is_stated_with_its_evidence():
    for name in path_names():
        costs = load_path_costs(name)
        assert set(costs.costs) == set(costs.origins)
