"""Handlers: what is called when work has ended, or an entry is made, or something is wrong."""

import pytest
from conforming import DONE, FLUSHED, RECEIVE, code_of
from pairs import UNRELIABLE, ended, idle, run_pair

from nicscope.interfaces.via import Error, Return

WAYS = ["edt", "cc-dma-intervention", "dma", "pio", "pci"]


async def messages(end, count, apart=200):
    """Send so many, each longer than the one before, and tell when."""
    sent = []
    for number in range(count):
        await end.nic.compute(apart)
        sent.append(end.nic.now_us)
        await end.nic.post_send(end.vi, end.send(0, 8 + number))
        await end.nic.send_wait(end.vi)
    return sent


@pytest.mark.parametrize("mechanism", WAYS)
def test_a_handler_is_called_once_with_the_receive_that_has_ended(mechanism):
    called = []

    def handler(context, nic, vi, descriptor):
        called.append((context, vi, descriptor.length, descriptor.status, nic.now_us))

    async def second(end):
        await end.nic.recv_notify(end.vi, handler, "context")
        first = await end.nic.handle()
        late = await code_of(end.nic.handle(5))
        return first, late, end.vi, (await end.nic.recv_wait(end.vi)).length

    sent, (first, late, vi, length) = run_pair(
        lambda end: messages(end, 2), second, mechanism, posted=2
    )
    ((context, which, size, status, when),) = called
    assert (first, late, context, which) == (1, Return.VIP_DESCRIPTOR_ERROR, "context", vi)
    assert (size, status, length) == (8, DONE | RECEIVE, 9)
    assert sent[0] < when < sent[0] + 150


@pytest.mark.parametrize("mechanism", WAYS)
def test_handlers_of_several_queues_are_called_as_each_has_something(mechanism):
    """Whichever is first, and what they post and ask for again counts."""
    called = []

    async def second(end):
        others = [await end.nic.create_vi(end.tag) for _ in range(2)]

        async def handler(context, nic, vi, descriptor):
            called.append((context, descriptor.length))
            if len(called) < 4:
                await nic.post_recv(vi, end.receive())
                await nic.recv_notify(vi, handler, context)

        for number, vi in enumerate(others):
            await end.nic.post_recv(vi, end.receive())
            await end.nic.connect_accept(await end.nic.connect_wait(f"other {number}"), vi)
            await end.nic.recv_notify(vi, handler, number)
        count = 0
        while len(called) < 4:
            count += await end.nic.handle(5000)
        return count

    async def first(end):
        others = [await end.nic.create_vi(end.tag) for _ in range(2)]
        for number, vi in enumerate(others):
            await end.nic.connect_request(vi, 1, f"other {number}")
        for number, which in enumerate((1, 0, 0, 1)):
            await end.nic.compute(300)
            await end.nic.post_send(others[which], end.send(0, 10 + number))
            await end.nic.send_wait(others[which])
        await end.nic.compute(1000)

    assert run_pair(first, second, mechanism)[1] == 4
    assert called == [(1, 10), (0, 11), (0, 12), (1, 13)]


def test_a_handler_of_a_send_is_called_however_it_ended_and_at_once_if_it_has():
    called = []

    def handler(context, *what):
        called.append((context, what[-1].status))

    async def first(end):
        await end.nic.send_notify(end.vi, handler, "one")
        await end.nic.send_notify(end.vi, handler, "two")
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.compute(500)
        begun = end.nic.now_us
        counts = [await end.nic.handle()]
        at_once = end.nic.now_us - begun
        await end.nic.disconnect(end.vi)
        await end.nic.post_send(end.vi, end.send(0, 8))
        counts.append(await end.nic.handle())
        return counts, at_once

    counts, at_once = run_pair(first, idle)[0]
    assert counts == [1, 1]
    assert at_once < 20
    assert called == [("one", DONE), ("two", DONE | FLUSHED)]


def test_a_wait_for_handlers_ends_when_it_was_to_end_and_a_handler_waits_on():
    called = []

    async def second(end):
        await end.nic.recv_notify(end.vi, lambda *what: called.append(what[3].length))
        begun = end.nic.now_us
        none = await end.nic.handle(100)
        return none, end.nic.now_us - begun, await end.nic.handle(1000)

    none, waited, one = run_pair(lambda end: messages(end, 1, 400), second)[1]
    assert (none, one, called) == (0, 1, [8])
    assert 100 <= waited < 130  # and the time of a signal


@pytest.mark.parametrize("mechanism", WAYS)
def test_a_handler_of_a_completion_queue_is_called_for_each_entry_that_one_was_asked_for(mechanism):
    called = []

    async def second(end):
        queue = await end.nic.create_cq(end.tag, 8)
        vi = await end.nic.create_vi(end.tag, recv_cq=queue)
        for _ in range(3):
            await end.nic.post_recv(vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("queue"), vi)

        async def handler(context, nic, which, is_receive):
            called.append((context, which is vi, is_receive, (await nic.recv_done(which)).length))

        for number in range(2):
            await end.nic.cq_notify(queue, handler, number)
        refused = await code_of(end.nic.recv_notify(vi, handler))
        count = 0
        while count < 2:
            count += await end.nic.handle(5000)
        found = await end.nic.cq_wait(queue, 5000)
        return refused, found == (vi, True), (await end.nic.recv_done(vi)).length

    async def first(end):
        vi = await end.nic.create_vi(end.tag)
        await end.nic.connect_request(vi, 1, "queue")
        for number in range(3):
            await end.nic.compute(200)
            await end.nic.post_send(vi, end.send(0, 8 + number))
            await end.nic.send_wait(vi)
        await end.nic.compute(1000)

    found = run_pair(first, second, mechanism)[1]
    assert found == (Return.VIP_INVALID_PARAMETER, True, 10)
    assert called == [(0, True, True, 8), (1, True, True, 9)]


@pytest.mark.parametrize("mechanism", WAYS)
def test_an_error_handler_is_told_each_error_once_and_no_more_when_it_is_taken_away(mechanism):
    called = []

    def handler(context, nic, error):
        called.append((context, error.vi, error.error, nic.now_us))

    async def first(end):
        await end.nic.error_callback(handler, "mine")
        begun = end.nic.now_us
        counts = [await end.nic.handle(), await end.nic.handle(100)]
        took = end.nic.now_us - begun
        await end.nic.error_callback(None)
        with pytest.raises(Exception, match="no handler"):
            await end.nic.handle(5)
        return counts, took, end.vi, end.nic.errors(end.vi)

    async def second(end):
        await end.nic.compute(300)
        await end.nic.disconnect(end.vi)
        await end.nic.compute(1000)

    counts, took, vi, errors = run_pair(first, second, mechanism)[0]
    assert counts == [1, 0]
    assert 300 < took < 700
    assert [each[:3] for each in called] == [("mine", vi, Error.VIP_ERROR_CONN_LOST)]
    assert errors == [Error.VIP_ERROR_CONN_LOST]


def test_more_notices_than_any_queue_holds_lose_nothing_and_end_no_connection():
    """They wake who waits; what they are of is at the VI itself."""

    async def second(end):
        got = []
        await end.nic.recv_notify(end.vi, lambda *what: got.append(what[3].length))
        for _ in range(300):
            await end.nic.post_recv(end.vi, end.receive())
            await ended(end.nic.recv_wait(end.vi))
        await end.nic.post_recv(end.vi, end.receive())
        count = await end.nic.handle()
        return count, got, end.nic.errors(end.vi), end.vi.connected

    async def first(end):
        for _ in range(302):
            await end.nic.compute(60)
            await end.nic.post_send(end.vi, end.send(0, 8))
            await end.nic.send_wait(end.vi)
        await end.nic.compute(300)

    found = run_pair(first, second, level=UNRELIABLE)[1]
    assert found == (1, [8], [], True)


def test_what_is_no_function_is_no_handler():
    async def first(end):
        return [
            await code_of(end.nic.recv_notify(end.vi, "handler")),
            await code_of(end.nic.error_callback(3)),
        ]

    assert run_pair(first, idle)[0] == [Return.VIP_INVALID_PARAMETER] * 2
