"""Clients that keep to nothing: the machine serves on, and nobody sees a foreign byte."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_clients import MESSAGE, Client

from nicscope.live import layout

RC, XRC_SEND, XRC_RECV = 2, 9, 10
RINGS_BYTES = 1 << 14
PAGE = 4096
TURNS = int(os.environ.get("NICSCOPE_HOSTILE_TURNS", "200"))


def test_another_layout_is_refused(client):
    assert client.ask("HELLO", layout.FINGERPRINT + 1)[0] == errno.EPROTO


def test_nothing_is_answered_before_hello_and_hello_once(client):
    assert client.ask("ALLOC_PD")[0] == errno.EINVAL
    client.hello()
    assert client.ask("HELLO", layout.FINGERPRINT)[0] == errno.EINVAL


def test_handles_of_nobody_are_refused(client):
    client.hello()
    for name in layout.OPERATIONS[1:]:
        if name.startswith(("DESTROY", "DEREG", "DEALLOC", "MODIFY", "QUERY", "CLOSE")):
            assert client.ask(name, 4711)[0] in (errno.EINVAL, errno.EOPNOTSUPP), name


def test_an_object_is_gone_once_it_was_destroyed(client):
    client.hello()
    _, pd, *_ = client.ask("ALLOC_PD")
    assert client.ask("DEALLOC_PD", pd)[0] == 0
    assert client.ask("DEALLOC_PD", pd)[0] == errno.EINVAL


def test_memory_that_is_not_there_is_not_registered(client):
    client.hello()
    _, pd, *_ = client.ask("ALLOC_PD")
    assert client.ask("REG_MR", pd, 4096, 4096, 4096, 1)[0] == errno.EFAULT
    assert client.ask("REG_MR", pd, 2**64 - 4096, 8192, 0, 1)[0] == errno.EINVAL
    assert client.ask("REG_MR", pd, 4096, 2**62, 0, 1)[0] == errno.ENOMEM
    assert client.ask("REG_MR", pd, 2**63, 0, 0, 1)[0] == errno.EINVAL


@pytest.mark.parametrize("iova", [2**63 - 1, 2**63, 2**64 - PAGE, 2**64 - 1])
def test_memory_is_not_registered_by_addresses_that_no_process_has(client, iova):
    client.hello()
    _, pd, *_ = client.ask("ALLOC_PD")
    buffer = ctypes.create_string_buffer(2 * PAGE)
    assert client.ask("REG_MR", pd, ctypes.addressof(buffer), PAGE, iova, 1)[0] == errno.EINVAL
    assert client.ask("REG_MR", pd, ctypes.addressof(buffer), PAGE, 0, 1)[0] == 0


@pytest.mark.parametrize(("kind", "queues"), [(XRC_SEND, "send"), (XRC_RECV, "")])
def test_a_queue_that_a_pair_has_no_use_for_may_be_nobodys(client, kind, queues):
    client.hello()
    _, pd, *_ = client.ask("ALLOC_PD")
    _, cq, *_ = client.ask("CREATE_CQ", 16, 0, 1)
    _, xrcd, *_ = client.ask("OPEN_XRCD", 0)
    send = cq if queues else 4711
    error, number, *_ = client.ask("CREATE_QP", pd, kind, send, 4712, 0, 4, 4, 1, 1, 0, 1, xrcd, 2)
    assert error == 0
    assert client.ask("DESTROY_CQ", cq)[0] == (errno.EBUSY if queues else 0)
    assert client.ask("DESTROY_QP", number)[0] == 0


def test_objects_in_use_stay(client):
    client.hello()
    _, pd, *_ = client.ask("ALLOC_PD")
    _, cq, *_ = client.ask("CREATE_CQ", 16, 0, 1)
    made = client.ask("CREATE_QP", pd, RC, cq, cq, 0, 4, 4, 1, 1, 0, 1, 0, 2)
    assert made[0] == 0
    assert client.ask("DESTROY_CQ", cq)[0] == errno.EBUSY
    assert client.ask("DEALLOC_PD", pd)[0] == errno.EBUSY


@pytest.mark.parametrize("seed", range(3))
def test_garbage_in_questions_and_rings_ends_nobody_else(machine, client, seed):
    drawn = random.Random(seed)
    client.hello()
    buffer = ctypes.create_string_buffer(8192)
    address = ctypes.addressof(buffer)
    _, pd, *_ = client.ask("ALLOC_PD")
    _, cq, *_ = client.ask("CREATE_CQ", 64, 0, 1)
    for number in range(6):
        client.ask("CREATE_QP", pd, RC + number % 3, cq, cq, 0, 8, 8, 2, 2, 64, 1, 0, number + 1)
    client.ask("REG_MR", pd, address, 8192, address, 15)
    base = layout.CONSTANTS["DATA_AT"]
    small = (0, 1, 2, 3, 4, 7, 0x11, 0x12, 64, 2**31, 2**32 - 1, 2**63, 2**64 - 1, address)
    for turn in range(TURNS):
        if turn % 4 == 0:
            for ring in range(1, 20):
                at = layout.CONSTANTS["RINGS_AT"] + ring * layout.DTYPES["ring"].itemsize
                tail = drawn.choice((drawn.randrange(64), drawn.randrange(2**64)))
                client.segment[at : at + 8] = tail.to_bytes(8, "little")
            client.segment[base : base + RINGS_BYTES] = drawn.randbytes(RINGS_BYTES)
            client.ring()
        name = drawn.choice(layout.OPERATIONS[1:])
        words = [drawn.choice((*small, drawn.randrange(2**64))) for _ in range(14)]
        if name in ("CREATE_CQ", "CREATE_SRQ", "CREATE_QP"):
            words = [pd, *(drawn.choice((0, 1, 2, 3, cq, 16)) for _ in range(13))]
        assert client.ask(name, *words)[0] <= 200

    other = Client(machine.path)
    assert other.hello()["node"] != 0
    assert other.ask("ALLOC_PD")[0] == 0
    other.close()


def test_a_process_for_which_there_is_no_room_is_told_so_and_takes_no_place(machine, monkeypatch):
    def no_segment():
        raise OSError(errno.EMFILE, "too many open files")

    first = Client(machine.path)
    with monkeypatch.context() as full:
        full.setattr("nicscope.live.machine.Segment", no_segment)
        assert first.ask("HELLO", layout.FINGERPRINT, os.getpid())[0] == errno.EMFILE
    assert first.hello()["node"] == 0
    first.close()


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_channel_that_its_program_lets_block_blocks_nobody(client):
    client.hello()
    heard, told = os.pipe()
    assert client.ask("CREATE_CHANNEL", 1, descriptors=[told])[0] == 0
    os.set_blocking(told, True)
    client.ask("ALLOC_PD")
    pipe = os.fstat(heard).st_ino
    ends = [each for each in range(3, 1024) if is_open(each) and os.fstat(each).st_ino == pipe]
    assert sorted(map(os.get_blocking, ends)) == [False, True, True]  # the first is the machine's
    for each in (heard, told):
        os.close(each)
    assert client.ask("CREATE_CHANNEL", 1, descriptors=[client.bell])[0] == errno.EINVAL


def test_nobody_hears_anothers_bell_or_can_keep_it_from_the_machine(machine):
    one, other = Client(machine.path), Client(machine.path)
    one.hello()
    other.hello()
    os.set_blocking(one.bell, True)
    for _ in range(20):
        other.ring()
        assert select.select([one.bell], [], [], 0.01)[0] == []
        os.eventfd_write(one.bell, 1)
        os.eventfd_read(one.bell)
        assert other.ask("ALLOC_PD")[0] == 0
    for each in (one, other):
        each.close()


CHILD = """
import os, sys, time
from live_clients import Client
client = Client(sys.argv[1])
client.hello()
if os.fork() == 0:  # by no library that would close its socket
    time.sleep(1000)
print(flush=True)
time.sleep(1000)
"""


def test_a_process_has_gone_whatever_its_children_have_open(machine):
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
    program = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(machine.path)],
        env=environment,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        program.stdout.readline()
        assert len(machine.clients) == 1
        os.kill(program.pid, signal.SIGKILL)
        until = time.monotonic() + 60
        while machine.clients:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()


def test_questions_of_a_wrong_length_end_the_connection_alone(machine, client):
    client.socket.send(b"short")
    assert client.socket.recv(10) == b""
    other = Client(machine.path)
    other.hello()
    other.close()


def test_processes_beyond_what_there_is_are_told_so_until_one_leaves(machine):
    clients = []
    answer = [0]
    while not answer[0]:
        clients.append(Client(machine.path))
        answer = clients[-1].ask("HELLO", layout.FINGERPRINT, os.getpid())
        for each in clients[-1].given:
            os.close(each)
    assert answer[0] == errno.EAGAIN
    clients.pop(0).close()
    clients[0].ask("ALLOC_PD")
    again = Client(machine.path)
    again.hello()
    for each in (*clients, again):
        each.close()


# Ends with 0 if nobody answers a hello of another user.
PROBE = """
import os, socket, sys
os.setuid(65534)
probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    probe.connect(sys.argv[1])
    probe.settimeout(30)
    probe.send(bytes.fromhex(sys.argv[2]))
    answered = probe.recv(10) != b""
except OSError:
    answered = False
sys.exit(answered)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_cannot_attach(machine):
    for folder in (machine.path, *machine.path.parents):
        if folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o777)
    hello = MESSAGE.pack(0, layout.FINGERPRINT, *[0] * (layout.CONSTANTS["WORDS"] - 2))
    # Not by ``os.fork``: the kernel may refuse to copy a process that reserves so much memory.
    asked = [sys.executable, "-c", PROBE, str(machine.path), hello.hex()]
    assert subprocess.run(asked, timeout=60, check=False).returncode == 0
