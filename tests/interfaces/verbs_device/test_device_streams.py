"""Pairs that are connected anew for longer than there are streams: those that ended come again."""

import device_world as world
import msgspec
import pytest

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.drivers.simulate.ports.connections import QUIET_PS
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import QpState, Refused
from nicscope.interfaces.verbs_device.fabric import SIZE

OK = calls.SUCCESS
FEW = msgspec.structs.replace(SIZE, connections=8)  # of which a pair of this node takes two


def anew(two, **more):
    for pair in two.pairs:
        two.device.modify_qp(pair, QpState(calls.RESET))
    two.connect(**more)


@pytest.mark.parametrize("faults", [Faults(), Faults(seed=5, duplication=0.2, reordering=0.2)])
def test_streams_are_had_again_and_all_that_was_sent_is_counted(faults):
    two = world.World(size=FEW, faults=faults).connect(timeout=10, retry=7)
    sent = 0
    for number in range(20):
        two.receive(1, number)
        two.device.write(two.at[0], bytes([number + 1]) * 8)
        two.send(0, number, 8)
        two.to_other(100, calls.WR_WRITE, 8, 64)
        assert two.statuses(0, 2) == [(number, OK), (100, OK)]
        assert two.statuses(1) == [(number, OK)]
        assert two.device.read(two.at[1], 8) == bytes([number + 1]) * 8
        sent += 2
        anew(two, psns=(100, 200), timeout=10, retry=7)  # the same numbers each time
    assert two.device.bill().messages == sent
    assert two.device._ports.pools.streams["sent"].sum() >= sent


def test_who_has_ended_last_waits_until_all_is_quiet():
    two = world.World(size=msgspec.structs.replace(SIZE, connections=2)).connect()
    begin = two.device.now_ps
    anew(two)
    assert two.device.now_ps - begin >= QUIET_PS
    two.to_other(1, calls.WR_WRITE)
    assert two.statuses(0) == [(1, OK)]


def test_more_connections_than_streams_are_refused_and_nothing_else_is():
    two = world.World(size=FEW).connect()
    more = [two.pair(0) for _ in range(4)]
    for pair in more:
        two.device.modify_qp(pair, QpState(calls.INIT))
    for pair in more[:3]:
        two.device.modify_qp(pair, QpState(calls.RTR, dest_qpn=0x9999))
    with pytest.raises(Refused, match="ENOMEM"):
        two.device.modify_qp(more[3], QpState(calls.RTR, dest_qpn=0x9999))
    two.to_other(1, calls.WR_WRITE)
    assert two.statuses(0) == [(1, OK)]
    two.device.free_qp(more[0])
    two.device.modify_qp(more[3], QpState(calls.RTR, dest_qpn=0x9999))


def test_a_stream_whose_other_end_lives_is_not_had_again():
    """It sends again what was not acknowledged, and that is for nobody else."""
    two = world.World(size=FEW).connect(timeout=18)  # 1 s
    device, other = two.device, two.pairs[1]
    device.write(two.at[1], b"-" * 16)
    for number in range(6):
        for state in (calls.RESET, calls.INIT):
            device.modify_qp(other, QpState(state))
        elsewhere = QpState(calls.RTR, world.ALL, dest_qpn=0x9999, rq_psn=100, sq_psn=200)
        device.modify_qp(other, elsewhere)
        if number == 2:
            two.to_other(1, calls.WR_WRITE)
    for _ in range(8):
        device._spend(10**12)
    assert device.read(two.at[1], 16) == b"-" * 16
    assert two.statuses(0) == [(1, calls.RETRY_EXC_ERR)]
