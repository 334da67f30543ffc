"""What takes one program long does not keep the machine from others."""

from __future__ import annotations

import os
import select
import struct
import time

import pytest
from live_clients import Queues

from nicscope.interfaces.verbs_device import calls
from nicscope.live import layout

PAGE = 4096


@pytest.fixture
def queues(client):
    return Queues(client)


def test_a_request_is_taken_while_a_long_one_moves(queues):
    size = 1 << 20
    _, address, key, rkey = queues.register(2 * size)
    for number, count in ((0, size), (1, 8)):
        queues.sends[number].put(
            "send", [(address, count, key)], wr_id=number, send_flags=calls.SIGNALED,
            opcode=calls.WR_WRITE, remote=address + size, rkey=rkey,
        )  # fmt: skip
        queues.client.ring()
        until = time.monotonic() + 60
        while int(queues.sends[number].words["head"][0]) == 0:
            assert time.monotonic() < until
            time.sleep(0.0001)

    assert int(queues.ended.words["tail"][0]) < 2
    assert {int(queues.ended.wait(240)["wr_id"]) for _ in range(2)} == {0, 1}


def test_a_queue_pair_that_drains_keeps_nobody_from_being_answered(queues):
    heard, told = os.pipe()
    assert queues.client.ask("CREATE_CHANNEL", 1, descriptors=[told])[0] == 0
    os.close(told)
    _, address, key, _ = queues.register(PAGE)
    queues.sends[0].put(
        "send", [(address, 8, key)], opcode=calls.WR_SEND, send_flags=calls.SIGNALED
    )
    queues.client.ring()
    wanted = {"qp_state": calls.SQD, "en_sqd_async_notify": 1}
    words = [wanted.get(name, 0) for name in layout.ATTRIBUTES]
    assert queues.client.ask("MODIFY_QP", queues.numbers[0], 1 | 1 << 2, *words)[0] == 0
    assert queues.client.ask("ALLOC_PD")[0] == 0

    queues.receives[1].put("receive", [(address + 64, 8, key)])  # until there is one, it waits
    queues.client.ring()
    assert select.select([heard], [], [], 60)[0] == [heard]
    cookie, kind, _ = struct.unpack("QII", os.read(heard, 16))
    assert (cookie, kind) == (1, calls.EVENT_SQ_DRAINED)
    os.close(heard)
