"""VI-MSG's firmware against lists and dictionaries, rule by rule."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.nic.vimsg import connections, receiving, regions, requests, rooms, sending
from nicscope.nic.vimsg.codes import Error, Reliability, Status
from nicscope.nic.vimsg.layout import FIRST_PAGE, HEADER, MESSAGE, NOWHERE, PAGE, WRITE, new_vimsg
from oracle.descriptors import decode
from oracle.vimsg import DELIVERY, UNRELIABLE, Assembly, Regions, Rooms, fragments

LEVELS = [int(level) for level in Reliability]


def vimsg_of(mtu=100, retries=3, longest=65536, staging=8192, pages=64):
    return new_vimsg(mtu, retries, longest, staging, pages)


def pair(level, **how):
    """Messaging with VI 0 of node 0 connected to VI 1 of node 0 itself."""
    vimsg = vimsg_of(**how)
    for v in range(2):
        connections.open_vi(vimsg, v, level, 7, 65536, 3)
    for v in range(2):
        connections.connect(vimsg, v, 0, 1 - v, 0, 1)
    return vimsg


def posted(vimsg, request, length, *, receive=True, handle=1):
    """A request of one segment of registered memory, waiting for a message at VI 1."""
    vimsg.requests[request]["control"] = 0
    vimsg.requests[request]["segments"] = 1
    vimsg.requests[request]["length"] = length
    vimsg.segments[request, 0]["address"] = FIRST_PAGE * PAGE
    vimsg.segments[request, 0]["handle"] = handle
    vimsg.segments[request, 0]["length"] = length
    if receive:
        connections.take_receive(vimsg, 1, request)


addresses = st.integers(0, 600) | st.sampled_from([2**62, 2**63 - 1, -1, -(2**63)])


@given(
    made=st.lists(
        st.tuples(st.integers(1, 500), st.integers(0, 90), st.integers(1, 3), st.integers(0, 3)),
        max_size=6,
    ),
    asked=st.tuples(
        st.integers(-1, 8), addresses, st.integers(0, 2**32 - 1) | st.integers(0, 90),
        st.integers(1, 3), st.integers(0, 3),
    ),
)  # fmt: skip
def test_memory_may_be_used_within_a_registration_under_its_tag_with_its_rights(made, asked):
    vimsg, plain = vimsg_of(), Regions()
    for handle, one in enumerate(made, start=1):
        assert regions.add_region(vimsg, handle, *one)
        plain.add(handle, *one)

    assert regions.permits(vimsg, *asked) == plain.permits(*asked)


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 3000)), max_size=40)
)
def test_rooms_are_first_fit_and_never_overlap(steps):
    vimsg, plain = vimsg_of(), Rooms(4096)
    for take, side, count in steps:
        if take or not plain.taken:
            place = int(rooms.take_room(vimsg, side, count))
            expected = plain.take(side, count)
            assert place == (NOWHERE if expected is None else expected)
        else:
            place = sorted(plain.taken)[count % len(plain.taken)]
            rooms.give_room(vimsg, place)
            plain.give(place)
        count = int(vimsg.config[0]["rooms"])
        found = [(int(one["begin"]), int(one["end"])) for one in vimsg.rooms[:count]]
        assert found == sorted(plain.taken.items())


@pytest.mark.requirement("ED-2")
@given(
    control=st.integers(0, 15) | st.integers(0, 0xFFFF),
    immediate=st.integers(0, 2**32 - 1),
    segments=st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)
        ),
        max_size=5,
    ),
    said=st.none() | st.integers(0, 70),
    receive=st.booleans(),
)
def test_a_descriptor_is_read_as_it_is_laid_out(control, immediate, segments, said, receive):
    count = len(segments) if said is None else said
    raw = struct.pack("<QIHHIIII", 0, 0, count, control, 0, immediate, 0, 0)
    raw += b"".join(struct.pack("<qII", *one) for one in segments)
    vimsg = vimsg_of()

    payload = np.frombuffer(raw, np.uint8).copy()
    wrong = requests.read_request(vimsg, 3, payload, 0, len(raw), int(receive))

    expected = decode(raw, receive)
    assert bool(wrong) == (expected is None)
    if expected is None:
        return
    found = vimsg.requests[3]
    data = vimsg.segments[3, : int(found["segments"])]
    remote = (int(found["remote_address"]), int(found["remote_handle"]))
    assert [tuple(int(x) for x in one.tolist()) for one in data] == expected.data
    assert remote == (expected.remote or (0, 0))
    assert (found["control"], found["immediate"]) == (expected.control, expected.immediate)
    assert found["length"] == expected.length


@given(
    frames=st.permutations(list(range(12))),
    stretches=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 9000)), max_size=3),
)
def test_runs_are_the_frames_of_a_stretch_and_are_as_long_as_can_be(frames, stretches):
    vimsg = vimsg_of(pages=12)
    vimsg.frames[:] = frames
    for address, count in stretches:
        found = int(regions.runs_of_stretch(vimsg, FIRST_PAGE * PAGE + address, count))
        runs = [(int(one["address"]), int(one["count"])) for one in vimsg.runs[:found]]
        places = [place for begin, size in runs for place in range(begin, begin + size)]
        own = range(address, address + count)
        assert places == [frames[at // PAGE] * PAGE + at % PAGE for at in own]
        ends = [begin + size for begin, size in runs[:-1]]
        assert all(end != begin for end, (begin, _) in zip(ends, runs[1:], strict=True))
        assert [int(one["first"]) for one in vimsg.runs[:found]] == [1] + [0] * (found - 1)


@pytest.mark.requirement("ED-63")
def numbered(vimsg):
    """The header that was made, with VI 0's next number."""
    header = vimsg.header.copy()
    header[0]["sequence"] = sending.number_frame(vimsg, 0)
    return header


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("reopened", [False, True])
def test_a_frame_of_a_connection_that_is_over_is_none_of_the_next_ones(level, reopened):
    vimsg = pair(level)
    memory = np.zeros(16384, np.uint8)
    posted(vimsg, 0, 10)
    sending.open_message(vimsg, 0, 0, NOWHERE, MESSAGE, 10)
    sending.next_fragment(vimsg)
    header = numbered(vimsg)
    for v in range(2):
        if reopened:
            connections.open_vi(vimsg, v, level, 7, 65536, 3)
        else:
            connections.forget(vimsg, v)
    posted(vimsg, 0, 10)
    for v in range(2):
        connections.connect(vimsg, v, 0, 1 - v, 0, 2)

    assert receiving.hear_frame(vimsg, header) == (False, NOWHERE)
    assert receiving.take_frame(vimsg, header, memory, memory[:10]) == receiving.IGNORED
    assert receiving.place_frame(vimsg, header, memory, memory[:10]) == receiving.IGNORED
    assert vimsg.config[0]["rooms"] == 0


@pytest.mark.parametrize("level", LEVELS)
@given(total=st.integers(0, 1000), mtu=st.integers(1, 300))
def test_a_message_is_cut_at_the_mtu_and_put_together_again(level, total, mtu):
    vimsg = pair(level, mtu=mtu)
    regions.add_region(vimsg, 1, FIRST_PAGE * PAGE, 4096, 7, 0)
    posted(vimsg, 0, total, receive=False)
    posted(vimsg, 1, total)
    raw = (np.arange(total) % 251).astype(np.uint8)
    memory = np.zeros(16384, np.uint8)
    sending.open_message(vimsg, 0, 0, 0, MESSAGE, total)
    found = []
    while not found or not found[-1][3]:
        sending.next_fragment(vimsg)
        header = numbered(vimsg)
        index, begin, size, last = (
            int(header[0][name]) for name in ("index", "offset", "count", "last")
        )
        found.append((index, begin, size, bool(last)))
        heard, ack = receiving.hear_frame(vimsg, header)
        assert heard
        if level != UNRELIABLE:
            assert sending.next_frame(vimsg, 0) == 0
            assert sending.settle(vimsg, 0, ack) == 1
            assert sending.next_frame(vimsg, 0) == NOWHERE
        took = receiving.take_frame(vimsg, header, memory, raw[begin : begin + size])
        assert took == (receiving.ARRIVED if last else receiving.TAKEN)
    assert found == fragments(total, mtu)

    place = int(receiving.match(vimsg, header))

    assert memory[place : place + total].tobytes() == raw.tobytes()
    assert vimsg.outcome[0]["request"] == 1
    assert vimsg.outcome[0]["status"] == 0


@given(lost=st.sets(st.integers(0, 29)), mtu=st.sampled_from([30, 50, 100]))
def test_of_an_unreliable_message_all_arrives_or_nothing(lost, mtu):
    vimsg, plain = pair(UNRELIABLE, mtu=mtu), Assembly()
    regions.add_region(vimsg, 1, FIRST_PAGE * PAGE, 4096, 7, 0)
    memory, done, at = np.zeros(16384, np.uint8), [], 0
    for request in range(8):
        posted(vimsg, request, 100)
    for number in range(8):
        sending.open_message(vimsg, 0, 0, NOWHERE, MESSAGE, 100)
        for index, begin, size, last in fragments(100, mtu):
            sending.next_fragment(vimsg)
            header = numbered(vimsg)
            at += 1
            if at in lost:
                continue
            plain.hear(number, index, last)
            heard, _ = receiving.hear_frame(vimsg, header)
            assert heard
            payload = np.full(size, number, np.uint8)
            if receiving.take_frame(vimsg, header, memory, payload) == receiving.ARRIVED:
                place = int(receiving.match(vimsg, header))
                assert (memory[place : place + 100] == number).all()
                rooms.give_room(vimsg, place)
                done.append(number)
            assert begin == index * mtu
    assert done == plain.done
    assert vimsg.config[0]["rooms"] <= 1


def test_a_frame_that_comes_again_is_acknowledged_and_not_taken():
    vimsg = pair(DELIVERY)
    sending.open_message(vimsg, 0, 0, NOWHERE, MESSAGE, 10)
    sending.next_fragment(vimsg)
    header = numbered(vimsg)
    heard = [receiving.hear_frame(vimsg, header) for _ in range(2)]
    assert [bool(one) for one, _ in heard] == [True, False]
    assert len({int(ack) for _, ack in heard}) == 1
    assert sending.settle(vimsg, 0, NOWHERE) == 0
    assert [bool(sending.is_given_up(vimsg, 0)) for _ in range(4)] == [False, False, False, True]


# What can be wrong with a message as its first frame comes, or when all is there: the level, what
# the receive and the sender are told, what the library hears, and whether the connection is lost.
PROTECTION, LENGTH = Status.VIP_STATUS_PROTECTION_ERROR, Status.VIP_STATUS_LENGTH_ERROR


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("length", "handle", "status"), [(99, 1, LENGTH), (100, 2, PROTECTION)])
def test_a_message_that_does_not_fit_is_the_receives_error(level, length, handle, status):
    vimsg = pair(level)
    regions.add_region(vimsg, 1, FIRST_PAGE * PAGE, 4096, 7, 0)
    posted(vimsg, 5, length, handle=handle)
    sending.open_message(vimsg, 0, 0, NOWHERE, MESSAGE, 100)
    sending.next_fragment(vimsg)
    header = vimsg.header.copy()
    assert receiving.receive_ahead(vimsg, header) == NOWHERE
    memory = np.zeros(16384, np.uint8)
    assert receiving.take_frame(vimsg, header, memory, memory[:100]) == receiving.ARRIVED
    receiving.match(vimsg, header)

    _, found, first, last, error, breaks = vimsg.outcome[0].tolist()

    assert found == status
    assert first == (0 if level == DELIVERY else NOWHERE)
    reliable = level != UNRELIABLE
    remote = Status.VIP_STATUS_REMOTE_DESC_ERROR
    assert last == (remote if level == Reliability.VIP_SERVICE_RELIABLE_RECEPTION else NOWHERE)
    assert (error, bool(breaks)) == (Error.VIP_ERROR_COMP_PROT if reliable else NOWHERE, reliable)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        (MESSAGE, Status.VIP_STATUS_TRANSPORT_ERROR, Error.VIP_ERROR_RECVQ_EMPTY),
        (WRITE, Status.VIP_STATUS_RDMA_PROT_ERROR, Error.VIP_ERROR_RDMAW_PROT),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused_with_the_first_frame(level, kind, status, error):
    vimsg = pair(level)
    sending.open_message(vimsg, 0, 0, NOWHERE, kind, 100)
    sending.next_fragment(vimsg)
    header = vimsg.header.copy()
    memory = np.zeros(16384, np.uint8)

    assert receiving.take_frame(vimsg, header, memory, memory[:100]) == receiving.REFUSED

    reliable = level != UNRELIABLE
    outcome = vimsg.outcome[0]
    assert outcome["tell_last"] == (status if reliable else NOWHERE)
    assert (outcome["error"], bool(outcome["breaks"])) == (error, reliable)
    assert not memory.any()
    assert header.dtype == HEADER
