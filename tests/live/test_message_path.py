"""Requests and completions of rings, as a program that writes them itself sees them."""

from __future__ import annotations

import random

import pytest
from live_clients import Queues

from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.fabric import HEADER, addresses, header

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
    assert int(ended[1]["wc_flags"]) == calls.WITH_GRH
    assert int(ended[1]["byte_len"]) == HEADER + 6
    assert int(ended[1]["src_qp"]) == queues.numbers[0]


def test_what_was_posted_before_a_reset_never_ends(queues):
    _, address, key, _ = queues.register(PAGE)
    for number in range(5):
        queues.receives[1].put("receive", [(address, PAGE, key)], wr_id=number)
    queues.client.ring()
    attributes = [0] * 20
    assert queues.client.ask("MODIFY_QP", queues.numbers[1], 1, *attributes)[0] == 0
    queues.connect(queues.numbers[1], queues.numbers[0], calls.RC)

    assert int(queues.ended.words["tail"][0]) == 0
