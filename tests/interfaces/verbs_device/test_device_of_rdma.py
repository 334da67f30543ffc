"""A device whose NIC caches tables of regions and pages that are in host memory."""

import errno

import device_world as world
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import load_design, with_values
from nicscope.errors import DesignError, PlatformError
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Piece, Refused
from nicscope.interfaces.verbs_device.device import Device
from oracle.replay import replay
from oracle.verbs_rnic import TwinNic
from suite import share

PAGE = world.PAGE
BYTES = 16
SMALL = {"entries": 8, "ways": 2, "line": 2, "mpt_entries": 2, "mpt_ways": 1}
ALONE = {"l1_entries": None, "l1_shared": False, "mpt_l1_entries": None}
SECOND = {
    "none": {},
    "of pages": {"l1_entries": 16, "l1_ways": 4},
    "of both": {"l1_entries": 16, "l1_ways": 2, "mpt_l1_entries": 4, "mpt_l1_ways": 4},
    "shared": {"l1_entries": 16, "l1_ways": 4, "l1_shared": True},
}
KINDS = {"send": calls.WR_SEND, "write": calls.WR_WRITE, "read": calls.WR_READ}
A_WHILE_PS = 2_000_000_000  # in which every packet is acknowledged


def of(**values):
    return with_values(load_design("rnic"), SMALL | values)


class Twins:
    """A device and what its NIC must count, which do the same things."""

    def __init__(self, **values):
        design = of(**values)
        self.nic = TwinNic({"mtu": None, **ALONE, **SMALL, **values})
        self.world = world.World(design).connect()
        self.device = self.world.device
        self.memory = list(zip(self.world.at, self.world.regions, [2, 2], strict=True))
        self.done = 0

    def register(self, pages):
        """Fresh memory of so many pages."""
        address, region = self.world.memory(length=pages * PAGE)
        self.memory.append((address, region, pages))

    def deregister(self, which):
        """A region is taken back that no packet needs any more."""
        address, region, pages = self.memory.pop(which)
        self.device._spend(A_WHILE_PS)
        self.device.deregister(region.handle)
        self.nic.forget(region.handle, range(address // PAGE, address // PAGE + pages))

    def place(self, which, page):
        """A region, and the address of one of its pages."""
        address, region, pages = self.memory[which % len(self.memory)]
        return region, address + page % pages * PAGE

    def move(self, kind, own, its):
        """Some bytes from one region to another."""
        self.done += 1
        mine, at = self.place(*own)
        theirs, beyond = self.place(*its)
        fresh = bytes((self.done + place) % 251 for place in range(BYTES))
        source, target = (at, beyond) if kind != "read" else (beyond, at)
        self.device.write(source, fresh)
        piece = Piece(at, BYTES, mine.lkey)
        ends = [(mine, at), (theirs, beyond)]
        if kind == "send":
            into = Piece(beyond, BYTES, theirs.lkey)
            self.world.receive(1, self.done, pieces=(into,))
            self.world.send(0, self.done, pieces=(piece,))
        else:
            more = {"remote_address": beyond, "rkey": theirs.rkey, "pieces": (piece,)}
            self.world.to_other(self.done, KINDS[kind], **more)
        if kind == "read":
            ends.reverse()  # the other side's is read, then the answer is stored
        assert self.world.statuses(0) == [(self.done, calls.SUCCESS)]
        if kind == "send":
            assert self.world.statuses(1) == [(self.done, calls.SUCCESS)]
        assert self.device.read(target, BYTES) == fresh
        for region, address in ends:
            self.nic.use(region.handle, address // PAGE)

    def counts(self):
        """Of the device, whatever the twin counts too."""
        found = self.device.fabric.counts(0)
        assert found["lookups"] == found["mtt_l0_hits"] + found["mtt_l0_misses"]
        assert found["mpt_lookups"] == found["mpt_l0_hits"] + found["mpt_l0_misses"]
        assert found["further_ways"] == found["interrupts"] == found["rejected"] == 0
        return {name: found[name] for name in COUNTED}


COUNTED = [
    *(f"{table}_l{level}_{what}" for table in ("mtt", "mpt") for level in (0, 1)
      for what in ("hits", "misses")),
    *("lookups", "ni_misses", "entries_fetched", "icm_fetches", "entries_invalidated"),
]  # fmt: skip
PLACES = st.tuples(st.integers(0, 5), st.integers(0, 4))
STEPS = st.one_of(
    st.tuples(st.sampled_from(list(KINDS)), PLACES, PLACES),
    st.tuples(st.just("register"), st.integers(1, 5)),
    st.tuples(st.just("deregister"), st.integers(0, 5)),
)


@pytest.mark.parametrize("levels", SECOND)
@share(0.8)
@given(steps=st.lists(STEPS, max_size=12))
def test_what_the_nic_looks_up_is_what_its_twin_does(levels, steps):
    twins = Twins(**SECOND[levels])
    for what, *how in steps:
        if what == "register":
            twins.register(*how)
        elif what != "deregister":
            twins.move(what, *how)
        elif len(twins.memory) > 1:
            twins.deregister(how[0] % len(twins.memory))
    assert twins.counts() == {name: twins.nic.counts[name] for name in COUNTED}


@share(0.5)
@given(
    pairs=st.lists(st.tuples(PLACES, PLACES), max_size=20),
    levels=st.sampled_from(list(SECOND)),
)
def test_it_counts_what_a_replay_of_its_requests_counts(pairs, levels):
    """Regions in place of processes, none of which has a line with another.

    The sets are at most two, in which the regions with rows 2 to 5 are as processes 0 to 3.
    """
    values = SECOND[levels]
    twins = Twins(**values)
    del twins.memory[0]
    for pages in (4, 2, 2):
        twins.register(pages)
    rows = []
    for own, its in [((0, 0), (1, 0)), ((2, 0), (3, 0)), *pairs]:  # first each, in their order
        twins.move("send", own, its)
        for which, page in (own, its):
            _, address = twins.place(which, page)
            rows.append((0, 0, which % 4, "send", address, BYTES))
    expected = replay(rows, {"scheme": "rnic", **SMALL, **values})["total"]
    found = twins.counts()
    assert found == {name: expected[name] for name in COUNTED}


def fetches(device):
    return device.fabric.counts(0)["icm_fetches"]


def test_each_entry_that_is_read_makes_a_message_that_much_later():
    """The first message misses a line and a region at either end, the second nothing."""
    two = world.World(of(mpt_entries=16)).connect()
    took, read = [], []
    for number in range(3):
        begun, before = two.device.now_ps, fetches(two.device)
        two.receive(1, number, BYTES)
        two.send(0, number, BYTES)
        assert two.statuses(1) == [(number, calls.SUCCESS)]
        assert two.statuses(0) == [(number, calls.SUCCESS)]
        took.append(two.device.now_ps - begun)
        read.append(fetches(two.device) - before)
    assert read == [4, 0, 0]
    each = int(two.device._ports.costs[0]["fetch"])
    assert each == 430_000  # the middle of icm_fetch
    assert took[0] - took[1] == 4 * each
    assert took[1] == took[2]


@pytest.mark.parametrize(
    ("mtu", "looked_up"), [(None, 2), (4096, 6), (1024, 2 * 10), (1000, 2 * 10)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_each_packet_of_a_message_looks_its_region_up(kind, mtu, looked_up):
    length = 10_000 - 10  # three packets of 4096
    two = world.World(of(mtu=mtu), access=world.ALL).connect()
    ends = [two.memory(length=3 * PAGE) for _ in range(2)]
    piece, other = (Piece(at, length, region.lkey) for at, region in ends)
    raw = bytes(place % 251 for place in range(length))
    two.device.write(ends[kind == "read"][0], raw)
    if kind == "send":
        two.receive(1, 1, pieces=(other,))
        two.send(0, 1, pieces=(piece,))
    else:
        more = {"remote_address": ends[1][0], "rkey": ends[1][1].rkey}
        two.to_other(1, KINDS[kind], pieces=(piece,), **more)
    assert two.statuses(0) == [(1, calls.SUCCESS)]
    assert two.device.read(ends[kind != "read"][0], length) == raw
    counts = two.device.fabric.counts(0)
    assert counts["mpt_lookups"] == looked_up
    assert counts["lookups"] >= 2 * 3


def test_what_is_registered_again_is_where_it_is_then():
    """Pages are given out again, in other frames: nothing goes by what caches knew of the old."""
    two = world.World(of()).connect()
    device, page = two.device, PAGE
    old, region = two.memory(length=page)
    between = device.map(8 * page)
    device.write(between, bytes(8 * page))
    for number in range(4):
        two.to_other(number, calls.WR_WRITE, remote_address=old, rkey=region.rkey)
        assert two.statuses(0) == [(number, calls.SUCCESS)]
        device._spend(A_WHILE_PS)
        device.deregister(region.handle)
        device.drop(old, page)
        device.write(between + number * page, b"b" * page)  # has the frame, maybe
        region = device.register(two.pd, old, page, old, world.ALL)
        device.write(two.at[0], bytes([number]) * BYTES)
        two.to_other(number, calls.WR_WRITE, remote_address=old, rkey=region.rkey)
        assert two.statuses(0) == [(number, calls.SUCCESS)]
        assert device.read(old, BYTES) == bytes([number]) * BYTES
    assert device.read(between, 4 * page) == b"b" * 4 * page
    assert device.fabric.counts(0)["entries_invalidated"] >= 2 * 4
    assert int(device._ports.nodes[0]["stale"]) == 0


def test_a_page_that_is_registered_beside_a_cached_one_is_in_its_line():
    two = world.World(of(line=4, entries=16)).connect()
    device = two.device
    while device.map(PAGE) // PAGE % 4 != 3:
        pass
    first = device.map(2 * PAGE)
    regions = [device.register(two.pd, first, PAGE, first, world.ALL)]
    two.to_other(0, calls.WR_WRITE, remote_address=first, rkey=regions[0].rkey)
    assert two.statuses(0) == [(0, calls.SUCCESS)]
    second = first + PAGE
    regions.append(device.register(two.pd, second, PAGE, second, world.ALL))
    missed = device.fabric.counts(0)["mtt_l0_misses"]
    device.write(two.at[0], b"x" * BYTES)
    two.to_other(1, calls.WR_WRITE, remote_address=second, rkey=regions[1].rkey)
    assert two.statuses(0) == [(1, calls.SUCCESS)]
    assert device.read(second, BYTES) == b"x" * BYTES
    assert device.fabric.counts(0)["mtt_l0_misses"] == missed


def test_what_is_not_registered_is_no_ones_to_reach():
    two = world.World(of()).connect()
    region = two.regions[1]
    two.device.deregister(region.handle)
    two.to_other(1, calls.WR_WRITE)
    [(_, status)] = two.statuses(0)
    assert status == calls.REM_ACCESS_ERR


def test_memory_is_pinned_when_it_is_registered_and_not_on_demand():
    device = Device("rnic")
    assert not device.facts.on_demand
    pd, address = device.open_pd(), device.map(PAGE)
    with pytest.raises(Refused) as error:
        device.register(pd, address, PAGE, address, calls.ON_DEMAND)
    assert error.value.errno == errno.EOPNOTSUPP
    region = device.register(pd, address, PAGE, address, 0)
    assert device.bill().pins == 1
    device.deregister(region.handle)
    assert device.bill().unpins == 1


@pytest.mark.parametrize(
    ("values", "platform", "error", "says"),
    [
        ({"registered": "1MiB"}, None, DesignError, "a program registers what it uses"),
        ({"indirect": "1MiB"}, None, DesignError, "looked up in replay alone so far"),
        ({}, "utlb-prototype", PlatformError, "states no icm_fetch: programs over rnic"),
    ],
)
def test_what_does_not_run_says_why(values, platform, error, says):
    with pytest.raises(error, match=says):
        Device(of(**values), platform=platform)
