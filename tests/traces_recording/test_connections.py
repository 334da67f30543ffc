"""Connections are told apart, by whichever process uses them, and said with their addresses."""

import os
import socket

import pytest

from nicscope.traces.reader import open_trace
from nicscope.traces.recording.connections import UNKNOWN, Connections
from traces_recording.programs import run, run_and_agree

TWO = """
listener = socket.create_server(("127.0.0.1", 0))
here = [socket.create_connection(listener.getsockname()) for _ in range(2)]
there = [listener.accept()[0] for _ in range(2)]
out = bytearray(b"x" * 10)
for near, far in zip(here, there):
    for turn in range(2):
        near.send(out), note("sendto", out, 10)
        into = bytearray(10)
        far.recv_into(into), note("recvfrom", into, 10)
"""


def connections_of(tmp_path):
    [trace] = tmp_path.glob("*.parquet")
    found = open_trace(trace).metadata.connections
    assert found is not None
    return found


def test_each_socket_has_a_number_of_its_own_and_keeps_it(tmp_path):
    outcome = run_and_agree(tmp_path, TWO)

    assert outcome.table["connection"] == [0, 1, 0, 1, 2, 3, 2, 3]
    assert outcome.table["peer"] == [0] * 8
    found = connections_of(tmp_path)
    assert [each["kind"] for each in found] == ["tcp"] * 4
    for near, far in ((0, 1), (2, 3)):
        assert found[near]["local"] == found[far]["remote"]
        assert found[near]["remote"] == found[far]["local"]
    assert found[0]["local"] != found[2]["local"]


def test_a_socket_that_a_child_uses_has_the_number_that_its_parent_knows(tmp_path):
    outcome = run(
        tmp_path,
        """
out = bytearray(b"x" * 10)
a.send(out)
if os.fork() == 0:
    a.send(out)
    os._exit(0)
os.wait()
finish()
""",
    )

    assert outcome.table["connection"] == [0, 0]
    assert len(set(outcome.table["pid"])) == 2


def test_a_socket_that_is_connected_to_nobody_has_no_peer(tmp_path):
    outcome = run(
        tmp_path,
        """
one, two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
two.bind(("127.0.0.1", 0))
one.sendto(b"hello", two.getsockname())
finish()
""",
    )

    assert outcome.table["peer"] == [None]
    [found] = connections_of(tmp_path)
    assert (found["kind"], found["remote"]) == ("udp", "")


@pytest.mark.parametrize(
    ("local", "remote", "peer"),
    [
        (("127.0.0.1", 1), ("127.0.0.1", 2), 0),
        (("::1", 1), ("::1", 2), 0),
        (("10.0.0.1", 1), ("10.0.0.1", 2), 0),
        (("10.0.0.1", 1), ("10.0.0.2", 2), 1),
    ],
)
def test_a_peer_is_this_machine_if_its_address_is(local, remote, peer):
    assert Connections()._peer_of(local, remote) == peer


def test_machines_are_numbered_in_the_order_in_which_they_are_met():
    met = Connections()
    remotes = ["10.0.0.9", "10.0.0.2", "::ffff:10.0.0.9", "127.0.0.1", "10.0.0.2"]
    assert [met._peer_of(("10.0.0.1", 1), (each, 80)) for each in remotes] == [1, 2, 1, 0, 2]


def test_a_connection_whose_process_is_gone_is_unknown():
    met = Connections()
    assert met.number_of(7, 2**22 - 1, 3) == 0
    assert met.met[0].kind == UNKNOWN
    assert met.met[0].peer is None


def test_a_unix_sockets_path_may_be_of_any_bytes(tmp_path):
    connections = Connections()
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(bytes(tmp_path) + b"/\xff\n")

        assert connections.number_of(1, os.getpid(), held.fileno()) == 0

    [met] = connections.met
    assert met.kind == "unix"
    assert met.local.isprintable()
    assert met.local.startswith(str(tmp_path))


def test_a_socket_that_cannot_say_its_address_takes_nobodys_number(monkeypatch):
    def refuses(_):
        raise OSError(95, "not supported")

    connections = Connections()
    monkeypatch.setattr(socket.socket, "getsockname", refuses)
    here, there = socket.socketpair()
    with here, there:
        numbers = [
            connections.number_of(inode, os.getpid(), each.fileno())
            for inode, each in ((7, here), (8, there), (7, here))
        ]

    assert numbers == [0, 1, 0]
    assert [met.local for met in connections.met] == ["", ""]
