"""Requests and completions of rings, as a program that writes them itself sees them."""

from __future__ import annotations

import errno
import random

import pytest
from live_clients import Queues

from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.fabric import HEADER, addresses, header
from nicscope.live import layout

pytestmark = pytest.mark.compiled_too
PAGE = 4096
UD = 4
SIGNALED, INLINE = calls.SIGNALED, calls.INLINE


@pytest.fixture
def queues(client):
    return Queues(client)


def test_a_send_ends_at_both_ends_with_what_was_sent(queues):
    memory, address, key, _ = queues.register(2 * PAGE)
    memory[:5] = b"hello"
    queues.receives[1].put("receive", [(address + PAGE, PAGE, key)], wr_id=7)
    queues.sends[0].put("send", [(address, 5, key)], wr_id=9, opcode=calls.WR_SEND, send_flags=2)
    queues.client.ring()

    ended = {int(each["wr_id"]): each for each in (queues.ended.wait(), queues.ended.wait())}
    assert memory[PAGE : PAGE + 5] == b"hello"
    assert int(ended[7]["byte_len"]) == 5
    assert int(ended[7]["qp_num"]) == queues.numbers[1]
    assert int(ended[7]["src_qp"]) == queues.numbers[0]
    assert int(ended[9]["position"]) == 1
    assert {int(each["status"]) for each in ended.values()} == {calls.SUCCESS}


def test_many_requests_without_a_completion_end_with_the_one_that_has_one(client):
    queues = Queues(client, depth=2048)
    _, address, key, rkey = queues.register(PAGE)
    for number in range(1, 1301):  # more than the NIC has places for
        queues.sends[0].put(
            "send", [(address, 8, key)], wr_id=number, opcode=calls.WR_WRITE,
            send_flags=SIGNALED * (number == 1300), remote=address + 64, rkey=rkey,
        )  # fmt: skip
    queues.client.ring()

    ended = queues.ended.wait(240)
    assert (int(ended["wr_id"]), int(ended["position"])) == (1300, 1300)
    assert int(ended["status"]) == calls.SUCCESS


def test_a_request_that_is_none_ends_with_an_error_and_its_queue_pair_with_it(queues):
    queues.sends[0].put("send", wr_id=3, opcode=77, send_flags=SIGNALED)
    queues.client.ring()

    ended = queues.ended.wait()
    assert (int(ended["wr_id"]), int(ended["status"])) == (3, calls.LOC_QP_OP_ERR)
    assert queues.client.ask("QUERY_QP", queues.numbers[0])[1] == calls.ERR


@pytest.mark.parametrize("kind", [calls.RC, UD])
def test_a_request_that_is_none_ends_behind_those_before_it(client, kind):
    queues = Queues(client, kind=kind)
    _, address, key, _ = queues.register(2 * PAGE)
    high, low = queues.gid(1)
    said = {"dgid_high": high, "dgid_low": low, "sgid_index": 1, "qpn": queues.numbers[1]}
    said |= {"qkey": 0x11, "send_flags": SIGNALED}
    for number in range(3):
        queues.receives[1].put("receive", [(address + PAGE, PAGE, key)], wr_id=100 + number)
        queues.sends[0].put("send", [(address, 2000, key)], wr_id=number, opcode=2, **said)
    queues.sends[0].put("send", wr_id=3, opcode=77, **said)
    queues.sends[0].put("send", [(address, 8, key)], wr_id=4, opcode=calls.WR_SEND, **said)
    queues.client.ring()

    ended = [queues.ended.wait() for _ in range(8)]
    sent = [(int(each["wr_id"]), int(each["status"])) for each in ended if each["wr_id"] < 100]
    assert sent[:3] == [(number, calls.SUCCESS) for number in range(3)]
    assert sent[3:] == [(3, calls.LOC_QP_OP_ERR), (4, calls.WR_FLUSH_ERR)]


def test_a_ring_that_claims_more_than_it_holds_is_not_looked_at_and_others_are(queues):
    memory, address, key, rkey = queues.register(PAGE)
    memory[:4] = b"data"
    queues.sends[1].words["tail"] = 1 << 40
    queues.sends[0].put(
        "send", [(address, 4, key)], wr_id=1, opcode=calls.WR_WRITE, send_flags=SIGNALED,
        remote=address + 64, rkey=rkey,
    )  # fmt: skip
    queues.client.ring()

    assert int(queues.ended.wait()["status"]) == calls.SUCCESS
    assert memory[64:68] == b"data"


@pytest.mark.parametrize("seed", range(2))
def test_each_request_moves_what_is_there_when_it_is_posted(queues, seed):
    drawn = random.Random(seed)
    pages = 24
    memory, address, key, rkey = queues.register(2 * pages * PAGE)
    at = 0
    for number in range(30):
        size = drawn.choice((1, 8, 100, PAGE, 3 * PAGE, 5000))
        if at + size > pages * PAGE:
            at = 0
        # What lies behind it changes, too: what was read ahead of the request before is old now.
        content = drawn.randbytes(min(4 * PAGE, pages * PAGE - at))
        memory[at : at + len(content)] = content
        is_read = number % 3 == 2
        near, far = (
            (address + pages * PAGE, address) if is_read else (address, address + pages * PAGE)
        )
        queues.sends[number % 2].put(
            "send", [(near + at, size, key)], wr_id=number, send_flags=SIGNALED,
            opcode=calls.WR_READ if is_read else calls.WR_WRITE, remote=far + at, rkey=rkey,
        )  # fmt: skip
        queues.client.ring()

        assert int(queues.ended.wait()["status"]) == calls.SUCCESS
        to = pages * PAGE + at
        assert memory[to : to + size] == memory[at : at + size]
        at += size


def test_a_read_after_a_write_sees_it_where_two_regions_are_of_one_page(queues):
    memory, address, key, rkey = queues.register(2 * PAGE)
    error, _, _, other, *_ = queues.client.ask("REG_MR", queues.pd, address, PAGE, address, 15)
    assert error == 0
    memory[:100], memory[PAGE : PAGE + 100] = b"a" * 100, b"b" * 100
    for number, (opcode, at, name) in enumerate(
        ((calls.WR_READ, 1000, rkey), (calls.WR_WRITE, 0, other), (calls.WR_READ, 2000, rkey))
    ):
        queues.sends[0].put(
            "send", [(address + PAGE + at, 100, key)], wr_id=number, send_flags=SIGNALED,
            opcode=opcode, remote=address, rkey=name,
        )  # fmt: skip
    queues.client.ring()

    assert [int(queues.ended.wait()["status"]) for _ in range(3)] == [calls.SUCCESS] * 3
    assert memory[PAGE + 1000 : PAGE + 1100] == b"a" * 100
    assert memory[PAGE + 2000 : PAGE + 2100] == memory[:100] == b"b" * 100


def test_what_arrives_over_what_has_just_arrived_is_what_is_there(queues):
    memory, address, key, rkey = queues.register(2 * PAGE)
    memory[:300] = b"a" * 100 + b"b" * 100 + b"c" * 100
    expected = bytearray(300)
    # Over all of it, within it, from the same place on but longer, over its end, before it.
    for number, (at, to, size) in enumerate(
        ((0, 100, 50), (100, 100, 50), (200, 110, 20), (0, 100, 90), (100, 170, 60), (200, 60, 60))
    ):
        queues.sends[0].put(
            "send", [(address + at, size, key)], wr_id=number, opcode=calls.WR_WRITE,
            send_flags=SIGNALED, remote=address + PAGE + to, rkey=rkey,
        )  # fmt: skip
        expected[to : to + size] = memory[at : at + size]
    queues.client.ring()

    assert [int(queues.ended.wait()["status"]) for _ in range(6)] == [calls.SUCCESS] * 6
    assert memory[PAGE : PAGE + 300] == expected


def test_requests_by_value_keep_what_they_were_posted_with(queues):
    memory, address, _, rkey = queues.register(PAGE)
    values = [bytes([number]) * (1 + number % 60) for number in range(20)]
    for number, value in enumerate(values):
        queues.sends[0].put(
            "send", inline=value, inlined=len(value), wr_id=number, opcode=calls.WR_WRITE,
            send_flags=SIGNALED | INLINE, remote=address + 64 * number, rkey=rkey,
        )  # fmt: skip
    queues.client.ring()

    for number, value in enumerate(values):
        assert int(queues.ended.wait()["wr_id"]) == number
        assert memory[64 * number : 64 * number + len(value)] == value


@pytest.mark.parametrize("is_v4", [0, 1])
def test_a_datagram_comes_with_the_header_of_its_two_addresses(client, is_v4):
    queues = Queues(client, kind=UD)
    memory, address, key, _ = queues.register(2 * PAGE)
    memory[:6] = b"packet"
    # Its first bytes may lie in several places.
    queues.receives[1].put(
        "receive", [(address + PAGE, 16, key), (address + PAGE + 100, 1000, key)], wr_id=1
    )
    high, low = queues.gid(is_v4)
    queues.sends[0].put(
        "send", [(address, 6, key)], wr_id=2, opcode=calls.WR_SEND, send_flags=SIGNALED,
        dgid_high=high, dgid_low=low, sgid_index=is_v4, qpn=queues.numbers[1], qkey=0x11,
    )  # fmt: skip
    queues.client.ring()

    ended = {int(each["wr_id"]): each for each in (queues.ended.wait(), queues.ended.wait())}
    gid = addresses(queues.node)[is_v4]
    whole = memory[PAGE : PAGE + 16] + memory[PAGE + 100 : PAGE + 100 + HEADER - 16 + 6]
    assert whole == header(gid, gid, 6) + b"packet"
    kind = layout.CONSTANTS["IPV4_BIT"] if is_v4 else 0
    assert int(ended[1]["wc_flags"]) == calls.WITH_GRH | kind
    assert int(ended[1]["byte_len"]) == HEADER + 6
    assert int(ended[1]["src_qp"]) == queues.numbers[0]


def test_each_datagram_has_the_header_of_its_own_addresses(client):
    queues = Queues(client, kind=UD)
    memory, address, key, _ = queues.register(3 * PAGE)
    for is_v4 in (1, 0):
        high, low = queues.gid(is_v4)
        queues.receives[1].put("receive", [(address + (1 + is_v4) * PAGE, PAGE, key)])
        queues.sends[0].put(
            "send", [(address, 6, key)], opcode=calls.WR_SEND, dgid_high=high, dgid_low=low,
            sgid_index=is_v4, qpn=queues.numbers[1], qkey=0x11,
        )  # fmt: skip
    queues.client.ring()
    for _ in range(2):
        assert int(queues.ended.wait()["status"]) == calls.SUCCESS

    for is_v4 in (1, 0):
        gid, at = addresses(queues.node)[is_v4], (1 + is_v4) * PAGE
        assert memory[at : at + HEADER] == header(gid, gid, 6)


def test_what_was_posted_before_a_reset_never_ends(queues):
    _, address, key, _ = queues.register(PAGE)
    for number in range(5):
        queues.receives[1].put("receive", [(address, PAGE, key)], wr_id=number)
    queues.client.ring()
    attributes = [0] * 20
    assert queues.client.ask("MODIFY_QP", queues.numbers[1], 1, *attributes)[0] == 0
    queues.connect(queues.numbers[1], queues.numbers[0], calls.RC)

    assert int(queues.ended.words["tail"][0]) == 0


def write(queues, number, source, key, to, rkey, size=8):
    """Post a write with a completion."""
    queues.sends[0].put(
        "send", [(source, size, key)], wr_id=number, opcode=calls.WR_WRITE,
        send_flags=SIGNALED, remote=to, rkey=rkey,
    )  # fmt: skip
    queues.client.ring()


def test_a_completion_queue_grows_with_what_waits_in_it(queues):
    _, address, key, rkey = queues.register(PAGE)
    for number in range(100):
        write(queues, number, address, key, address + 64, rkey)
        if number < 90:
            assert int(queues.ended.wait()["wr_id"]) == number
    while int(queues.ended.words["tail"][0]) < 100:
        pass
    assert queues.client.ask("RESIZE_CQ", queues.cq, 9)[0] == errno.EINVAL  # which holds 10

    error, entries, number, *place = queues.client.ask("RESIZE_CQ", queues.cq, 3000)

    assert (error, entries, number) == (0, 3000, queues.ended.number)
    assert place[2] >= 3000
    queues.ended.at, queues.ended.stride, queues.ended.slots = place[:3]
    for number in range(100, 110):
        write(queues, number, address, key, address + 64, rkey)
    assert [int(queues.ended.wait()["wr_id"]) for _ in range(20)] == [*range(90, 110)]
    error, entries, _, *same = queues.client.ask("RESIZE_CQ", queues.cq, 16)
    assert (error, entries, same[:3]) == (0, 16, place[:3])


TRANSLATION, DOMAIN, ACCESS = 1, 2, 4


def test_a_region_is_registered_anew_elsewhere_under_its_keys(queues):
    source, address, key, rkey = queues.register(PAGE)
    source[:8] = b"a letter"
    old, at, own, name = queues.register(2 * PAGE)
    handle = own >> 8 & 0xFFFF
    new, there = queues.memory(4 * PAGE)
    rereg = "REREG_MR", handle, TRANSLATION, 0
    assert queues.client.ask(*rereg, 1 << 40, PAGE)[0] == errno.EFAULT
    write(queues, 1, address, key, at, name)
    assert int(queues.ended.wait()["status"]) == calls.SUCCESS
    assert old[:8] == b"a letter"

    assert queues.client.ask(*rereg, there + 100, 3 * PAGE)[0] == 0

    write(queues, 2, address, key, there + 2 * PAGE, name)
    assert int(queues.ended.wait()["status"]) == calls.SUCCESS
    assert new[2 * PAGE : 2 * PAGE + 8] == b"a letter"
    write(queues, 3, address, key, at, name)  # where it was
    assert int(queues.ended.wait()["status"]) == calls.REM_ACCESS_ERR
    assert rkey != name


def test_a_region_loses_the_rights_that_it_is_registered_anew_without(queues):
    _, address, key, rkey = queues.register(PAGE)
    handle = rkey >> 8 & 0xFFFF
    assert queues.client.ask("REREG_MR", handle, ACCESS, 0, 0, 0, 2)[0] == errno.EINVAL
    assert queues.client.ask("REREG_MR", handle, ACCESS, 0, 0, 0, calls.LOCAL_WRITE)[0] == 0

    write(queues, 1, address, key, address + 64, rkey)

    assert int(queues.ended.wait()["status"]) == calls.REM_ACCESS_ERR
    assert queues.client.ask("REREG_MR", handle, DOMAIN, 4711)[0] == errno.EINVAL


GROUP = int.from_bytes(b"\xff\x0e" + bytes(6), "little"), 7  # an address, as its two words


def test_a_datagram_to_a_group_comes_once_to_each_member_and_ends_once(client):
    queues = Queues(client, kind=UD)
    memory, address, key, _ = queues.register(4 * PAGE)
    memory[:6] = b"to all"
    for place, number in enumerate(queues.numbers):
        assert client.ask("ATTACH_MCAST", number, *GROUP)[0] == 0
        assert client.ask("ATTACH_MCAST", number, *GROUP)[0] == 0  # which changes nothing
        for turn in range(3):
            at = address + (place + 1) * PAGE + 100 * turn
            queues.receives[place].put("receive", [(at, 100, key)], wr_id=10 * place + turn)
    post = {"opcode": calls.WR_SEND, "dgid_high": GROUP[0], "dgid_low": GROUP[1], "qkey": 0x11}
    for number in (50, 51):
        queues.sends[0].put(
            "send", [(address, 6, key)], wr_id=number, send_flags=SIGNALED, qpn=0xFFFFFF, **post
        )
    client.ring()

    ended = sorted(int(queues.ended.wait()["wr_id"]) for _ in range(6))
    assert ended == [0, 1, 10, 11, 50, 51]
    for place, turn in ((0, 0), (0, 1), (1, 0), (1, 1)):
        begin = (place + 1) * PAGE + 100 * turn + HEADER
        assert memory[begin : begin + 6] == b"to all"

    assert client.ask("DETACH_MCAST", queues.numbers[1], *GROUP)[0] == 0
    assert client.ask("DETACH_MCAST", queues.numbers[1], *GROUP)[0] == errno.EINVAL
    queues.sends[0].put(
        "send", [(address, 6, key)], wr_id=52, send_flags=SIGNALED, qpn=0xFFFFFF, **post
    )
    client.ring()
    assert sorted(int(queues.ended.wait()["wr_id"]) for _ in range(2)) == [2, 52]


def test_only_datagrams_have_groups_and_only_group_addresses_are_joined(client):
    queues = Queues(client, kind=UD)
    assert client.ask("ATTACH_MCAST", queues.numbers[0], *queues.gid(1))[0] == errno.EINVAL
    assert client.ask("ATTACH_MCAST", 4711, *GROUP)[0] == errno.EINVAL
    # A queue pair that has gone is in no group.
    assert client.ask("ATTACH_MCAST", queues.numbers[1], *GROUP)[0] == 0
    assert client.ask("DESTROY_QP", queues.numbers[1])[0] == 0
    _, address, key, _ = queues.register(PAGE)
    queues.sends[0].put(
        "send", [(address, 6, key)], wr_id=1, send_flags=SIGNALED, opcode=calls.WR_SEND,
        qpn=0xFFFFFF, qkey=0x11, dgid_high=GROUP[0], dgid_low=GROUP[1],
    )  # fmt: skip
    client.ring()
    assert int(queues.ended.wait()["status"]) == calls.SUCCESS


def test_a_connection_has_no_group(queues):
    assert queues.client.ask("ATTACH_MCAST", queues.numbers[0], *GROUP)[0] == errno.EINVAL
