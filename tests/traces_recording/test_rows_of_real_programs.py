"""Real programs are recorded, and the rows compared with what the programs say they did."""

import pyarrow as pa
import pyarrow.parquet as pq

from traces_recording.programs import run_and_agree


def test_each_scalar_call_gives_its_buffer_and_the_bytes_that_moved(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
libc.read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
out, into = bytearray(b"x" * 100), bytearray(5000)
a.send(out), note("sendto", out, 100)
b.recv_into(into), note("recvfrom", into, 100)
os.write(a.fileno(), out), note("write", out, 100)
libc.read(b.fileno(), at(into), 5000), note("read", into, 100)
""",
    )

    assert outcome.observed.bytes_sent == outcome.observed.bytes_received == 200


def test_a_vector_call_is_spread_over_its_segments_in_order(tmp_path):
    run_and_agree(
        tmp_path,
        """
one, two, three = bytearray(b"x" * 10), bytearray(), bytearray(b"y" * 5000)
four, five, six = bytearray(7), bytearray(4000), bytearray(4000)
a.sendmsg([one, two, three])
note("sendmsg", one, 10), note("sendmsg", three, 5000)
b.recvmsg_into([four, five, six])
note("recvmsg", four, 7), note("recvmsg", five, 4000), note("recvmsg", six, 1003)
os.writev(a.fileno(), [three, one])
note("writev", three, 5000), note("writev", one, 10)
os.readv(b.fileno(), [five, four, six])
note("readv", five, 4000), note("readv", four, 7), note("readv", six, 1003)
""",
    )


def test_calls_with_many_messages_give_each_message_its_own_length(tmp_path):
    run_and_agree(
        tmp_path,
        """
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(Vector)), ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("gap", ctypes.c_int),
        ("moved", ctypes.c_uint), ("end", ctypes.c_int)]

def messages(groups):
    made = (Message * len(groups))()
    for message, group in zip(made, groups):
        vectors = (Vector * len(group))(*(Vector(at(part), len(part)) for part in group))
        message.vectors, message.count = vectors, len(group)
    return made

a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
out = [[bytearray(b"x" * 30), bytearray(b"y" * 70)], [bytearray(b"z" * 50)], []]
into = [[bytearray(60), bytearray(60)] for _ in range(5)]
sent = libc.sendmmsg(a.fileno(), messages(out), 3, 0)
assert sent == 3
note("sendmmsg", out[0][0], 30), note("sendmmsg", out[0][1], 70), note("sendmmsg", out[1][0], 50)
got = libc.recvmmsg(b.fileno(), messages(into), 5, socket.MSG_DONTWAIT, None)
assert got == 3, got
note("recvmmsg", into[0][0], 60), note("recvmmsg", into[0][1], 40), note("recvmmsg", into[1][0], 50)
""",
    )


def test_a_partial_write_gives_what_moved_and_a_refused_one_is_only_counted(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
a.setblocking(False)
big = bytearray(b"x" * 4_000_000)
sent = a.send(big)
assert 0 < sent < len(big)
note("sendto", big, sent)
for _ in range(3):
    try:
        while True:
            note("sendto", big, a.send(big))
    except BlockingIOError:
        pass
""",
    )

    assert outcome.observed.failed == {"EAGAIN": 3}


def test_a_datagram_longer_than_its_buffer_fills_the_buffer(tmp_path):
    run_and_agree(
        tmp_path,
        """
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
out, into = bytearray(b"x" * 300), bytearray(100)
a.send(out), note("sendto", out, 300)
assert b.recv_into(into, 100, socket.MSG_TRUNC) == 300
note("recvfrom", into, 100)
""",
    )


def test_the_end_of_a_stream_gives_no_row(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out = bytearray(8)
a.send(out), note("sendto", out, 8)
into = bytearray(8)
b.recv_into(into), note("recvfrom", into, 8)
a.close()
assert b.recv(8) == b""
""",
    )

    assert outcome.observed.empty == 1


def test_rows_come_in_the_order_of_issue_though_a_receive_blocks(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
c, d = socket.socketpair()
late, out, into = bytearray(b"l" * 64), bytearray(b"x" * 16), bytearray(16)
waiter = threading.Thread(target=lambda: b.recv_into(late))
waiter.start()
def state():
    return open(f"/proc/self/task/{waiter.native_id}/stat").read().rsplit(")")[1].split()[0]
while state() != "S":  # asleep in recvfrom
    time.sleep(0.01)
time.sleep(0.05)
note("recvfrom", late, 16)
for _ in range(50):
    c.send(out), note("sendto", out, 16)
    d.recv_into(into), note("recvfrom", into, 16)
a.send(out), note("sendto", out, 16)
waiter.join()
""",
    )

    tids = outcome.table["tid"]
    assert tids[0] != tids[1] == outcome.table["pid"][1]
    assert set(tids[1:]) == {tids[1]}
    assert outcome.observed.threads == 2
    assert outcome.observed.processes == 1


def test_a_descriptor_is_a_socket_only_while_it_is_one(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out = bytearray(b"x" * 24)
file = os.open("/dev/null", os.O_RDWR)
for _ in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), file)
    os.write(file, out)
    os.dup2(a.fileno(), file)
    os.write(file, out), note("write", out, 24)
""",
    )

    assert outcome.observed.not_sockets >= 3


def test_a_program_whose_standard_input_is_a_socket_is_seen(tmp_path):
    run_and_agree(
        tmp_path,
        """
out, into = bytearray(b"x" * 24), bytearray(100)
os.dup2(b.fileno(), 0)
a.send(out), note("sendto", out, 24)
os.readv(0, [into]), note("readv", into, 24)
""",
    )


def test_copies_inside_the_kernel_are_counted_and_give_no_row(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
file = os.open(sys.executable, os.O_RDONLY)
assert os.sendfile(a.fileno(), file, 0, 3000) == 3000
r, w = os.pipe()
moved = ctypes.c_ssize_t(libc.splice(b.fileno(), None, w, None, ctypes.c_size_t(1000), 0)).value
assert moved == 1000
out = bytearray(10)
a.send(out), note("sendto", out, 10)
""",
    )

    assert outcome.observed.copies == {"sendfile": 1, "splice": 1}
    assert outcome.observed.copied_bytes == 4000


def test_io_uring_is_counted(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
parameters = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 4, parameters)
out = bytearray(10 if ring >= 0 else 20)
a.send(out), note("sendto", out, len(out))
""",
    )

    if outcome.rows[0][4] == 10:
        assert outcome.observed.ring_calls == {"io_uring_setup": 1}
    else:  # this kernel refuses it
        assert outcome.observed.failed.total() == 1


def test_failed_calls_are_counted_by_their_error(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out = bytearray(10)
a.send(out), note("sendto", out, 10)
libc.sendto(a.fileno(), ctypes.c_void_p(8), ctypes.c_size_t(10), 0, None, 0)
libc.sendmsg(a.fileno(), ctypes.c_void_p(8), 0)
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
b.close()
try:
    a.send(out)
except BrokenPipeError:
    pass
""",
    )

    assert outcome.observed.failed == {"EFAULT": 2, "ECONNRESET": 1} or (
        outcome.observed.failed == {"EFAULT": 2, "EPIPE": 1}
    )


def test_the_trace_tells_where_it_comes_from(tmp_path):
    outcome = run_and_agree(tmp_path, "out = bytearray(10)\na.send(out), note('sendto', out, 10)\n")
    from nicscope.traces.reader import open_trace

    trace = open_trace(tmp_path / "trace.parquet")

    assert trace.metadata.origin["command"].endswith("truth.jsonl")
    assert trace.metadata.origin["recorder"].startswith("nicscope record ")
    assert trace.metadata.observed["rows"] == outcome.observed.rows == 1
    assert trace.metadata.observed["moved"] == {"sendto": 1}
    schema = pq.read_schema(tmp_path / "trace.parquet")
    assert schema.field("posted").type == pa.uint32()
    assert schema.field("tid").type == pa.int32()
    assert pa.types.is_dictionary(schema.field("syscall").type)
    assert outcome.table["node"] == [0]
    assert outcome.table["peer"] == [0]  # this machine
