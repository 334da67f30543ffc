"""A process that runs already is recorded for a while, and runs on as if nothing had been."""

import json
import os
import signal
import socket
import time

import pyarrow.parquet as pq
import pytest

from nicscope.errors import OutputError
from nicscope.traces.recording.connections import Observed
from nicscope.traces.recording.ptrace import this_machine
from nicscope.traces.recording.record import Attached as Attachment
from nicscope.traces.recording.record import held_signals
from nicscope.traces.recording.tracer import IssueOrder, Tracer
from traces_recording.running import Attached, eventually, is_alive, running, tracer_of

pytestmark = pytest.mark.long  # real processes, which take their time to join

# Says its port and, of each connection's thread, the address of the buffer that it echoes.
ECHO = """
import ctypes, socket, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def serve(connection):
    buffer = bytearray(1 << 16)
    at = ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))
    connection.sendall(at.to_bytes(8, "little"))
    while size := connection.recv_into(buffer):
        connection.sendall(memoryview(buffer)[:size])
while True:
    connection, _ = server.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"""
# Does with a socket pair what it is told: one thread blocks in a receive, the other asks.
PAIR = """
import os, signal, socket, sys, threading
a, b = socket.socketpair()
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
EXCHANGE = "a.send(b'x' * 10); b.recv(10)"
EXCHANGED = [("sendto", 10), ("recvfrom", 10)]


class Client:
    """One end of a connection to an ``ECHO``."""

    def __init__(self, target):
        self._socket = socket.create_connection(("127.0.0.1", int(target.greeting)), timeout=60)
        self.address = int.from_bytes(self._receive(8), "little")

    def exchange(self, size):
        data = os.urandom(size)
        self._socket.sendall(data)
        assert self._receive(size) == data

    def _receive(self, size):
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data

    def __del__(self):
        self._socket.close()


def test_a_server_of_many_threads_is_recorded_between_attaching_and_ctrl_c(tmp_path):
    sizes = [2, 1000, 70_000, 17]
    with running(ECHO) as target:
        clients = [Client(target) for _ in range(3)]
        for client in clients:
            client.exchange(500)  # before: not recorded
        attached = Attached(target.pid, tmp_path / "t.parquet")
        for client in clients:
            client.exchange(1)  # whether the first receive is seen depends on when it began
        clients.append(Client(target))  # a thread of its own
        for size in sizes:
            for client in clients:
                client.exchange(size)
        said = attached.end()

        assert tracer_of(target.pid) == 0
        for client in [*clients, Client(target)]:
            client.exchange(80_000)  # after

    rows = [row for row in attached.rows("address", "op", "length") if row[2] > 1]
    for client in clients:
        base = client.address
        mine = [row for row in rows if base <= row[0] < base + (1 << 16)]
        assert {row[0] for row in mine} == {base}
        for op in ("send", "recv"):
            lengths = [length for _, at, length in mine if at == op]
            assert sum(lengths) == sum(sizes)
            assert lengths[:2] == sizes[:2]
    assert f"process {target.pid} runs on" in said


def test_a_receive_that_blocks_meanwhile_goes_on_and_no_byte_is_lost(tmp_path):
    with running(PAIR) as target:
        target.ask("c, d = socket.socketpair(); got = []")
        target.ask("t = threading.Thread(target=lambda: got.append(c.recv(100))); t.start()")
        attached = Attached(target.pid, tmp_path / "t.parquet")
        target.ask(EXCHANGE)
        said = attached.end()

        target.ask("d.send(b'late'); t.join()")
        assert target.ask("print(got)") == "[b'late']"

    assert attached.rows("syscall", "length") == EXCHANGED
    assert "1 never ended" in said


def test_a_receive_that_blocked_before_is_recorded_when_its_bytes_come(tmp_path):
    with running(PAIR) as target:
        target.ask("t = threading.Thread(target=lambda: b.recv(100)); t.start()")
        attached = Attached(target.pid, tmp_path / "t.parquet")
        target.ask("a.send(b'x' * 30); t.join()")
        attached.end()

    assert sorted(attached.rows("syscall", "length")) == [("recvfrom", 30), ("sendto", 30)]


def test_the_recording_ends_when_its_time_is_up(tmp_path):
    with running(PAIR) as target:
        attached = Attached(target.pid, tmp_path / "t.parquet", "--seconds", "3")
        target.ask(EXCHANGE)
        said = attached.end(None)

        assert target.ask(EXCHANGE) == "done"

    assert attached.rows("syscall", "length") == EXCHANGED
    assert "runs on" in said


@pytest.mark.parametrize(
    ("end", "how"),
    [("os._exit(3)", "with exit status 3"), ("os.kill(os.getpid(), 9)", "by signal 9")],
)
def test_a_process_that_ends_meanwhile_ends_the_recording(tmp_path, end, how):
    with running(PAIR) as target:
        attached = Attached(target.pid, tmp_path / "t.parquet")
        target.ask(EXCHANGE)
        target.say(end)
        said = attached.end(None)

    assert attached.rows("syscall", "length") == EXCHANGED
    assert f"process {target.pid} has ended {how}" in said


def test_what_it_starts_meanwhile_is_recorded_and_runs_on_too(tmp_path):
    with running(PAIR, PAIR) as target:
        attached = Attached(target.pid, tmp_path / "t.parquet")
        target.ask(
            "a.set_inheritable(True); child = os.fork(); child or os.execv(sys.executable, "
            "[sys.executable, '-I', '-S', '-c', 'import socket, time; "
            "a = socket.socket(fileno=%d); a.send(bytes(7)); a.recv(1); a.send(bytes(9))' "
            "% a.fileno()])"
        )
        child = int(target.ask("b.recv(7); print(child)"))
        assert target.answer() == "done"
        attached.end()

        assert is_alive(child)
        assert tracer_of(child) == 0
        target.ask("b.send(bytes(1)); size = len(b.recv(9))")
        assert target.ask("print(size, os.waitpid(child, 0)[1])") == "9 0"

    rows = attached.rows("pid", "op", "length")
    assert (child, "send", 7) in rows
    assert (target.pid, "recv", 7) in rows
    assert len(rows) == 2


def test_a_process_that_is_stopped_stays_so_until_it_is_continued(tmp_path):
    with running(PAIR) as target:
        target.process.send_signal(signal.SIGSTOP)
        eventually(lambda: target.state == "T")
        attached = Attached(target.pid, tmp_path / "t.parquet")
        target.say(EXCHANGE)
        time.sleep(0.2)
        assert target.state in "Tt"

        target.process.send_signal(signal.SIGCONT)
        assert target.answer() == "done"

        target.process.send_signal(signal.SIGSTOP)
        eventually(lambda: target.state in "Tt")
        attached.end()
        assert target.state == "T"
        target.process.send_signal(signal.SIGCONT)
        assert target.ask(EXCHANGE) == "done"

    assert attached.rows("syscall", "length") == EXCHANGED


def test_a_process_outlives_a_recorder_that_is_killed(tmp_path):
    with running(ECHO) as target:
        client = Client(target)
        attached = Attached(target.pid, tmp_path / "t.parquet")
        client.exchange(70_000)
        attached.process.kill()
        attached.process.communicate()

        client.exchange(70_000)
        Client(target).exchange(70_000)
        assert tracer_of(target.pid) == 0

    assert list(tmp_path.iterdir()) == []


# Looks for signals again and again: Python may enter a call just when one has come.
COMES = """
import os, signal, socket, time
a, b = socket.socketpair()
came, told = [], 0
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
print("ready", flush=True)
while True:
    a.send(b"x"), b.recv(1)
    time.sleep(0.002)
    for _ in range(told, len(came)):
        print("came", flush=True)
        told += 1
"""


def test_no_signal_is_lost_however_often_a_recorder_comes_and_goes(tmp_path):
    with running(COMES) as target:
        for _ in range(2):
            attached = Attached(target.pid, tmp_path / "t.parquet", "--seconds", "1")
            while attached.process.poll() is None:
                target.process.send_signal(signal.SIGUSR1)
                assert target.answer() == "came"
            attached.end(None)


def test_what_stops_others_does_not_stop_the_recorder_as_its_process_would_wait(tmp_path):
    with running(PAIR) as target:
        attached = Attached(target.pid, tmp_path / "t.parquet")
        attached.process.send_signal(signal.SIGTSTP)
        assert target.ask(EXCHANGE) == "done"
        attached.end()


def test_a_process_runs_on_when_its_rows_cannot_be_kept(tmp_path, monkeypatch):
    def fail(*_):
        raise OutputError("no room")

    with running(PAIR) as target:
        target.ask("t = threading.Thread(target=lambda: (b.recv(10), b.recv(10))); t.start()")
        target.say("import time; time.sleep(1); a.send(b'x' * 10); a.send(b'x' * 10)")
        with held_signals(), IssueOrder(tmp_path / "trace") as rows:
            monkeypatch.setattr(rows, "add", fail)
            tracer = Tracer(this_machine(), rows, Observed(), Attachment.go_on)
            with pytest.raises(OutputError, match="no room"):
                Attachment(target.pid).trace(tracer, lambda: None)

        assert target.answer() == "done"
        assert tracer_of(target.pid) == 0
        assert target.ask("t.join()") == "done"


def test_the_metadata_says_what_ran_and_that_it_was_attached_to(tmp_path):
    with running(PAIR, "an argument") as target:
        attached = Attached(target.pid, tmp_path / "t.parquet")
        target.ask(EXCHANGE)
        attached.end()

    metadata = json.loads((pq.read_metadata(attached.trace).metadata or {})[b"nicscope"])
    assert metadata["origin"]["command"].endswith("'an argument'")
    assert metadata["origin"]["attached"] == "yes"
    assert metadata["observed"]["exit_status"] is None
    assert metadata["observed"]["threads"] == 1
