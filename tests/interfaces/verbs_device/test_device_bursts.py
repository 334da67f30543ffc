"""Messages in bursts: the same bytes and translations as in packets, and nearly the same time."""

from __future__ import annotations

import pytest
from device_world import PAGE, World
from hypothesis import given
from hypothesis import strategies as st

from nicscope.errors import StudyError
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Caps, Piece, Receive, Send
from nicscope.nic.ports.layout import BURST_PAGES
from nicscope.studies.verbs_measures import all_latencies, ask, bandwidths
from refusals import refused
from suite import share

PAGES = 36
BURST = BURST_PAGES * PAGE
LONG, SHORT = 4096, 1024  # path MTUs
DONE = calls.SUCCESS
NS_PER_BYTE, HOP_NS = 0.08, 200  # of the platform ``connectx``


class Sides:
    """Two pairs, each with a region of many pages, of a NIC with bursts or without."""

    def __init__(self, burst, mtu=LONG, design="rnic"):
        self.world = world = World(design, bursts=burst)
        caps = Caps(8, 8, 4, 4, 0)
        world.pairs = [world.pair(i, caps) for i in range(2)]
        made = [world.memory(length=PAGES * PAGE) for _ in range(2)]
        world.at, world.regions = ([each[i] for each in made] for i in range(2))
        world.connect(path_mtu_bytes=mtu)
        world.device.write(world.at[0], bytes(i * 31 % 251 for i in range(PAGES * PAGE)))

    def pieces(self, i, stretches):
        return tuple(
            Piece(self.world.at[i] + begin, length, self.world.regions[i].lkey)
            for begin, length in stretches
        )

    def carry(self, opcode, mine, theirs):
        """One message between the stretches ``mine`` of pair 0 and ``theirs`` of pair 1."""
        world = self.world
        if opcode == calls.WR_SEND:
            world.device.post_recv(world.pairs[1], Receive(7, self.pieces(1, theirs)))
        remote = {}
        if opcode != calls.WR_SEND:
            remote = {"remote_address": world.at[1] + theirs[0][0], "rkey": world.regions[1].rkey}
        asked = Send(1, opcode, self.pieces(0, mine), calls.SIGNALED, **remote)
        world.device.post_send(world.pairs[0], asked)
        ended = world.statuses(0)
        return ended + (world.statuses(1) if opcode == calls.WR_SEND else [])

    def memory(self):
        return [self.world.device.read(at, PAGES * PAGE) for at in self.world.at]

    def translations(self):
        bill = self.world.device.bill()
        return bill.lookups, bill.misses, bill.pins, bill.messages, bill.bytes


@st.composite
def messages(draw):
    """An operation, its pieces at one side, and at the other as many bytes."""
    places = st.integers(0, 3 * PAGE) | st.sampled_from((0, PAGE, 8, PAGE - 1))
    lengths = st.integers(1, 9 * PAGE) | st.sampled_from((PAGE, 2 * PAGE, PAGE + 1, 64))
    many = draw(st.integers(1, 3))
    mine = [(draw(places) + 12 * i * PAGE, draw(lengths)) for i in range(many)]
    whole = sum(length for _, length in mine)
    opcode = draw(st.sampled_from((calls.WR_SEND, calls.WR_WRITE, calls.WR_READ)))
    first = draw(st.integers(1, whole)) if opcode == calls.WR_SEND else whole
    theirs = [(draw(places), first)]
    if first < whole:
        theirs.append((draw(st.integers(0, PAGE)) + 31 * PAGE, min(whole - first, 4 * PAGE)))
        theirs[0] = theirs[0][0], whole - theirs[1][1]
    return opcode, mine, theirs


@share(4)
@given(st.lists(messages(), min_size=1, max_size=4), st.sampled_from((LONG, SHORT)))
def test_bursts_move_the_same_bytes_with_the_same_translations(asked, mtu):
    found = []
    for burst in (False, True):
        sides = Sides(burst, mtu)
        ended = [sides.carry(*each) for each in asked]
        assert {status for each in ended for _, status in each} == {DONE}
        found.append((ended, sides.memory(), sides.translations()))
    assert found[0] == found[1]


@pytest.mark.parametrize("opcode", [calls.WR_SEND, calls.WR_WRITE, calls.WR_READ])
def test_bursts_take_nearly_the_time_of_their_packets_and_count_as_many(opcode):
    times, packets = [], []
    for burst in (False, True):
        sides = Sides(burst)
        whole = [(0, PAGES * PAGE)]
        begin = sides.world.device.now_ps
        assert sides.carry(opcode, whole, whole)[0] == (1, DONE)
        times.append(sides.world.device.now_ps - begin)
        packets.append(sides.world.device.counters()["port_xmit_packets"])
    assert times[1] == pytest.approx(times[0], rel=0.06)
    assert all(PAGES <= each <= PAGES + 4 for each in packets)  # with what acknowledges them


def test_only_what_lies_in_one_stretch_of_memory_moves_as_one():
    for pieces, numbers in (([(0, BURST)], 1), ([(0, BURST + PAGE)], 2), ([(0, 64), (64, 64)], 2)):
        sides = Sides(True)
        streams = sides.world.device.fabric.begun().machine.ports.pools.streams
        for _ in range(2):  # the second time no page is missed, of which each begins another
            sent = int(streams["sent"].sum())
            assert sides.carry(calls.WR_WRITE, pieces, [(0, 2 * BURST)])[0] == (1, DONE)
        assert int(streams["sent"].sum()) - sent == numbers


@pytest.mark.parametrize("design", ["utlb", "vmmc-interrupt"])
def test_other_nics_have_no_bursts(design):
    found = []
    for burst in (False, True):
        sides = Sides(burst, design=design)
        sides.carry(calls.WR_WRITE, [(0, 6 * PAGE)], [(0, 6 * PAGE)])
        found.append((sides.translations(), sides.world.device.now_ps))
    assert found[0] == found[1]


def measured(measure, bursts, **asked):
    question = ask(operation="write", iterations=20, bursts=bursts, **asked)
    return measure(question, ["verbs"], lambda _done, _total: None)


def test_between_two_nodes_bursts_have_the_bandwidth_of_packets_and_short_messages_their_time():
    sizes = "4096,65536,1048576"
    rates = [
        [each.average_mib_s for each in measured(bandwidths, bursts, sizes=sizes, depth=8).rows]
        for bursts in (False, True)
    ]
    for bursts in (False, True):
        [row] = measured(bandwidths, bursts, sizes="1048576").rows
        link = 4096 * NS_PER_BYTE + HOP_NS  # of each packet, headers aside
        assert row.costs.busy_ns["link"] > 20 * 256 * link
    assert rates[1] == pytest.approx(rates[0], rel=0.02)
    times = [
        [each.typical for each in measured(all_latencies, bursts, sizes="64,4096,65536").rows]
        for bursts in (False, True)
    ]
    assert times[1][:2] == times[0][:2]
    assert times[0][2] < times[1][2] < 1.1 * times[0][2]


def test_bursts_over_a_long_path_are_refused():
    with refused(StudyError, "--bursts", "--delay"):
        ask(operation="write", sizes="64", iterations=4, bursts=True, delay="1ms")
