"""Programs of verbs on several nodes: one network, one clock, the same run each time."""

import socket
import sys
import threading
from pathlib import Path

import pytest
from verbs_beginnings import ENDS

import nicscope as ns
from nicscope.cli.app import main
from nicscope.errors import NicscopeError
from nicscope.studies.programs import ProgramError

PAIR = Path(__file__).parents[3] / "examples" / "verbs"
ONE_SIDED = (
    ENDS
    + """
    qp = pair()
    mr.write(b"of node %d" % me, 9)
    told = exchange("end", (qp.qp_num, gid, mr.buf, mr.rkey))
    number, where, address, key = told[1 - me]
    connect(qp, number, where)
    exchange("ready", None)
    if me == 1:
        assert told[0][2] == told[1][2]  # the same address, in two address spaces
        for rkey in (key, key + (1 << 12)):
            wr = SendWR(num_sge=1, sg=piece(9), opcode=e.IBV_WR_RDMA_WRITE)
            wr.set_wr_rdma(rkey, address + 32)
            qp.post_send(wr)
            print("status", ended().status)
    exchange("done", None)
    print(me, mr.read(9, 0), mr.read(9, 32))
"""
)
DATAGRAMS = (
    ENDS
    + """
    attr = QPAttr(port_num=1)
    attr.qkey = 17
    qp = pair(e.IBV_QPT_UD, attr)
    qp.post_recv(RecvWR(wr_id=9, num_sge=1, sg=piece(100)))
    number, where = exchange("end", (qp.qp_num, gid))[1 - me]
    mr.write(b"of node %d" % me, 9, 200)
    wr = SendWR(num_sge=1, sg=piece(9, 200))
    wr.set_wr_ud(AH(pd, attr=route(where)), number, 17)
    qp.post_send(wr)
    found = {each.wr_id: each for each in (ended(), ended())}
    print(me, found[9].status, found[9].src_qp == number, [*mr.read(49, 0)[32:40]], mr.read(9, 40))
"""
)
WAITS = """
    import socket

    with socket.socket() as listener:
        listener.bind(("", 7))
        listener.listen()
        with listener.accept()[0] as accepted:
            accepted.recv(1)
"""
CALLS = """
    import socket
    import sys

    with socket.create_connection((sys.argv[1], 7)) as made:
        made.recv(1)
"""


def pair_of(rounds):
    return {0: [str(PAIR / "server.py")], 1: [str(PAIR / "client.py"), "10.0.0.1", str(rounds)]}


def together(path, count=2):
    return {node: [path, str(node)] for node in range(count)}


def test_a_server_and_its_client_say_the_same_each_time(capsys):
    words = ["verbs", "run", "--node", "0", str(PAIR / "server.py"), "--node", "1"]
    words += [f"'{PAIR / 'client.py'}' 10.0.0.1 3"]
    told = []
    for _ in range(2):
        assert main(words) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert told[0].startswith(
        "the server has answered 3 times\n3 rounds, the last answer was pong\n"
    )


def test_each_node_has_a_bill_of_its_own():
    server, client = ns.run_verbs(nodes=pair_of(3)).found.runs
    assert (server.node, client.node) == (0, 1)
    assert server.messages_out == client.messages_out == 3
    assert server.bytes_out == client.bytes_out == 3 * 64
    assert server.lookups
    assert client.lookups


@pytest.mark.parametrize("seed", [0, 1])
def test_a_bad_network_between_nodes_takes_time_alone(capsys, seed):
    good = ns.run_verbs(nodes=pair_of(12)).found.runs[1]
    said = capsys.readouterr().out
    found = [
        ns.run_verbs(nodes=pair_of(12), seed=seed, loss=0.1, duplication=0.05, reordering=0.05)
        for _ in range(2)
    ]
    assert capsys.readouterr().out == 2 * said
    [bad, again] = [each.found.runs[1] for each in found]
    assert bad == again
    assert bad.elapsed_us > good.elapsed_us


def test_a_write_goes_to_the_other_node_and_to_no_region_but_the_named(capsys, program):
    ns.run_verbs(nodes=together(program("one_sided", ONE_SIDED)))
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"0 {b'of node 0'} {b'of node 1'}",
        f"1 {b'of node 1'} {bytes(9)}",
        "status 0",
        "status 10",
    ]


def test_a_datagram_says_from_which_node_it_comes(capsys, program):
    ns.run_verbs(nodes=together(program("datagrams", DATAGRAMS)))
    addresses = [10, 0, 0, 1], [10, 0, 0, 2]
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"0 0 True {addresses[1] + addresses[0]} {b'of node 1'}",
        f"1 0 True {addresses[0] + addresses[1]} {b'of node 0'}",
    ]


def test_values_are_exchanged_between_three_nodes(capsys, program):
    text = """
        import sys
        from nicscope.verbs import exchange

        print([exchange("n", int(sys.argv[1]) + turn) for turn in (0, 10)], sys.argv, __name__)
    """
    path = program("three", text)
    ns.run_verbs(nodes=together(path, 3))
    said = [f"[[0, 1, 2], [10, 11, 12]] {[path, str(node)]} __main__" for node in range(3)]
    assert sorted(capsys.readouterr().out.splitlines()) == said


def test_a_program_alone_exchanges_with_itself(capsys, program):
    text = 'from nicscope.verbs import exchange\nprint(exchange("n", 7))'
    ns.run_verbs(program("alone", text))
    assert capsys.readouterr().out == "[7]\n"


@pytest.mark.parametrize("place", ["beside", "added"])
def test_each_node_imports_modules_that_call_the_device_for_itself(capsys, program, place):
    """Which waits amid the import, while another begins the same."""
    text = """
        import sys
        from pyverbs.device import Context, get_device_list
        from pyverbs.pd import PD
        from nicscope.verbs import exchange

        context = Context(name=get_device_list()[0].name.decode())
        domain = PD(context)
        told = exchange("n", sys.argv[1])
    """
    made = Path(program("of_each", text))
    added = ""
    if place == "added":
        made.parent.joinpath("more").mkdir()
        made.rename(made.parent / "more" / made.name)
        added = f"import sys; sys.path.insert(0, {str(made.parent / 'more')!r})\n"
    path = program("imports", f"{added}import of_each\nprint(of_each.told, of_each.context.name)")
    for _ in range(2):
        ns.run_verbs(nodes=together(path, 3))
        said = [f"['0', '1', '2'] nicscope{node}" for node in range(3)]
        assert sorted(capsys.readouterr().out.splitlines()) == said
        assert "of_each" not in sys.modules


def test_programs_that_wait_for_each_other_are_told_so(capsys, program):
    nodes = {0: [program("waits", WAITS)], 1: [program("calls", CALLS), "127.0.0.1"]}
    with pytest.raises(NicscopeError, match=r"no program can go on: node 0 .*; node 1 ") as told:
        ns.run_verbs(nodes=nodes)
    assert "node 1 (calls.py) waits for bytes from 127.0.0.1, port 7" in str(told.value)
    words = [word for node, each in nodes.items() for word in ("--node", str(node), " ".join(each))]
    assert main(["verbs", "run", *words]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"nicscope: {told.value}"


def test_nobody_listens(program):
    text = """
        import socket

        try:
            socket.create_connection(("10.0.0.2", 9))
        except ConnectionRefusedError:
            raise SystemExit(3)
    """
    runs = ns.run_verbs(nodes={0: [program("calls", text)], 1: [program("ends", "")]}).found.runs
    assert [run.status for run in runs] == [3, 0]


def test_an_error_is_told_with_its_node(program):
    nodes = {0: [program("waits", WAITS)], 1: [program("wrong", "1 / 0")]}
    with pytest.raises(ProgramError) as told:
        ns.run_verbs(nodes=nodes)
    assert told.value.told.startswith("node 1 (wrong.py):\nTraceback")
    assert "ZeroDivisionError" in told.value.told
    assert told.value.told.endswith("node 0 (waits.py) waits for a connection to port 7\n")


def test_an_interruption_ends_all_of_them(program):
    text = """
        import os
        import signal
        from pyverbs.cq import CQ
        from pyverbs.device import Context

        cq = CQ(Context(name="nicscope0"), 4)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            cq.poll()
    """
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        ns.run_verbs(nodes={0: [program("polls", text)], 1: [program("waits", WAITS)]})
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread
    assert socket.socket.__name__ == "socket"
