"""Stream rsockets: both ends in a program of this project's, and in the programs that come with rdma-core."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from live_clients import free_port, needs

from nicscope.live.build import CM, VERBS, compiler


@pytest.fixture
def program(libraries, machine, tmp_path):
    """Begins ``rsockets.c`` over the machine; its process."""
    made = tmp_path / "rsockets"
    source = str(Path(__file__).with_name("rsockets.c"))
    words = [compiler(), "-Wall", "-Wextra", "-Werror", source, "-o", str(made), "-lpthread"]
    subprocess.run([*words, str(libraries / CM), str(libraries / VERBS)], check=True)
    environment = {**os.environ, "NICSCOPE_LIVE": str(machine.path)}
    environment["LD_LIBRARY_PATH"] = str(libraries)

    def begin(*how):
        return subprocess.Popen(
            [str(made), *map(str, how)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    return begin


def test_bytes_come_once_and_in_order_while_both_ends_send(program):
    said, _ = program("both", 400_000).communicate(timeout=300)

    assert said == ""


def test_calls_answer_as_those_of_sockets_do(program):
    said, _ = program("answers").communicate(timeout=300)

    assert said == ""


def test_writes_into_a_mapped_region_come_before_what_is_sent_after_them(program):
    said, _ = program("regions").communicate(timeout=300)

    assert said == ""


def test_closing_frees_descriptors_and_all_that_the_machine_holds(program, machine):
    begun = program("closing", 4)
    said = begun.stdout.readline()
    (client,) = machine.clients.values()
    held = len(client.cqs), len(client.device._pairs), len(client.device._regions)
    channels, ends = len(client.channels), len(machine.connections._ends)
    begun.communicate("\n", timeout=60)

    assert said == "closed\n"
    assert held == (0, 0, 0)
    assert channels == 1  # the device's own
    assert ends == 0


@pytest.mark.parametrize("how", ["reads", "writes"])
def test_the_peer_of_a_killed_process_gets_an_error(program, how):
    with program("serve") as server:
        with program(how, server.stdout.readline().strip()) as peer:
            assert peer.stdout.readline() == "up\n"
            server.kill()
            said, _ = peer.communicate(timeout=120)

    assert said == "ECONNRESET\n"
    assert peer.returncode == 0
