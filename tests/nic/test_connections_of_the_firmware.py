"""Connections without an agenda: what each level confirms when, and how connections end."""

from itertools import product

import pytest
from bare_driver import PAGE, Bare

from nicscope.clock import NEVER
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.nic.ports import calls
from nicscope.nic.ports.connection import NO_ASYNC_ERROR
from nicscope.nic.ports.layout import (
    BROKEN,
    CONNECTED,
    DELIVERY,
    DONE,
    FETCH,
    FLUSHED,
    IDLE,
    PEER_DEAD,
    RECEPTION,
    REJECTED,
    SENT,
    UNRELIABLE,
    WRITE,
)
from nicscope.nic.ports.streams import NO_ENTRY

TEXT = bytes(range(1, 251)) * 60
SIZE = PortSize(connections=8)


def connected(level, design="vmmc-static", **how):
    bare = Bare(design, size=SIZE, **how)
    bare.map(0, 8, TEXT[: 4 * PAGE])
    bare.map(1, 8)
    bare.connect(level)
    return bare


def stream_at(bare, node):
    """What the node keeps about its connection."""
    peer = bare.ports.channels[node, 1]["stream"]
    return bare.ports.pools.streams[bare.ports.stream_of[node, peer]]


def confirmed_while_draining(level):
    """Whether a packet was confirmed before it was completed."""
    bare = connected(level)
    bare.provide(1, 0)
    bare.post(0, 1, 0, PAGE)
    seen = []
    deliver = bare._deliver

    def watch(node):
        deliver(node)
        seen.append(int(stream_at(bare, node)["confirmed"]))

    bare._deliver = watch
    bare.run()
    assert int(stream_at(bare, 1)["confirmed"]) == 1
    return seen == [1]


def test_delivery_confirms_what_is_on_the_nic_and_reception_what_is_in_memory():
    assert confirmed_while_draining(DELIVERY)
    assert not confirmed_while_draining(RECEPTION)


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
@pytest.mark.parametrize("frame", range(3))
def test_a_reliable_connection_sends_again_what_is_lost(level, frame):
    bare = connected(level, loses=lambda number: number == frame)
    for page in range(3):
        bare.provide(1, page * PAGE)
    bare.post(0, 1, 0, 3 * PAGE)
    bare.run()
    for _ in range(2):
        bare.wait_long(0)
        bare.run()
        bare.wait_long(1)
        bare.run()
    assert bare.ports.table[1, 1]["received"] == 1
    assert bare.read(1, 0, 3 * PAGE) == TEXT[: 3 * PAGE]
    assert bare.ports.table[0, 1]["reported"] == 1


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
def test_what_was_rejected_stays_known_when_later_packets_are_confirmed(level):
    bare = connected(level)
    bare.ports.channels[0, 2] = bare.ports.channels[0, 1]
    bare.ports.channels[0, 2]["tag"] = 7  # that nobody has registered there
    for page in range(5):
        bare.provide(1, page * PAGE)
    for tag in (1, 1, 2, 1, 1, 1):
        bare.post(0, tag, 0, 1024)
    bare.run()
    bare.wait_long(1)
    bare.run()
    told = list(bare.ports.reports[0, 1, SENT]["status"][:6])
    assert told == [DONE, DONE, REJECTED, DONE, DONE, DONE]


def test_an_unreliable_send_is_done_when_it_has_left_and_a_lost_one_is_lost():
    bare = connected(UNRELIABLE, loses=lambda number: number == 0)
    bare.provide(1, 0)
    for place in range(2):
        bare.post(0, 1, place * 100, 100)
    bare.run()
    reports = bare.ports.reports[0, 1, SENT]
    assert bare.ports.table[0, 1]["reported"] == 2
    assert list(reports["status"][:2]) == [DONE, DONE]
    assert bare.ports.table[1, 1]["received"] == 1
    assert bare.read(1, 0, 100) == TEXT[100:200]
    assert int(bare.ports.pool[0]["kept"]) == 0


# --- how connections end --------------------------------------------------------------------------


def disconnect(bare, node):
    calls.break_connection(bare.nics, node, 1, IDLE, NO_ASYNC_ERROR, FLUSHED)


def state_of(bare, node):
    """The port's state, how its descriptors ended so far, and errors beside them."""
    port = bare.ports.table[node, 1]
    told = bare.ports.reports[node, 1, SENT]["status"][: port["reported"]]
    return int(port["state"]), [int(each) for each in told], int(port["async_errors"])


def has_settled(bare):
    """Whether both ends have ended the connection, know it of each other, and keep nothing."""
    ends = [bare.ports.pools.streams[place] for place in STREAMS]
    bare.run()
    done = all(end["verdict"] != 0 and end["heard"] == 1 for end in ends)
    idle = all(end["retransmit_at"] == NEVER and end["oldest_kept"] == NO_ENTRY for end in ends)
    return done and idle and int(bare.ports.pool[0]["kept"]) == 0


STREAMS = (1, 2)  # of the only connection: the first that are made


def wait_for_both(bare, times):
    for _ in range(times):
        for node in (0, 1):
            if bare.ports.nodes[node]["deadline"] != NEVER:
                bare.wait_long(node)
            bare.run()


@pytest.mark.parametrize("level", [UNRELIABLE, DELIVERY, RECEPTION])
def test_who_disconnects_is_idle_and_the_other_end_loses_its_connection(level):
    bare = connected(level)
    for _ in range(3):
        bare.post(0, 1, 0, 100)
        bare.post(1, 1, 0, 100)
    disconnect(bare, 0)
    bare.run()

    assert state_of(bare, 0) == (IDLE, [FLUSHED] * 3, 0)
    state, told, async_errors = state_of(bare, 1)
    assert (state, len(told), async_errors) == (BROKEN, 3, 1)
    assert set(told) <= ({DONE, FLUSHED} if level == UNRELIABLE else {FLUSHED})
    assert has_settled(bare)


@pytest.mark.parametrize("level", [UNRELIABLE, RECEPTION])
@pytest.mark.parametrize("lost", [{0}, {1}, {0, 1}, {0, 1, 2}])
def test_a_verdict_that_is_lost_or_its_answer_is_told_again(level, lost):
    bare = connected(level, loses=lambda number: number in lost)
    disconnect(bare, 0)
    bare.run()
    assert not has_settled(bare)

    wait_for_both(bare, 4)

    assert state_of(bare, 1) == (BROKEN, [], 1)
    assert has_settled(bare)


@pytest.mark.parametrize("lost", [set(), {0}, {1}, {0, 1}, {2}, {0, 1, 3}])
def test_both_ends_may_end_a_connection_at_once(lost):
    bare = connected(RECEPTION, loses=lambda number: number in lost)
    for node in (0, 1):
        bare.post(node, 1, 0, PAGE)
        disconnect(bare, node)
    bare.run()
    wait_for_both(bare, 4)

    for node in (0, 1):
        assert state_of(bare, node) == (IDLE, [FLUSHED], 0)
    assert has_settled(bare)


def test_a_verdict_is_not_told_for_ever_and_answers_whatever_comes_later():
    silent = [True]
    bare = connected(RECEPTION, loses=lambda _: silent[0])
    disconnect(bare, 0)
    told = 0
    while bare.ports.nodes[0]["deadline"] != NEVER:
        bare.run()
        bare.wait_long(0)
        told += 1
        assert told < 1000
    assert told == bare.ports.rules[0]["most_retries"] + 1
    assert state_of(bare, 1) == (CONNECTED, [], 0)

    silent[0] = False
    bare.post(1, 1, 0, 100)
    bare.run()

    assert state_of(bare, 1) == (BROKEN, [FLUSHED], 1)
    assert has_settled(bare)


def test_what_is_sent_to_a_dead_peer_ends_so_and_its_connection_is_lost():
    silent = [False]
    bare = connected(RECEPTION, loses=lambda _: silent[0])
    bare.provide(1, 0)
    bare.post(0, 1, 0, 100)
    bare.run()
    bare.wait_long(1)
    bare.run()
    silent[0] = True
    for _ in range(3):
        bare.post(0, 1, 0, 2 * PAGE)
    bare.run()
    rounds = 0
    while bare.ports.nodes[0]["deadline"] != NEVER:
        bare.wait_long(0)
        bare.run()
        rounds += 1
        assert rounds < 1000

    assert state_of(bare, 0) == (BROKEN, [DONE] + 3 * [PEER_DEAD], 1)
    assert int(bare.ports.pool[0]["kept"]) == 0
    assert world_uses(bare, 0) == 0


def world_uses(bare, node):
    """Transfers and requests of the node that hold pages."""
    return int(bare.ports.translations.host.in_use[node].sum())


def test_a_peer_that_was_taken_for_dead_hears_of_it_when_it_sends():
    silent = [True]
    bare = connected(RECEPTION, loses=lambda _: silent[0])
    bare.post(0, 1, 0, 100)
    bare.run()
    while bare.ports.nodes[0]["deadline"] != NEVER:
        bare.wait_long(0)
        bare.run()
    silent[0] = False
    for _ in range(2):
        bare.post(1, 1, 0, 100)
    bare.run()
    assert state_of(bare, 0) == (BROKEN, [PEER_DEAD], 1)
    assert state_of(bare, 1) == (BROKEN, [FLUSHED] * 2, 1)


CONNECTIONS = [*product([UNRELIABLE, DELIVERY, RECEPTION], ["vmmc-static", "vmmc-interrupt"])]


@pytest.mark.parametrize(
    ("level", "design", "moments"),
    [
        *((*each, range(turn, 60, len(CONNECTIONS))) for turn, each in enumerate(CONNECTIONS)),
        *(pytest.param(*each, range(60), marks=pytest.mark.long) for each in CONNECTIONS),
    ],
)
def test_a_break_while_packets_fly_ends_everything_once_and_leaves_nothing(level, design, moments):
    """Whatever the NICs are at: a message half there, half sent, on its way to memory."""
    for after in moments:
        for node in (0, 1):
            _break_in_flight(connected(level, design), node, after)


def _break_in_flight(bare, node, after):
    for page in range(8):
        bare.provide(1, page * PAGE)
    for _ in range(3):
        bare.post(0, 1, 0, 3 * PAGE - 100)
        bare.post(1, 1, 0, 100)
    for _ in range(after):
        bare._turn(0)
        bare._turn(1)
    disconnect(bare, node)
    bare.run()
    wait_for_both(bare, 2)

    for end in (0, 1):
        found, told, _ = state_of(bare, end)
        assert found == (IDLE if end == node else BROKEN)
        assert len(told) == 3
        assert not bare.ports.pending[end, 1]["busy"].any()
        assert told == sorted(told)  # DONE, if any, before FLUSHED
    done = state_of(bare, 0)[1].count(DONE)
    port = bare.ports.table[1, 1]
    came = int(port["received"])
    assert came <= 3
    assert done <= came or port["level"] != RECEPTION
    assert has_settled(bare)
    # Buffers that are not filled are there for the next connection.
    assert int(port["filling"]) == 0
    assert int(port["reserved"]) == came
    assert int(port["free_posted"] - port["free_taken"] + port["ready_in"] - port["ready_out"]) == (
        8 - 3 * came
    )
    ready = int(port["ready_in"] - port["ready_out"])
    holds = ready if bare.cluster.design.name == "vmmc-interrupt" else 0
    assert [world_uses(bare, 0), world_uses(bare, 1)] == [0, holds]


@pytest.mark.parametrize("after", range(0, 24, 2))
def test_a_new_connection_of_the_same_ports_has_nothing_of_the_old(after):
    bare = connected(RECEPTION)
    for page in range(2):
        bare.provide(1, page * PAGE)
    bare.post(0, 1, 0, PAGE)
    for _ in range(after):
        bare._turn(0)
        bare._turn(1)
    came = int(bare.ports.table[1, 1]["received"])
    for node in (0, 1):
        disconnect(bare, node)
    bare.connect(RECEPTION)  # before what is under way has gone
    bare.post(0, 1, PAGE, 100)
    bare.run()
    wait_for_both(bare, 2)

    state, told, _ = state_of(bare, 0)
    assert (state, told[1:]) == (CONNECTED, [DONE])
    assert int(bare.ports.table[1, 1]["received"]) == came + 1
    place = int(bare.ports.report_buffers[1, 1, came, 0])
    assert bare.read(1, place, 100) == TEXT[PAGE : PAGE + 100]


KEY = 5
WORK = PortSize(connections=2, segments=4, receives=4, regions=2)


WORKS = [*product([WRITE, FETCH], ["vmmc-static", "vmmc-interrupt"])]
LAST = 89  # by then there was time enough for all of it


@pytest.mark.parametrize(
    ("operation", "design", "moments"),
    [
        *((*work, [*range(turn, LAST, len(WORKS)), LAST]) for turn, work in enumerate(WORKS)),
        *(pytest.param(*work, range(LAST + 1), marks=pytest.mark.long) for work in WORKS),
    ],
)
def test_nothing_reaches_remote_memory_or_comes_from_it_once_a_connection_is_over(
    operation, design, moments
):
    """A packet that is on the NIC already goes no further: the memory may be registered no more."""
    for after in moments:
        bare = Bare(design, size=WORK)
        for node in (0, 1):
            bare.map(node, 8, TEXT[: 3 * PAGE] if node == 0 else b"")
        bare.have_queues(KEY)
        bare.connect(RECEPTION, 1000)
        bare.post_remote(0, operation, [(100, 5000, KEY), (5200, 17, KEY)], 3 * PAGE - 50)
        for _ in range(after):
            bare._turn(0)
            bare._turn(1)
        for node in (0, 1):
            disconnect(bare, node)
        before = [bare.read(node, 0, 8 * PAGE) for node in (0, 1)]
        bare.run()
        wait_for_both(bare, 2)

        assert [bare.read(node, 0, 8 * PAGE) for node in (0, 1)] == before
        assert state_of(bare, 0)[1] in ([FLUSHED], [DONE])
        assert int(bare.ports.table[0, 1]["reading"]) == 0
        assert has_settled(bare)
        assert [world_uses(bare, 0), world_uses(bare, 1)] == [0, 0]
    if operation == WRITE:
        assert before[1][3 * PAGE - 50 :][:5017] == TEXT[100:5100] + TEXT[5200:5217]
    else:
        assert before[0][100:5100] + before[0][5200:5217] == bytes(5017)
