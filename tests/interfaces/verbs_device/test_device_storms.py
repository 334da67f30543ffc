"""Storms of registration under traffic: no byte comes to or from memory that is nobody's then.

Areas of memory are registered, moved to, dropped and deregistered while requests that name them are
under way, over a network that loses packets.  What an area holds when it is given back is what it
holds until it is registered again.
"""

import random

import device_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Piece, QpState

AREAS, SIZE = 5, 2 * world.PAGE
PATIENT = {"timeout": 8, "retry": 7, "rnr_retry": 7}
STATUSES = {calls.SUCCESS, calls.LOC_PROT_ERR, calls.WR_FLUSH_ERR} | {
    *(calls.REM_INV_REQ_ERR, calls.REM_ACCESS_ERR, calls.REM_OP_ERR, calls.RETRY_EXC_ERR)
}
STEPS = ("register", "deregister", "deregister", "move", "drop", "poll", *["post"] * 5)


class Area:
    """Memory, how it is registered, if it is, and what it held when it was so last."""

    def __init__(self, device, number):
        self.at = device.map(SIZE)
        device.write(self.at, bytes([number + 1]) * SIZE)
        self.region, self.kept = None, device.read(self.at, SIZE)


class Storm:
    def __init__(self, seed, design, loss, on_demand):
        self.draw = random.Random(seed)
        self.access = world.ALL | calls.ON_DEMAND * on_demand
        faults = Faults(seed=seed, loss=loss, duplication=loss / 2, reordering=loss / 2)
        self.two = world.World(design, depth=16, faults=faults, access=self.access)
        self.device, self.on_demand, self.posted = self.two.device, on_demand, 0
        self.two.connect(**PATIENT)
        self.areas = [Area(self.device, number) for number in range(AREAS)]

    def one(self):
        area = self.draw.choice(self.areas)
        getattr(self, self.draw.choice(STEPS))(area)
        for each in self.areas:
            if each.region is None:
                assert self.device.read(each.at, SIZE) == each.kept
        if calls.ERR in self.two.states():
            for i in (0, 1):
                self.poll(None, i)
            for pair in self.two.pairs:
                self.device.modify_qp(pair, QpState(calls.RESET))
            self.two.connect(**PATIENT)

    def register(self, area):
        if area.region is None:
            pd, at = self.two.pd, area.at
            area.region = self.device.register(pd, at, SIZE, at, self.access)

    def give_up(self, area):
        area.region, area.kept = None, self.device.read(area.at, SIZE)

    def deregister(self, area):
        if area.region is not None:
            self.device.deregister(area.region.handle)
            self.give_up(area)

    def move(self, area):
        other = self.draw.choice(self.areas)
        if area.region is not None and other.region is None:
            self.device.reregister(area.region.handle, address=other.at, length=SIZE)
            other.region = area.region
            self.give_up(area)

    def drop(self, area):
        if self.on_demand:
            self.device.drop(area.at, world.PAGE)
            if area.region is None:
                self.give_up(area)

    def poll(self, _, i=0):
        assert {each.status for each in self.device.poll(self.two.cqs[i], 64)} <= STATUSES

    def post(self, area):
        if area.region is None:
            return
        self.posted += 1
        draw, two = self.draw, self.two
        opcode = draw.choice((calls.WR_WRITE, calls.WR_READ, calls.WR_SEND, calls.WR_FETCH_ADD))
        length = 8 if opcode == calls.WR_FETCH_ADD else draw.choice((1, 100, 5000, SIZE))
        piece = Piece(area.at, length, area.region.lkey)
        if opcode == calls.WR_SEND:
            two.receive(1, self.posted, SIZE)
            two.send(0, self.posted, pieces=(piece,))
        elif draw.random() < 0.5:
            two.to_other(self.posted, opcode, pieces=(piece,))
        else:
            key = area.region.rkey
            two.send(0, self.posted, length, opcode, remote_address=area.at, rkey=key)


def blow(seed, design, loss, on_demand, steps):
    storm = Storm(seed, design, loss, on_demand)
    for _ in range(steps):
        storm.one()
    assert storm.device._ports.nodes[0]["stale"] == 0
    return storm.posted


@pytest.mark.parametrize(
    ("seed", "design", "loss", "on_demand"),
    [
        (70, "vmmc-interrupt", 0.01, False),
        (3, "vmmc-interrupt", 0.05, True),
        (1, "unet-mm-pca200", 0, True),
        (42, "utlb", 0, False),
    ],
)
def test_a_gust_of_deregistration_under_traffic(seed, design, loss, on_demand):
    assert blow(seed, design, loss, on_demand, 40)


DESIGNS = [("vmmc-interrupt", False), ("vmmc-interrupt", True), ("via-static", False)]
DESIGNS += [("utlb", False), ("utlb-process", False), ("unet-mm-pca200", True)]


@pytest.mark.compiled
@pytest.mark.parametrize(("design", "on_demand"), DESIGNS)
@pytest.mark.parametrize("loss", [0, 0.01, 0.05])
def test_a_storm_of_deregistration_under_traffic(design, loss, on_demand):
    assert sum(blow(seed, design, loss, on_demand, 60) for seed in range(4)) > 20


@pytest.mark.parametrize("opcode", [calls.WR_WRITE, calls.WR_READ])
@pytest.mark.parametrize("how", ["closed", "moved"])
def test_what_comes_late_for_a_region_that_has_gone_is_not_in_its_memory(opcode, how):
    """Wherever in the transfer that happens: a step later each time."""
    seen = set()
    for steps in range(2, 42, 8):
        two = world.World().connect(path_mtu_bytes=1024)
        device, (at, region) = two.device, two.memory()
        other = device.map(world.ROOM)
        device.write(two.at[0], b"n" * world.ROOM)
        two.device.write(two.at[1], b"n" * world.ROOM)
        if opcode == calls.WR_WRITE:
            two.to_other(1, opcode, world.ROOM, remote_address=at, rkey=region.rkey)
        else:
            two.to_other(1, opcode, pieces=(Piece(at, world.ROOM, region.lkey),))
        device._flush_posted()
        device._spend(steps * 10**6)
        if how == "closed":
            device.deregister(region.handle)
        else:
            device.reregister(region.handle, address=other, length=world.ROOM)
        left = device.read(at, world.ROOM)
        two.ended(0)
        assert device.read(at, world.ROOM) == left
        seen.add(left.count(b"n"))
    assert seen & {*range(1, world.ROOM)}  # it was amid the transfer, too


@pytest.mark.parametrize("how", ["closed", "moved", "kept"])
def test_what_is_sent_again_comes_from_a_region_that_is_still_there(how):
    """The first time it found no receive; by then the memory is its owner's alone."""
    two = world.World().connect(rnr_retry=7, min_rnr_timer=14)
    device, (at, region) = two.device, two.memory()
    other = device.map(world.ROOM)
    device.write(at, b"public" * 4)
    two.send(0, 1, pieces=(Piece(at, 24, region.lkey),))
    two.send(0, 2, 8)
    for _ in range(3):
        assert device.poll(two.cqs[0], 1) == []
    if how == "closed":
        device.deregister(region.handle)
    elif how == "moved":
        device.reregister(region.handle, address=other, length=world.ROOM)
    if how != "kept":
        device.write(at, b"secret" * 4)
    two.receive(1, 70)
    if how == "kept":
        assert two.statuses(0) == [(1, calls.SUCCESS)]
        assert device.read(two.at[1], 24) == b"public" * 4
        return
    assert two.statuses(0, 2) == [(1, calls.LOC_PROT_ERR), (2, calls.WR_FLUSH_ERR)]
    assert two.states() == [calls.ERR, calls.RTS]
    assert device.read(two.at[1], 24) == bytes(24)


@pytest.mark.parametrize(
    ("opcode", "status"),
    [
        (calls.WR_READ, calls.REM_ACCESS_ERR),
        (calls.WR_WRITE, calls.LOC_PROT_ERR),
        (calls.WR_SEND, calls.LOC_PROT_ERR),
    ],
)
def test_a_message_under_way_ends_with_the_region_that_it_comes_from(opcode, status):
    seen = set()
    for steps in range(0, 24, 4):
        two = world.World().connect(path_mtu_bytes=1024)
        device, (at, region) = two.device, two.memory()
        device.write(at, b"p" * world.ROOM)
        two.receive(1, 70, world.ROOM)
        if opcode == calls.WR_READ:
            two.to_other(1, opcode, world.ROOM, remote_address=at, rkey=region.rkey)
        else:
            names = {"pieces": (Piece(at, world.ROOM, region.lkey),)}
            two.to_other(1, opcode, **names)
        device._flush_posted()
        device._spend(steps * 10**6)
        device.deregister(region.handle)
        device.write(at, b"s" * world.ROOM)
        seen.add(two.statuses(0)[0])
        assert b"s" not in device.read(two.at[0], world.ROOM) + device.read(two.at[1], world.ROOM)
    assert (1, status) in seen <= {(1, calls.SUCCESS), (1, status)}
