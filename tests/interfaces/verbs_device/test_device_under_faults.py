"""Queue pairs over a bad network, hostile ones, and the same program under six designs."""

import hashlib
import random

import device_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import QpState

OK = calls.SUCCESS
BAD = Faults(seed=7, loss=0.03, duplication=0.03, reordering=0.03, corruption=0.03)
MANY, EACH = 24, 48


def talk(two, many=MANY):
    """Messages of all kinds from one pair to the other; what both ends know at the end."""
    device = two.device
    raw = random.Random(5).randbytes(many * EACH)
    device.write(two.at[0], raw)
    for number in range(many):
        two.receive(1, number, EACH, number * EACH)
    for number in range(many):
        if number % 4 == 3:
            pieces = (two.piece(0, EACH, number * EACH),)
            two.to_other(
                number, calls.WR_WRITE_IMM, offset=number * EACH, pieces=pieces, imm=number
            )
        else:
            two.send(0, number, EACH, offset=number * EACH)
    sent, came = two.ended(0, many), two.ended(1, many)
    there = device.read(two.at[1], many * EACH)
    assert [each.imm_data for each in came if each.wc_flags] == list(range(3, many, 4))
    return (
        [(each.wr_id, each.status) for each in sent],
        [(each.wr_id, each.status, each.byte_len) for each in came],
        there == raw,
    )


@pytest.mark.parametrize("seed", range(3))
def test_reliable_messages_come_once_in_order_whatever_the_network_does(seed):
    faults = Faults(seed=seed, loss=0.05, duplication=0.05, reordering=0.05, corruption=0.05)
    two = world.World(depth=MANY, faults=faults).connect(timeout=4, retry=7, rnr_retry=7)
    sent, came, is_right = talk(two)
    assert sent == [(number, OK) for number in range(MANY)]
    assert came == [(number, OK, EACH) for number in range(MANY)]
    assert is_right
    assert two.device._machine.ports.pools.streams["resent"].sum() > 0


def test_reads_and_words_are_done_once_over_a_bad_network():
    two = world.World(depth=MANY, faults=BAD).connect(timeout=4, retry=7)
    for number in range(MANY):
        two.to_other(number, calls.WR_FETCH_ADD, 8, compare_add=1)
    assert two.statuses(0, MANY) == [(number, OK) for number in range(MANY)]
    assert two.device.read(two.at[1], 8) == MANY.to_bytes(8, "little")


def test_unreliable_messages_are_whole_or_not_there():
    two = world.World(kind=calls.UC, depth=MANY, faults=BAD).connect()
    raw = random.Random(5).randbytes(MANY * EACH)
    two.device.write(two.at[0], raw)
    for number in range(MANY):
        two.receive(1, number, EACH, number * EACH)
    for number in range(MANY):
        two.send(0, number, EACH, offset=number * EACH)
    assert two.statuses(0, MANY) == [(number, OK) for number in range(MANY)]
    came = [each for _ in range(20) for each in two.device.poll(two.cqs[1], MANY)]
    assert 0 < len(came) < MANY
    sent = [raw[begin : begin + EACH] for begin in range(0, len(raw), EACH)]
    places = [sent.index(two.device.read(two.at[1] + each.wr_id * EACH, EACH)) for each in came]
    assert places == sorted(set(places))


def test_the_same_program_ends_at_the_same_time_twice():
    ends = []
    for _ in range(2):
        two = world.World(depth=MANY, faults=BAD).connect(timeout=4, retry=7)
        talk(two)
        state = two.device._machine.ports.table.tobytes()
        ends.append((two.device.now_ns, hashlib.sha256(state).hexdigest()))
    assert ends[0] == ends[1]


def test_forged_keys_reach_no_foreign_byte():
    """Addresses and keys by chance, near what there is: all that may be reached is the region."""
    two = world.World(depth=4)
    device, draw = two.device, random.Random(11)
    secret = device.map(2 * world.PAGE)
    device.write(secret, b"s" * 2 * world.PAGE)
    device.register(device.open_pd(), secret, 2 * world.PAGE, secret, world.ALL)
    key, at = two.regions[1].rkey, two.at[1]
    for number in range(60):
        for pair in two.pairs:
            device.modify_qp(pair, QpState(calls.RESET))
        two.connect()
        rkey = key + draw.choice((0, 0, 1, -1, 256, -256, 1 << 20, 1 << 40))
        address = draw.choice((at, secret)) + draw.randrange(-9, world.ROOM + 9)
        length = draw.choice((1, 8, 100, 5000))
        opcode = draw.choice((calls.WR_WRITE, calls.WR_READ))
        inside = rkey == key and at <= address and address + length <= at + world.ROOM
        device.write(two.at[0], b"f" * world.ROOM)
        two.to_other(number, opcode, length, remote_address=address, rkey=rkey)
        assert two.statuses(0) == [(number, OK if inside else calls.REM_ACCESS_ERR)]
        if opcode == calls.WR_READ and not inside:
            assert device.read(two.at[0], world.ROOM) == b"f" * world.ROOM
    assert device.read(secret, 2 * world.PAGE) == b"s" * 2 * world.PAGE


def test_reads_into_dropped_pages_arrive_over_a_bad_network():
    access = world.ALL | calls.ON_DEMAND
    two = world.World(access=access, faults=Faults(seed=3, loss=0.05)).connect(timeout=14, retry=7)
    for number in range(20):
        for at, byte in zip(two.at, (b"l", b"r"), strict=True):
            two.device.drop(at, world.PAGE)
            assert two.device.read(at, 1) == bytes(1)
            two.device.write(at, byte * world.PAGE)
        two.to_other(number, calls.WR_READ, 1000)
        assert two.statuses(0) == [(number, OK)]
        assert two.device.read(two.at[0], 1001) == b"r" * 1000 + b"l"
    assert two.device._ports.nodes[0]["stale"] == 0
