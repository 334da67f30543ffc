"""What a cluster reports of its run: the machine's own numbers, and a page for notebooks."""

import json

from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.run_report import on_run
from nicscope.nic.ports.layout import SEND

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


def test_a_report_is_plain_numbers_and_a_page():
    cluster = started()
    cluster.run()
    report = cluster.report()

    assert json.loads(json.dumps(report.to_json()))["nodes"][1]["messages_in"] == ROUNDS
    page = report._repr_html_()
    assert page.startswith("<h3>utlb, pci, adaptive on utlb-prototype, 2 nodes, ")
    assert page.count("<table>") == len(report.tables()) == 6


def test_whoever_listens_hears_of_each_run_until_forgotten():
    heard = []
    with on_run(heard.append):
        started().run()
    started().run()

    assert [source.names.design for source in heard] == ["utlb"]
