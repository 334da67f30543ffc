"""A timeline of any interface: every engine's work, named, and none of it twice or missing."""

import itertools
import json
from collections import defaultdict
from decimal import Decimal

import pytest
import small_programs as small

from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.interfaces.run_report import on_run, report_of
from nicscope.studies.programs import ProgramRuns
from nicscope.studies.timeline import program_timeline

PS_PER_US = 10**6
LANES = 16
LOSSY = {
    "faults": Faults(seed=3, loss=0.2),
    "transport": Transport(time_out_ps=2_000_000_000, most_retries=20),
}
RUNS = {
    "U-Net": (small.on_unet, (), {}),
    "U-Net, in the kernel": (small.on_unet, ("unet-mm-dc21140", "dc21140-nt"), {}),
    "U-Net, pinned": (small.on_unet, ("unet",), {"platform": "dc21140-linux"}),
    "VMMC": (small.on_vmmc, (), {}),
    "VMMC, lossy": (small.on_vmmc, (), LOSSY),
    "VMMC, interrupted": (small.on_vmmc, ("vmmc-interrupt",), {}),
    "miNI": (small.on_mini, (), {}),
    "miNI, lossy": (small.on_mini, (), LOSSY),
    "Trapeze": (small.on_trapeze, (), {}),
    "Trapeze, stored": (small.on_trapeze, (), {"policy": "store-and-forward"}),
    "VIA": (small.on_via, ("pci",), {"reads": True}),
    "VIA, EDT": (small.on_via, ("edt",), {"reads": True}),
    "VIA, PIO": (small.on_via, ("pio",), {"reads": True}),
    "VIA, CNI": (small.on_via, ("cni",), {"reads": True}),
    "VIA, DMA": (small.on_via, ("dma",), {"reads": True}),
    "VIA, lossy": (small.on_via, ("cc-dma-retry",), {"loss": 0.2, "seed": 2}),
    "VIA, cut through": (small.on_via, (), {"delivery": "cut-through", "reads": True}),
}
# Whose work each share of a report is.
SHARES = {
    "cpu_share": {Engine.HOST_WRITE, Engine.HOST_READ, Engine.CPU},
    "nic_share": {Engine.FIRMWARE},
    "bus_share": {Engine.HOST_TX, Engine.HOST_RCV, Engine.TABLE, Engine.DESCRIPTOR},
    "link_share": {Engine.NET_TX},
}


class Found:
    """A run's report, and its timeline as a program that reads it exactly sees it."""

    def __init__(self, name, runs=1):
        play, design, how = RUNS[name]
        reports, logs = [], []

        def note(source):
            reports.append(report_of(source))
            logs.append(source.log())

        with on_run(note, lambda: 100_000):
            for _ in range(runs):
                play(*design, **how)
        self.report, self.log = reports[0], logs[0]
        found = ProgramRuns(program="mine.py", runs=reports, logs=logs)
        text = json.dumps(program_timeline(found))
        self.events = json.loads(text, parse_float=Decimal)["traceEvents"]

    def of_kind(self, kind):
        return [event for event in self.events if event["ph"] == kind]


@pytest.fixture(scope="module", params=RUNS)
def found(request):
    return Found(request.param)


def test_every_busy_picosecond_of_the_report_is_a_slice(found):
    busy = defaultdict(int)
    for one in found.of_kind("X"):
        start, end = one["args"]["start_ps"], one["args"]["end_ps"]
        assert end - start == Decimal(one["dur"]) * PS_PER_US
        busy[one["pid"], Engine(one["tid"] % LANES)] += end - start

    elapsed = found.report.elapsed_us * PS_PER_US
    for node in found.report.nodes:
        for share, engines in SHARES.items():
            told = getattr(node, share)
            drawn = sum(busy[node.node, engine] for engine in engines)
            assert drawn == pytest.approx(told * elapsed, abs=1), (node.node, share)
    assert {pid for (pid, _), drawn in busy.items() if drawn} == {0, 1}


def test_slices_of_a_track_do_not_overlap(found):
    tracks = defaultdict(list)
    for one in found.of_kind("X"):
        tracks[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))

    for slices in tracks.values():
        slices.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(slices))


def test_nodes_and_tracks_have_names_and_slices_say_what_was_done(found):
    names = {(event["name"], event["pid"], event["tid"]): event["args"]["name"]
             for event in found.of_kind("M") if event["name"].endswith("_name")}  # fmt: skip

    for node in found.report.nodes:
        title = names["process_name", node.node, 0]
        assert title == f"node {node.node}: {found.report.title()}"
        assert title.startswith(f"node {node.node}: {found.report.interface}: ")
    for one in found.of_kind("X"):
        assert names["thread_name", one["pid"], one["tid"]].startswith(one["cat"])
        assert one["name"]
        assert one["args"]["packet"] < 0 or f"packet {one['args']['packet']}" in one["name"]


def test_each_packet_that_comes_has_an_arrow_from_its_sender_to_its_receiver(found):
    arrows = defaultdict(list)
    for event in found.events:
        if event["ph"] in "stf":
            arrows[event["id"]].append(event)

    total = found.report.total
    came = total.received.delivered + (total.received.duplicates or 0)
    assert len(arrows) >= total.received.delivered
    assert came > 0
    for name, stops in arrows.items():
        assert [stop["ph"] for stop in stops] == ["s", *"t" * (len(stops) - 2), "f"]
        assert [stop["ts"] for stop in stops] == sorted(stop["ts"] for stop in stops)
        assert stops[0]["pid"] == int(name.partition(".")[0])
        assert stops[-1]["pid"] != stops[0]["pid"]


def test_what_packets_carry_is_told(found):
    carried = set(found.log.packets.values())
    expected = {
        "U-Net": {"message"},
        "VMMC": {"store", "fetch", "answer"},
        "miNI": {"store", "fetch", "answer"},
        "Trapeze": set(),
        "VIA": {"message"},
    }[found.report.interface]

    assert expected <= carried


def test_runs_stand_beside_each_other():
    found = Found("Trapeze", runs=2)

    titles = [e["args"]["name"] for e in found.of_kind("M") if e["name"] == "process_name"]
    assert titles == [
        f"run {run}, node {node}: Trapeze: pci, adaptive on p6-natoma"
        for run in (1, 2)
        for node in (0, 1)
    ]
    assert {one["pid"] for one in found.of_kind("X")} == {0, 1, 2, 3}
    starts = [one["id"] for one in found.of_kind("s")]
    assert len(set(starts)) == len(starts) == 8
