"""U-Net/MM 6.2: its Split-C programs, scaled down with the TLB, and its interactive users."""

import re

import numpy as np
import pytest

from nicscope.apps.split_c import Blocking
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.studies.reproduce.experiments import unet_mm
from nicscope.studies.reproduce.experiments.unet_mm import (
    WORKLOADS,
    Bench,
    Workload,
    moved,
    of_program,
    of_users,
    users,
)
from nicscope.studies.reproduce.harness import find_experiment, load_papers, reproduce
from nicscope.studies.reproduce.verdict import Basis
from nicscope.traces.schema import Requests

# Many messages, and a recorded trace: for the compiler.
pytestmark = pytest.mark.compiled
PAGE = 4096

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
    found = []

    def noted(*given):
        found.append(of_program(*given))
        return found[-1]

    for name, value in (
        ("WORKLOADS", SCALED), ("LARGE", LARGE), ("SMALL", SMALL), ("of_program", noted),
    ):  # fmt: skip
        monkeypatch.setattr(unet_mm, name, value)
    item = load_papers()["unet_mm"].items["figure3"]
    shapes = find_experiment("unet_mm", "figure3")(item).shapes
    # Sample sort sends each key once: at this scale no page that it sends from is needed again.
    large = shapes.pop("large-messages-miss-at-256")
    # And programs that make few lookups have a large share of compulsory misses.
    interactive = shapes.pop("interactive-users-lead")
    assert interactive[1].startswith("Linux 20.35, ")
    assert shapes.pop("bars-end-within-the-axis")[1].count("entries=") == 2 * len(SCALED)
    assert [evidence for holds, evidence in shapes.values() if not holds] == []
    assert re.findall(r"([a-z-]+) \(entries=16", large[1]) == ["rsort-lg", "ssort-lg"]
    # Large messages displace each other's pages where the table is small.
    small = {one.workload: one for one in found if one.entries == SMALL.entries}
    assert all(small["rsort-lg"].noncompulsory)
    assert small["ssort-lg"].misses("receive", compulsory=False) > 0


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize(
    ("scaled", "nodes"),
    [*((one, 3) for one in SCALED), (SCALED[0], 1), (SCALED[2], 1)],
    ids=lambda given: getattr(given, "name", given),
)
def test_programs_are_right_on_any_number_of_nodes(scaled, nodes):
    fewer = scaled._replace(keys=min(scaled.keys, 300))
    found = of_program(fewer, Bench(entries=64, nodes=nodes, buffers=16, answers=2))
    assert found.right
    assert found.lost == 0


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize("kind", ["small", "large", "multiply"])
def test_programs_are_right_on_a_network_that_loses_messages(kind):
    scaled = next(one for one in SCALED if one.kind == kind)
    fewer = scaled._replace(keys=min(scaled.keys, 1000))
    faults = Faults(seed=5, loss=0.05, duplication=0.02, corruption=0.02)
    assert of_program(fewer, LARGE._replace(buffers=16), faults).right


def test_the_published_sizes_are_the_papers():
    assert [(one.blocking.blocks, one.blocking.size) for one in WORKLOADS[:2]] == [
        (8, 128),
        (16, 16),
    ]
    assert {one.keys for one in WORKLOADS[2:]} == {262144}
    assert Bench()._asdict() == {
        "entries": 1024, "victims": 16, "nodes": 4, "buffers": 64, "answers": 16,
    }  # fmt: skip


def turns(processes, pages, rounds):
    """Processes that receive at the same time, each into its pages in turn."""
    rows = [
        (time * 1000 + pid, pid, (pid * pages + time % pages) * PAGE)
        for time in range(pages * rounds)
        for pid in range(processes)
    ]
    times, pids, addresses = (np.array(column) for column in zip(*rows, strict=True))
    count = len(rows)
    return Requests(
        times.astype(np.int64),
        np.zeros(count, np.int32),
        pids.astype(np.int32),
        np.ones(count, np.uint8),
        np.full(count, 3, np.uint8),
        addresses.astype(np.uint64),
        np.full(count, 64, np.uint32),
    )


@pytest.mark.requirement("UM-83", "UM-84", "UM-85", "UM-86")
def test_the_trace_of_users_is_held_against_every_statement_about_it():
    found = reproduce(["unet_mm/figure3_sockets"])

    # 64 pages of each of 32 processes, at 1024 and at 256 entries.
    assert [(one.published, one.reproduced) for one in found.points] == [(2048, 2048)] * 2
    assert {one.name: (one.ok, one.basis) for one in found.shapes} == {
        "none-but-compulsory-at-1024": (True, Basis.FITTED),
        "misses-again-at-256": (True, Basis.FITTED),
        "compulsory-are-receives": (True, Basis.FITTED),
        "bars-end-within-the-axis": (True, Basis.FITTED),
    }
    # With two at once there are some already.
    [evidence] = [one.evidence for one in found.shapes if one.name.startswith("none-but")]
    assert ": 2 3+21, 4 36+203, " in evidence


def test_all_at_work_at_once_would_end_beyond_the_figures_axis():
    for found in of_users(users(), (1024, 256)):
        assert found.height > 45


@pytest.mark.requirement("UM-84")
def test_the_users_are_those_of_one_machine_and_their_servers_are_not_among_them():
    requests = users()

    assert set(requests.node) == {0}
    assert len(np.unique(requests.pid)) == 32


def test_fewer_at_once_do_the_same_each_in_their_order_and_never_more_of_them():
    requests = turns(processes=5, pages=4, rounds=3)

    for at_once in (1, 2, 5):
        later = moved(requests, at_once)

        assert (np.diff(later.time_ns) >= 0).all()
        ends = [later.time_ns[later.pid == pid][[0, -1]] for pid in range(5)]
        open_now = [sum(begin <= time <= end for begin, end in ends) for time in later.time_ns]
        assert max(open_now) == at_once
        for pid in range(5):
            mine, before = later.pid == pid, requests.pid == pid
            assert (later.address[mine] == requests.address[before]).all()
            assert (np.diff(later.time_ns[mine]) == np.diff(requests.time_ns[before])).all()


@pytest.mark.requirement("UM-85", "UM-86")
def test_pages_that_do_not_fit_are_missed_again_when_their_turn_comes():
    requests = turns(processes=8, pages=64, rounds=3)

    fitting, displaced = of_users(requests, (512, 256))

    assert fitting.misses("receive", compulsory=True) == 512
    assert fitting.noncompulsory == (0, 0)
    assert displaced.misses("receive", compulsory=True) == 512
    # Of two that share an entry the first has left for good when its turn comes again, and then
    # displaces the second into the victim cache, whose turn is next.
    assert displaced.noncompulsory == (0, 512)
