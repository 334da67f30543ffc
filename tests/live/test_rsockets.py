"""Stream rsockets: both ends in one program, and the programs that come with rdma-core."""

from __future__ import annotations

import json
import shlex
from functools import partial

import pytest
from live_clients import free_port, needs


@pytest.fixture
def program(compiled):
    return partial(compiled, "rsockets")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(("both", 400_000), id="bytes_come_once_and_in_order_while_both_ends_send"),
        pytest.param(("answers",), id="calls_answer_as_those_of_sockets_do"),
        pytest.param(("behind", 12), id="what_was_sent_is_read_after_its_end_has_closed"),
        pytest.param(("shut",), id="who_reads_is_woken_when_another_thread_shuts_or_closes"),
        pytest.param(("regions",), id="writes_into_a_region_come_before_what_is_sent_after_them"),
    ],
)
def test_rsockets_do_as_sockets(program, how):
    said, _ = program(*how).communicate(timeout=300)

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
    with program("serve") as server, program(how, server.stdout.readline().strip()) as peer:
        assert peer.stdout.readline() == "up\n"
        server.kill()
        said, _ = peer.communicate(timeout=120)

    assert said == "ECONNRESET\n"
    assert peer.returncode == 0


RUNS = [
    *("rstream -T b -S 1000 -C 5 -I 3", "rstream -T a -T v -S 40001 -C 4 -I 2"),
    *("rstream -S 77 -C 40 -I 1 -k 5 -T v", "rstream -T n -T r -B 65536 -i 64 -S 3000 -C 40 -I 1"),
    *("riostream -T b -S 1000 -C 5 -I 1", "riostream -T a -T v -S 40001 -C 2 -I 1"),
]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=[needs(shlex.split(each)[0]), *[pytest.mark.long] * (number > 0)])
        for number, each in enumerate(RUNS)
    ],
)
def test_two_programs_exchange_streams(execute, command):
    command = f"{command} -p {free_port()}"
    ended = execute("--json", "--peer", f"{command} -s 127.0.0.1", "--", *shlex.split(command))

    found = json.loads(ended.stdout)
    assert found["statuses"] == [0, 0], ended.stderr
    assert all(run["messages_out"] > 5 for run in found["runs"])


@pytest.mark.long
@needs("rcopy")
def test_a_file_is_copied_whole(execute, tmp_path):
    first, second, done, port = tmp_path / "a", tmp_path / "b", tmp_path / "done", free_port()
    first.write_bytes(bytes(number * number % 251 for number in range(100_001)))
    copy = f"until rcopy {first} 127.0.0.1:{second} -p {port}; do sleep 0.2; done; touch {done}"
    serve = f"rcopy -p {port} & until [ -e {done} ]; do sleep 0.2; done; kill $!"
    ended = execute("--json", "--peer", shlex.join(["sh", "-c", copy]), "--", "sh", "-c", serve)

    assert json.loads(ended.stdout)["statuses"] == [0, 0], ended.stderr
    assert second.read_bytes() == first.read_bytes()


@pytest.mark.long
@needs("udpong")
def test_datagrams_are_refused(execute):
    ended = execute("--", "udpong", "-s", "127.0.0.1")

    assert ended.returncode != 0
    assert "Operation not supported" in ended.stdout + ended.stderr
