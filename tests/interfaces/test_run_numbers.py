"""A run's numbers by endpoint and by process, under every interface, and every way to have them."""

import io
import json
import sys
import time
from pathlib import Path

import pandas
import polars
import pytest
import small_programs as small

from nicscope.errors import SimulationError
from nicscope.interfaces import Cluster, Faults, Transport, run_report
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.run_report import on_run
from nicscope.nic.ports.layout import SEND
from refusals import refused

sys.path.insert(0, str(Path(__file__).parents[1] / "ports"))
import accounts_made

from program_results import results_of

LOSSY = {
    "faults": Faults(seed=5, loss=0.15, duplication=0.1, corruption=0.1),
    "transport": Transport(time_out_ps=2_000_000_000, most_retries=30),
}
RUNS = {
    "U-Net": (small.on_unet, ("unet-mm-pca200",), {}),
    "U-Net in the kernel": (small.on_unet, ("unet-mm-dc21140",), {}),
    "U-Net, pinned": (small.on_unet, ("unet",), {}),
    "VMMC": (small.on_vmmc, ("utlb",), LOSSY),
    "VMMC by interrupts": (small.on_vmmc, ("vmmc-interrupt",), LOSSY),
    "miNI": (small.on_mini, ("mini",), LOSSY),
    "VIA": (small.on_via, ("pci",), {"reads": True, "loss": 0.2, "seed": 3}),
    "VIA over UTLB": (small.on_via, ("pci",), {"reads": True, "design": "utlb"}),
    "EDT": (small.on_via, ("edt",), {"reads": True}),
}


@pytest.fixture(scope="module", params=RUNS)
def cluster(request):
    play, design, how = RUNS[request.param]
    return play(*design, keep_log=20_000, **how)


def test_what_endpoints_and_processes_have_counted_is_what_their_nodes_have(cluster):
    accounts_made.check(cluster.report(), cluster.simulation.machine)


def test_each_process_has_sent_and_taken_what_it_asked_for(cluster):
    for one in cluster.report().processes:
        assert one.messages_out > 0 or one.messages_in > 0
        assert one.requests.get("done", 0) >= (one.messages_out > 0)
    names = {one.name for one in cluster.report().endpoints if one.process is not None}
    expected = {"U-Net": {"first", "second"}, "VIA": {"VI 2"}}
    assert names == expected.get(cluster.interface, {None})


def test_a_report_is_the_same_as_text_json_and_frames(cluster, capsys, monkeypatch):
    report = cluster.report()
    monkeypatch.setenv("COLUMNS", "100")

    report.print()
    printed = capsys.readouterr().out
    assert [line.rstrip() for line in printed.splitlines()] == str(report).splitlines()
    assert str(report).startswith(f"{cluster.interface}: {cluster.design.name}, ")
    assert max(map(len, str(report).splitlines())) <= 100
    plain = json.loads(json.dumps(report.as_json()))
    assert plain == report.to_json()
    assert plain["interface"] == cluster.interface
    for by, rows in (
        ("run", [plain["total"]]),
        ("node", plain["nodes"]),
        ("process", plain["processes"]),
        ("endpoint", plain["endpoints"]),
    ):
        table = report.table(by)
        assert table.num_rows == len(rows)
        for row, found in zip(rows, table.to_pylist(), strict=True):
            _same(row, found)
        assert isinstance(table.to_pandas(), pandas.DataFrame)
        assert polars.from_arrow(table).height == len(rows)
    with refused(SimulationError, "'nodes'", "'node'"):
        report.table("nodes")


def _same(plain, found, place=""):
    for name, value in plain.items():
        if name == "requests":
            assert found["requests_done"] == value.get("done", 0)
            assert found["requests_failed"] == sum(value.values()) - value.get("done", 0)
        elif isinstance(value, dict):
            _same(value, found, f"{place}{name}_")
        elif value is not None or f"{place}{name}" in found:
            assert found[f"{place}{name}"] == value


def test_columns_are_the_same_whatever_ran():
    tables = [
        play(*design, **how).report().table("endpoint")
        for play, design, how in (RUNS["U-Net"], RUNS["miNI"], (small.on_trapeze, (), {}))
    ]

    assert tables[0].schema == tables[1].schema == tables[2].schema
    assert "lookups_handles" in tables[0].column_names
    assert tables[0]["lookups_handles"].null_count == tables[0].num_rows
    assert tables[1]["lookups_handles"].null_count == 0


def test_numbers_of_an_endpoint_end_where_the_next_one_at_its_port_begins():
    cluster = Cluster("unet-mm-pca200")

    async def opener(process):
        for name, many in (("a", 1), ("b", 3)):
            endpoint = await process.open(name)
            tag = await endpoint.connect(1, "sink")
            for _ in range(many):
                await endpoint.send(tag, b"x" * 20)
            await process.sleep(3000)
            await endpoint.close()

    async def sink(process):
        await process.open("sink")
        await process.sleep(30_000)

    results_of(cluster, opener, sink)

    report = cluster.report()
    sent = {one.name: one.messages_out for one in report.endpoints if one.process is not None}
    assert (sent["a"], sent["b"]) == (1, 3)
    assert [one.messages_out for one in report.processes] == [4, 0]
    assert "'a'" not in str(report)
    assert "By endpoint" in str(report)


def test_pages_that_a_library_found_unpinned_are_among_those_that_it_looked_at():
    cluster = Cluster("utlb")

    async def owner(endpoint):
        await endpoint.export(endpoint.allocate(48 * 4096), "table")
        await endpoint.export(endpoint.allocate(4096), "other")

    results_of(cluster, owner)
    node = cluster.report().nodes[0]

    assert (node.lookups.total, node.misses.total) == (0, 0)  # the NIC has looked nothing up
    assert (node.checks, node.check_misses, node.pins) == (49, 49, 49)
    assert small.on_mini().report().total.checks is None


def test_trapezes_processes_have_what_their_node_has():
    cluster = small.on_trapeze()
    report = cluster.report()

    for node, one in zip(report.nodes, report.processes, strict=True):
        assert (one.node, one.process) == (node.node, 0)
        assert (one.messages_out, one.bytes_out) == (node.messages_out, node.bytes_out)
        assert (one.messages_in, one.bytes_in) == (node.messages_in, node.bytes_in)
    assert report.processes[0].lookups is None


def test_a_vis_failures_are_told_in_the_words_of_vipl():
    cluster = Cluster("via")

    async def program(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        places = await nic.descriptors(tag)
        room = await nic.register_mem(nic.allocate(4096), tag)
        await nic.post_send(vi, places.request(room.segment(0, 64)))  # of no connection
        await nic.compute(500.0)

    results_of(cluster, program)
    report = cluster.report()

    assert report.total.requests == {"VIP_STATUS_DESC_FLUSHED_ERROR (flushed)": 1}
    assert "failed requests: 1 VIP_STATUS_DESC_FLUSHED_ERROR (flushed)" in str(report)


def test_a_timeline_is_written_for_perfetto_and_as_a_page_of_its_own(cluster, tmp_path):
    events = json.loads(cluster.timeline(tmp_path / "run.json").read_text())["traceEvents"]
    page = cluster.timeline(str(tmp_path / "run.html")).read_text()

    slices = [event for event in events if event["ph"] == "X"]
    data = json.loads(page.partition("const data = ")[2].partition(";\nconst COLOURS")[0])
    assert len(data["slices"]) == len(slices) > 0
    assert sorted(one[1] for one in data["slices"]) == sorted(event["ts"] for event in slices)
    assert len(data["tracks"]) == len({(event["pid"], event["tid"]) for event in slices})
    assert "http" not in page.replace("http-equiv", "")
    assert data["title"] in page.partition("<title>")[2].partition("</title>")[0]


def test_a_run_that_kept_no_records_says_how_to_keep_them(tmp_path):
    with refused(SimulationError, "keep_log=200000"):
        small.on_vmmc().timeline(tmp_path / "run.json")
    assert not (tmp_path / "run.json").exists()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def long_run(monkeypatch, stream, goes_on=lambda: False):
    """What a run of many sleeps writes, which lasts while ``goes_on()`` says so."""
    monkeypatch.setattr(run_report, "PATIENCE_S", 0.001)
    monkeypatch.setattr(run_report, "PACE_S", 0.001)
    monkeypatch.setattr("sys.stderr", stream)
    cluster = Cluster("utlb")

    async def program(endpoint):
        for _ in range(2000):
            await endpoint.sleep(10.0)
        while goes_on():
            time.sleep(0.001)  # the thread that tells is another
            await endpoint.sleep(10.0)

    results_of(cluster, program)
    return stream.getvalue()


def test_a_long_run_says_on_a_terminal_how_far_it_is_and_leaves_nothing_there(monkeypatch):
    terminal, latest = Terminal(), time.monotonic() + 60
    said = long_run(
        monkeypatch, terminal, lambda: not terminal.getvalue() and time.monotonic() < latest
    )

    lines = said.split(run_report.CLEAR)
    assert "us of virtual time, " in lines[1]
    assert " events/s, " in lines[1]
    assert "\n" not in said
    assert lines[-1] == ""


def test_it_says_nothing_elsewhere_or_where_somebody_else_tells(monkeypatch):
    assert long_run(monkeypatch, io.StringIO()) == ""
    with on_run([].append):
        assert long_run(monkeypatch, Terminal()) == ""


# --- two programs on ports of no interface --------------------------------------------------------

ROUNDS = 5


def connect(process, peer):
    channel = process._ports.channels[process.node, 3]
    values = {"port": process.port, "node": peer, "tag": 3, "unit": 4096, "most": 64}
    for name, value in values.items():
        channel[name] = value


async def client(process):
    connect(process, 1)
    for _ in range(ROUNDS):
        await process.post_inline(SEND, 3, b"a question")
        await process.arrival()


async def server(process):
    connect(process, 0)
    for _ in range(ROUNDS):
        await process.arrival()
        await process.post_inline(SEND, 3, b"yes")


def started():
    cluster = PortCluster("utlb")
    cluster.start(0, client)
    cluster.start(1, server)
    return cluster


def test_messages_and_bytes_of_both_ends_are_told():
    cluster = started()
    cluster.run()

    asks, answers = cluster.report().nodes

    assert (asks.messages_out, asks.messages_in) == (ROUNDS, ROUNDS)
    assert (asks.bytes_out, asks.bytes_in) == (10 * ROUNDS, 3 * ROUNDS)
    assert (answers.bytes_out, answers.bytes_in) == (3 * ROUNDS, 10 * ROUNDS)
    assert (asks.programs, asks.requests, asks.sent.again) == (1, {"done": ROUNDS}, 0)
    assert asks.sent.total >= ROUNDS
    for node in (asks, answers):
        assert 0 < node.cpu_share < 1
        assert 0 < node.nic_share < 1


def test_whoever_listens_hears_of_each_run_until_forgotten():
    heard = []
    with on_run(heard.append):
        started().run()
    started().run()

    assert [source.names.design for source in heard] == ["utlb"]
