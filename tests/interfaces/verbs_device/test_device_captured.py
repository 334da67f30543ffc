"""Packets captured as RoCE v2 frames: each says what was posted, by the specification's own words.

A frame of a real card has the CRC that we make, so an error of ours and of the twin's would show.
"""

import io
import struct

import pytest
from device_world import World
from test_device_datagrams import CAPS, give, sharing

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import calls, roce
from nicscope.interfaces.verbs_device.calls import Caps, QpState, UdTarget
from nicscope.interfaces.verbs_device.capture import Capture
from nicscope.interfaces.verbs_device.fabric import addresses
from oracle.roce_frames import blocks, captured, invariant

LOCAL, V4 = addresses(0)
HERE = V4[12:]
MTU = 1024
# Of a ConnectX-4 Lx, as printed with Scapy's tests of its RoCE layer: a CNP.
OF_A_CARD = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b700280000"
    "8100ffff40000118" + "00" * 20 + "82fd002a"
)


class Captured:
    """Two connected pairs whose packets are captured."""

    def __init__(self, *, gid=V4, connect=True, **options):
        self.file = io.BytesIO()
        self.world = World(**options)
        self.capture = Capture(self.file)
        self.capture.begin(self.world.device.fabric)
        if connect:
            self.world.connect(dgid=gid)

    def frames(self):
        """The fields of all, once nothing moves any more."""
        for _ in range(40):
            self.world.device.poll(self.world.cqs[0], 1)
        found = [fields for _, _, fields in captured(self.file.getvalue())]
        assert len(found) == self.capture.frames
        return found

    def requests(self):
        return [each for each in self.frames() if "Acknowledge" not in each["opcode"]]


def numbers(found):
    return [each["psn"] for each in found]


def test_the_crc_is_that_of_a_real_cards_frame():
    assert roce.invariant_crc(OF_A_CARD[14:-4]) == OF_A_CARD[-4:]
    assert invariant(OF_A_CARD) == OF_A_CARD[-4:]


def test_the_crc_leaves_out_what_changes_on_the_way():
    for gid in (LOCAL, V4):
        packet = roce.transport_packet(4, 7, 9, payload=b"payload")
        frame = bytearray(roce.ethernet_frame((0, 0), (gid, gid), 0xC001, packet))
        assert roce.invariant_crc(frame[14:-4]) == frame[-4:] == invariant(frame)
        hops = 14 + (8 if gid == V4 else 7)
        frame[hops] -= 1
        assert invariant(frame) == frame[-4:]
        frame[-6] ^= 1
        assert invariant(frame) != frame[-4:]


def test_a_file_has_an_interface_for_each_node_and_counts_nanoseconds():
    first, second, *_ = blocks(roce.pcapng_header(["one", "other"]))
    assert first[0] == 0x0A0D0D0A
    assert first[1][:4] == struct.pack("<I", 0x1A2B3C4D)
    assert second == (
        1,
        struct.pack("<HHI", 1, 0, 0) + b"\2\0\3\0one\0\x09\0\1\0\x09\0\0\0" + bytes(4),
    )


def test_a_send_with_immediate_data_is_one_frame_and_is_acknowledged():
    made = Captured()
    made.world.device.write(made.world.at[0], b"hello")
    made.world.receive(1, 7)
    made.world.send(
        0, 1, 5, calls.WR_SEND_IMM, imm=0x04030201, flags=calls.SIGNALED | calls.SOLICITED
    )
    assert made.world.statuses(0) == [(1, calls.SUCCESS)]
    one, other = made.world.pairs
    ends = {"source": HERE, "destination": HERE}
    assert made.frames() == [
        ends | {"opcode": "RC SEND Only with Immediate", "solicited": 1, "qp": other, "asks": 1,
         "psn": 100, "immediate": 0x01020304, "payload": b"hello"},
        ends | {"opcode": "RC Acknowledge", "solicited": 0, "qp": one, "asks": 0, "psn": 100,
         "syndrome": 0x1F, "msn": 0, "payload": b""},
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [calls.RC, calls.UC])
def test_a_long_write_is_numbered_packets_of_which_the_first_names_the_place(kind):
    made = Captured(kind=kind)
    data = bytes(i * 7 % 251 for i in range(2 * MTU + 100))
    made.world.device.write(made.world.at[0], data)
    made.world.to_other(1, calls.WR_WRITE, len(data), offset=8)
    made.world.ended(0)
    found = made.requests()
    name = "RC" if kind == calls.RC else "UC"
    assert [each["opcode"] for each in found] == [
        f"{name} RDMA WRITE {part}" for part in ("First", "Middle", "Last")
    ]
    assert numbers(found) == [100, 101, 102]
    assert b"".join(each["payload"] for each in found) == data
    region = made.world.regions[1]
    assert [found[0][each] for each in ("va", "r_key", "dma_length")] == [
        made.world.at[1] + 8,
        region.rkey,
        len(data),
    ]
    assert [each["asks"] for each in found] == [0, 0, int(kind == calls.RC)]


def test_of_requests_without_a_completion_each_16th_asks_for_an_acknowledgement():
    made = Captured(connect=False)
    caps = Caps(64, 64, 4, 4, 64)
    made.world.pairs = [made.world.pair(i, caps, calls.RC, signals=False) for i in range(2)]
    made.world.connect(dgid=V4)
    for wr_id in range(40):
        made.world.to_other(wr_id, calls.WR_WRITE, flags=0)
    made.world.to_other(40, calls.WR_WRITE)
    assert made.world.statuses(0) == [(40, calls.SUCCESS)]
    frames = made.frames()
    found = [each for each in frames if each["opcode"] == "RC RDMA WRITE Only"]
    acknowledged = numbers([each for each in frames if each["opcode"] == "RC Acknowledge"])
    asked = numbers([each for each in found if each["asks"] == 1])
    assert numbers(found) == [*range(100, 141)]
    assert {111, 127, 140} <= {*asked}
    assert len(asked) < len(found) // 2
    assert acknowledged == asked


def test_a_read_asks_for_bytes_and_its_answer_has_them():
    made = Captured()
    data = bytes(range(250)) * 10
    made.world.device.write(made.world.at[1], data)
    made.world.to_other(1, calls.WR_READ, len(data))
    assert made.world.statuses(0) == [(1, calls.SUCCESS)]
    asked, *answers = made.requests()
    assert (asked["opcode"], asked["psn"], asked["payload"]) == ("RC RDMA READ Request", 100, b"")
    assert (asked["va"], asked["dma_length"]) == (made.world.at[1], len(data))
    assert [each["opcode"] for each in answers] == [
        f"RC RDMA READ response {part}" for part in ("First", "Middle", "Last")
    ]
    assert b"".join(each["payload"] for each in answers) == data
    assert {each["qp"] for each in answers} == {made.world.pairs[0]}


def test_atomic_operations_carry_their_words_and_bring_the_one_that_was_there():
    made = Captured()
    made.world.device.write(made.world.at[1], struct.pack("=Q", 40))
    made.world.to_other(1, calls.WR_FETCH_ADD, 8, compare_add=2)
    made.world.statuses(0)
    made.world.to_other(2, calls.WR_CMP_SWP, 8, compare_add=42, swap=2**64 - 1)
    made.world.statuses(0)
    added, was_40, swapped, was_42 = [
        each for each in made.frames() if each["opcode"] != "RC Acknowledge"
    ]
    assert (added["opcode"], added["swap_add"], added["compare"]) == ("RC FetchAdd", 2, 0)
    assert (swapped["opcode"], swapped["swap_add"], swapped["compare"]) == (
        "RC CmpSwap", 2**64 - 1, 42,
    )  # fmt: skip
    assert [each["opcode"] for each in (was_40, was_42)] == ["RC ATOMIC Acknowledge"] * 2
    assert [each["original"] for each in (was_40, was_42)] == [40, 42]


@pytest.mark.parametrize("gid", [LOCAL, V4])
def test_a_datagram_is_one_frame_however_many_pieces_it_is_of(gid):
    made = Captured(kind=calls.UD, connect=False)
    two = made.world
    for pair in two.pairs:
        for state in (calls.INIT, calls.RTR, calls.RTS):
            two.device.modify_qp(pair, QpState(state, qkey=0x1234))
    two.device.write(two.at[0], b"two pieces")
    two.receive(1, 7, 100)
    pieces = (two.piece(0, 3), two.piece(0, 7, 3))
    two.send(0, 1, pieces=pieces, ud=UdTarget(0, gid, two.pairs[1], 0x1234))
    assert two.statuses(0) == [(1, calls.SUCCESS)]
    (found,) = made.frames()
    assert (found["opcode"], found["payload"]) == ("UD SEND Only", b"two pieces")
    assert (found["qp"], found["source_qp"], found["q_key"]) == (*reversed(two.pairs), 0x1234)
    assert found["destination"] == (HERE if gid == V4 else LOCAL)


def test_refusals_are_said_in_the_syndrome():
    made = Captured()
    made.world.to_other(1, calls.WR_WRITE, 8, rkey=0x7777)
    assert made.world.statuses(0) == [(1, calls.REM_ACCESS_ERR)]
    assert [each["syndrome"] for each in made.frames() if "syndrome" in each] == [0x62]

    waits = Captured()
    waits.world.send(0, 1)
    assert waits.world.statuses(0) == [(1, calls.RNR_RETRY_EXC_ERR)]
    refused = [each["syndrome"] for each in waits.frames() if "syndrome" in each]
    assert refused == [0x20 | 1] * 3  # min_rnr_timer is 1, and rnr_retry 2


def test_a_lost_packet_leaves_its_sender_again_with_the_number_that_it_had():
    made = Captured(faults=Faults(seed=3, loss=0.2))
    many = 12
    for number in range(many):
        made.world.to_other(number, calls.WR_WRITE, 64)
        made.world.statuses(0)
    found = numbers(each for each in made.frames() if "WRITE" in each["opcode"])
    assert len(found) > many
    assert sorted({*found}) == [100 + number for number in range(many)]
    assert found[0] == 100


def test_what_is_left_out_is_told():
    capture = Capture(io.BytesIO())
    capture.frames = 1200
    capture.left_out["probes"] = 3
    assert capture.summary() == "1,200 frames; without 3 probes"


def test_an_extended_connection_names_its_queue_of_receives():
    made = Captured(connect=False)
    two, device = made.world, made.world.device
    domain = device.make_xrcd()
    queue, _ = sharing(two, domain)
    sender = device.make_qp(two.pd, calls.XRC_SEND, two.cqs[0], 0, 0, CAPS, True).number
    taker = device.make_qp(0, calls.XRC_RECV, 0, 0, 0, CAPS, True, domain).number
    two.pairs = [sender, taker]
    two.connect(dgid=V4)
    give(two, queue, 1)
    two.send(0, 1, srqn=queue.number)
    assert two.statuses(0) == [(1, calls.SUCCESS)]
    sent, acknowledged = made.frames()
    assert (sent["opcode"], sent["qp"], sent["srq"]) == ("XRC SEND Only", taker, queue.number)
    assert (acknowledged["opcode"], acknowledged["qp"]) == ("XRC Acknowledge", sender)
