"""Memory of a device's program: registered, windowed, its own, paged on demand, dropped."""

import device_world as world
import pytest

from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Bind, Piece, Refused

OK = calls.SUCCESS
ON_DEMAND = world.ALL | calls.ON_DEMAND


def test_bytes_go_over_many_pages_and_pieces_each_way():
    two = world.World(access=world.ALL).connect(path_mtu_bytes=1024)
    raw = bytes(number * 7 & 255 for number in range(7000))
    two.device.write(two.at[0] + 100, raw)
    pieces = (two.piece(0, 3000, 100), two.piece(0, 4000, 3100))
    two.to_other(1, calls.WR_WRITE, pieces=pieces, remote_address=two.at[1] + 777)
    assert two.statuses(0) == [(1, OK)]
    assert two.device.read(two.at[1] + 777, 7000) == raw
    two.device.write(two.at[0], bytes(world.ROOM))
    two.to_other(2, calls.WR_READ, pieces=pieces, remote_address=two.at[1] + 777)
    assert two.statuses(0) == [(2, OK)]
    assert two.device.read(two.at[0] + 100, 7000) == raw


@pytest.mark.parametrize("opcode", [calls.WR_WRITE, calls.WR_READ, calls.WR_SEND])
def test_nothing_at_all_needs_no_key(opcode):
    two = world.World().connect()
    two.receive(1, 7, pieces=())
    two.to_other(1, opcode, pieces=(), rkey=0)
    assert two.statuses(0) == [(1, OK)]


def test_a_write_with_a_word_takes_a_receive():
    two = world.World().connect()
    two.device.write(two.at[0], b"stored")
    two.receive(1, 7)
    two.to_other(1, calls.WR_WRITE_IMM, 6, 1000, imm=77)
    assert two.statuses(0) == [(1, OK)]
    (came,) = two.ended(1)
    assert (came.opcode, came.byte_len, came.imm_data) == (calls.WC_RECV_IMM, 6, 77)
    assert two.device.read(two.at[1] + 1000, 6) == b"stored"


def test_words_are_changed_at_one_stroke():
    two = world.World().connect()
    two.device.write(two.at[1], (5).to_bytes(8, "little"))
    two.to_other(1, calls.WR_FETCH_ADD, 8, compare_add=2**64 - 2)
    two.to_other(2, calls.WR_CMP_SWP, 8, compare_add=3, swap=2**63)
    two.to_other(3, calls.WR_CMP_SWP, 8, compare_add=3, swap=1)
    assert two.statuses(0, 3) == [(1, OK), (2, OK), (3, OK)]
    assert two.device.read(two.at[1], 8) == (2**63).to_bytes(8, "little")
    assert two.device.read(two.at[0], 8) == (2**63).to_bytes(8, "little")


def test_what_is_given_by_value_may_change_at_once():
    two = world.World().connect()
    two.to_other(1, calls.WR_WRITE, pieces=(), inline=b"as it was")
    two.to_other(2, calls.WR_ATOMIC_WRITE, offset=16, pieces=(), inline=b"8 bytes.")
    assert two.statuses(0, 2) == [(1, OK), (2, OK)]
    assert two.device.read(two.at[1], 24) == b"as it was" + bytes(7) + b"8 bytes."


def window_of(two, address, region):
    """The key of a window of 50 bytes there."""
    window = two.device.alloc_mw(two.pd, 1)
    key = window.rkey + 1
    bind = Bind(window.handle, region.handle, address, 50, calls.REMOTE_WRITE, key)
    two.send(1, 1, opcode=calls.WR_BIND, pieces=(), bind=bind)
    assert two.statuses(1) == [(1, OK)]
    return key


@pytest.mark.parametrize(
    ("off", "status"), [(-1, calls.REM_ACCESS_ERR), (0, OK), (1, calls.REM_ACCESS_ERR)]
)
def test_a_window_is_as_wide_as_was_bound(off, status):
    two = world.World().connect()
    address, region = two.memory(calls.LOCAL_WRITE | calls.MW_BIND)
    key = window_of(two, address + 100, region)
    two.to_other(2, calls.WR_WRITE, 50, remote_address=address + 100 + off, rkey=key)
    assert two.statuses(0) == [(2, status)]


def test_a_window_goes_with_its_region():
    two = world.World().connect()
    address, region = two.memory(calls.LOCAL_WRITE | calls.MW_BIND)
    key = window_of(two, address, region)
    two.device.deregister(region.handle)
    two.to_other(2, calls.WR_WRITE, 8, remote_address=address, rkey=key)
    assert two.statuses(0) == [(2, calls.REM_ACCESS_ERR)]


def test_memory_of_the_device_is_named_from_zero():
    two = world.World().connect()
    memory = two.device.alloc_dm(8192)
    region = two.device.register(two.pd, 0, 8192, 0, world.ALL, dm=memory)
    two.device.write(two.at[0], b"for the device")
    two.to_other(1, calls.WR_WRITE, 14, remote_address=4096, rkey=region.rkey)
    assert two.statuses(0) == [(1, OK)]
    assert two.device.dm_read(memory, 4096, 16) == b"for the device\0\0"
    two.receive(1, 7)
    two.send(0, 2, pieces=(Piece(4096, 14, region.lkey),))
    assert two.statuses(0) == [(2, OK)]
    assert two.device.read(two.at[1], 14) == b"for the device"
    for wrong in ((8190, 4), (2, 4), (0, 2)):
        with pytest.raises(Refused):
            two.device.dm_read(memory, *wrong)


def test_memory_on_demand_comes_when_it_is_used_and_is_zeros_when_dropped():
    two = world.World(access=ON_DEMAND).connect()
    device = two.device
    assert device.bill().pins == 0
    device.write(two.at[0], b"x" * world.ROOM)
    two.to_other(1, calls.WR_WRITE, world.ROOM)
    assert two.statuses(0) == [(1, OK)]
    assert device.read(two.at[1], world.ROOM) == b"x" * world.ROOM
    assert device.bill().pins == 4
    device.drop(two.at[0], world.ROOM)
    device.drop(two.at[1], world.PAGE)
    assert device.read(two.at[1], world.ROOM) == bytes(world.PAGE) + b"x" * world.PAGE
    two.to_other(2, calls.WR_WRITE, world.ROOM)
    assert two.statuses(0) == [(2, OK)]
    assert device.read(two.at[1], world.ROOM) == bytes(world.ROOM)
    assert two.device._ports.nodes[0]["stale"] == 0


def test_memory_dropped_while_it_is_on_its_way_is_sent_from_one_page_or_the_other():
    two = world.World(access=ON_DEMAND).connect()
    two.device.write(two.at[0], b"x" * world.ROOM)
    two.to_other(1, calls.WR_WRITE, world.ROOM)
    two.device.drop(two.at[0], world.ROOM)
    assert two.statuses(0) == [(1, OK)]
    found = two.device.read(two.at[1], world.ROOM)
    assert set(found) <= set(b"x\0")
    assert two.device._ports.nodes[0]["stale"] == 0


def test_a_region_keeps_pages_that_the_program_has_given_back():
    two = world.World().connect()
    two.device.write(two.at[0], b"still here")
    two.device.unmap(two.at[0], world.ROOM)
    with pytest.raises(Refused, match="EFAULT"):
        two.device.read(two.at[0], 1)
    two.to_other(1, calls.WR_WRITE, 10)
    assert two.statuses(0) == [(1, OK)]
    assert two.device.read(two.at[1], 10) == b"still here"
    two.device.deregister(two.regions[0].handle)
    assert not two.device.mapped(two.at[0], 1)


@pytest.mark.parametrize("opcode", [calls.WR_SEND, calls.WR_WRITE, calls.WR_READ])
def test_memory_on_demand_that_the_program_has_given_back_is_nobodys_to_send(opcode):
    two = world.World(access=ON_DEMAND).connect()
    two.receive(1, 7)
    two.device.unmap(two.at[0], world.ROOM)
    if opcode == calls.WR_SEND:
        two.send(0, 5)
    else:
        two.to_other(5, opcode, 8)
    assert two.statuses(0) == [(5, calls.LOC_PROT_ERR)]
    assert two.states() == [calls.ERR, calls.RTS]


def test_a_region_registered_anew_keeps_its_keys():
    two = world.World().connect()
    fresh = two.device.map(world.ROOM)
    two.device.reregister(two.regions[1].handle, address=fresh, length=world.ROOM)
    two.to_other(1, calls.WR_WRITE, 8, remote_address=fresh)
    assert two.statuses(0) == [(1, OK)]
    two.to_other(2, calls.WR_WRITE, 8)
    assert two.statuses(0) == [(2, calls.REM_ACCESS_ERR)]


def test_nothing_is_registered_in_a_domain_that_is_not_there():
    two = world.World()
    with pytest.raises(Refused, match="EINVAL"):
        two.memory(pd=99)


def test_a_static_design_pages_nothing_on_demand():
    two = world.World("via-static")
    assert not two.device.facts.on_demand
    with pytest.raises(Refused, match="Operation not supported"):
        two.memory(ON_DEMAND)
