"""The Split-C programs of U-Net/MM 6.2, scaled down with the TLB, and Figure 3's statements."""

from __future__ import annotations

import re

import pytest

from nicscope.apps.split_c.matrix import Blocking
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.studies.reproduce.experiments.unet_mm import split_c
from nicscope.studies.reproduce.experiments.unet_mm.split_c import (
    PUBLISHED,
    Bench,
    Workload,
    measure,
)
from nicscope.studies.reproduce.harness import find_experiment

# A sixteenth of the paper's pages and entries; few keys where messages are small.
LARGE = Bench(entries=64, victims=1, nodes=2, buffers=4, answers=1)
SMALL = LARGE._replace(entries=16)
SCALED = (
    Workload("mm of small blocks", "multiply", blocking=Blocking(3, 16)),
    Workload("mm of large blocks", "multiply", blocking=Blocking(2, 48)),
    Workload("rsort-lg", "radix", 16 * 1024, digits=2, digit_bits=4),
    Workload("ssort-sm", "small", 512),
    Workload("ssort-lg", "large", 16 * 1024),
)


@pytest.mark.requirement("UM-84", "UM-86")
def test_scaled_down_programs_are_right_and_miss_where_the_figure_says(monkeypatch):
    for name, value in (("WORKLOADS", SCALED), ("LARGE", LARGE), ("SMALL", SMALL)):
        monkeypatch.setattr(split_c, name, value)
    shapes = find_experiment("unet_mm", "figure3")(None).shapes
    # Sample sort sends each key once: at this scale no page that it sends from is needed again.
    large = shapes.pop("large-messages-miss-at-256")
    # And programs that make few lookups have a large share of compulsory misses.
    interactive = shapes.pop("interactive-users-lead")
    assert interactive[1].startswith("Linux 20.35, ")
    assert [evidence for holds, evidence in shapes.values() if not holds] == []
    assert re.findall(r"([a-z-]+) \(entries=16", large[1]) == ["rsort-lg", "ssort-lg"]


@pytest.mark.requirement("UM-86")
def test_large_messages_displace_each_others_pages_where_the_table_is_small():
    radix, sample = (measure(one, SMALL) for one in SCALED if one.kind in ("radix", "large"))
    assert all(radix.noncompulsory)
    assert sample.misses("receive", compulsory=False) > 0


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("scaled", SCALED, ids=lambda scaled: scaled.name)
def test_programs_are_right_on_any_number_of_nodes(scaled, nodes):
    fewer = scaled._replace(keys=min(scaled.keys, 600))
    found = measure(fewer, Bench(entries=64, nodes=nodes, buffers=16, answers=2))
    assert found.right
    assert found.lost == 0


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize("kind", ["small", "large", "multiply"])
def test_programs_are_right_on_a_network_that_loses_messages(kind):
    scaled = next(one for one in SCALED if one.kind == kind)
    fewer = scaled._replace(keys=min(scaled.keys, 2000))
    faults = Faults(seed=5, loss=0.05, duplication=0.02, corruption=0.02)
    assert measure(fewer, LARGE._replace(buffers=16), faults).right


def test_the_published_sizes_are_the_papers():
    assert [(one.blocking.blocks, one.blocking.size) for one in PUBLISHED[:2]] == [
        (8, 128),
        (16, 16),
    ]
    assert {one.keys for one in PUBLISHED[2:]} == {262144}
    assert Bench()._asdict() == {
        "entries": 1024, "victims": 16, "nodes": 4, "buffers": 64, "answers": 16,
    }  # fmt: skip
