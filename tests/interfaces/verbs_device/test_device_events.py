"""Events and time: what a program that waits is told, and how far virtual time goes for it."""

import gc

import device_world as world
import msgspec
import pytest

from nicscope.errors import DesignError
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import QpState, Refused
from nicscope.interfaces.verbs_device.fabric import SIZE
from nicscope.interfaces.verbs_device.queues import EMPTY_POLL_PS

OK = calls.SUCCESS


def test_an_armed_queue_tells_once_of_what_comes_behind():
    two = world.World().connect()
    two.to_other(1, calls.WR_WRITE)
    assert two.statuses(0) == [(1, OK)]
    two.device.arm(two.cqs[0], False)
    assert two.device.next_cq_event([two.cqs[0]]) is None  # nothing is under way
    two.to_other(2, calls.WR_WRITE)
    assert two.device.next_cq_event(two.cqs) == two.cqs[0]
    assert two.device.next_cq_event(two.cqs) is None
    assert two.statuses(0) == [(2, OK)]


@pytest.mark.parametrize("flags", [calls.SIGNALED, calls.SIGNALED | calls.SOLICITED])
def test_who_waits_for_what_is_solicited_hears_of_nothing_else(flags):
    two = world.World().connect()
    two.receive(1, 7)
    two.device.arm(two.cqs[1], True)
    two.send(0, 1, flags=flags)
    found = two.device.next_cq_event([two.cqs[1]])
    assert found == (two.cqs[1] if flags & calls.SOLICITED else None)


def test_who_waits_for_any_completion_is_not_made_to_wait_for_a_solicited_one():
    two = world.World().connect()
    two.receive(1, 7)
    two.device.arm(two.cqs[1], False)
    two.device.arm(two.cqs[1], True)
    two.send(0, 1)
    assert two.device.next_cq_event([two.cqs[1]]) == two.cqs[1]


def test_an_error_is_urgent():
    two = world.World().connect()
    two.device.arm(two.cqs[0], True)
    two.to_other(1, calls.WR_WRITE, rkey=0)
    assert two.device.next_cq_event([two.cqs[0]]) == two.cqs[0]


def test_an_empty_poll_goes_to_the_next_completion_of_any_queue_and_no_further():
    two = world.World().connect()
    two.receive(1, 7, 4096)
    two.send(0, 1, 4000)
    begin = two.device.now_ns
    assert two.device.poll(two.cqs[0], 1) == []  # the receive has ended first
    between = two.device.now_ns
    assert [each.wr_id for each in two.device.poll(two.cqs[1], 1)] == [7]
    assert two.statuses(0) == [(1, OK)]
    assert begin < between < begin + EMPTY_POLL_PS // 1000


def test_an_empty_poll_of_an_idle_device_takes_no_more_than_a_millisecond():
    two = world.World()
    begin = two.device.now_ns
    assert two.device.poll(two.cqs[0], 1) == []
    assert two.device.now_ns - begin <= EMPTY_POLL_PS // 1000 + 1000


def test_what_waits_for_what_never_comes_is_told_so():
    two = world.World().connect()
    assert two.event() is None


def test_calls_of_the_system_take_their_time():
    two = world.World()
    for call in (two.device.open_pd, lambda: two.device.make_cq(8), two.memory):
        begin = two.device.now_ns
        call()
        assert two.device.now_ns > begin


def test_more_is_posted_than_the_nic_has_places_for():
    size = msgspec.structs.replace(SIZE, ring=8, receives=8)
    two = world.World(depth=60, size=size).connect(rnr_retry=7)
    for number in range(30):
        two.receive(1, 100 + number)
    for number in range(30):
        two.send(0, number, 1)
    assert two.statuses(1, 30) == [(100 + number, OK) for number in range(30)]
    assert two.statuses(0, 30) == [(number, OK) for number in range(30)]


@pytest.mark.parametrize("many", [1, 4, 24])
def test_requests_that_find_no_receive_go_again_after_its_timer_not_their_time_out(many):
    """0.64 ms as the receiver asks (``min_rnr_timer`` 12), not 67 ms (``timeout`` 14).

    Of several requests some leave after the first has been turned away.
    """
    two = world.World("rnic", depth=32).connect(rnr_retry=7, min_rnr_timer=12, timeout=14)
    for number in range(many):
        two.send(0, number)
    assert two.device.poll(two.cqs[0], many) == []
    for number in range(many):
        two.receive(1, number)

    ended = two.ended(0, many)

    assert [each.status for each in ended] == [OK] * many
    waits = two.device.counters()["rnr_nak_retry_err"]
    assert 640_000 * waits < ended[-1].time_ns < 640_000 * waits + 200_000


def test_a_pair_that_is_collected_amid_an_operation_is_closed_behind_it():
    two = world.World(depth=16).connect()
    closed = []

    class Owner:
        def __init__(self):
            self.itself = self
            self.pair = two.pair(0)

        def __del__(self):
            closed.append(self.pair)
            two.device.free_qp(self.pair)

    kept = gc.get_threshold()
    gc.set_threshold(1, 1)
    try:
        for number in range(10):
            Owner()
            two.to_other(number, calls.WR_WRITE)
            two.receive(1, number)
            assert two.statuses(0) == [(number, OK)]
    finally:
        gc.set_threshold(*kept)
    gc.collect()
    assert len(set(closed)) == 10


def test_what_is_in_use_is_not_given_back():
    two = world.World().connect()
    for call, handle in ((two.device.close_pd, two.pd), (two.device.free_cq, two.cqs[0])):
        with pytest.raises(Refused, match="EBUSY"):
            call(handle)
    for pair in two.pairs:
        two.device.free_qp(pair)
    for region in two.regions:
        two.device.deregister(region.handle)
    two.device.close_pd(two.pd)
    for cq in two.cqs:
        two.device.free_cq(cq)


def test_pairs_are_made_and_given_back_without_end():
    two = world.World(pairs=4)  # one port is the process's own
    numbers = set()
    for _ in range(20):
        number = two.pair(0)
        numbers.add(number)
        two.device.modify_qp(number, QpState(calls.INIT))
        two.device.free_qp(number)
    assert len(numbers) == 20
    kept = two.device.make_qp(two.pd, calls.RC, two.cqs[0], two.cqs[0], 0, world.LITTLE, True)
    assert kept.caps == world.LITTLE
    with pytest.raises(Refused, match="ENOMEM"):
        two.pair(0)


def test_a_design_whose_host_serves_ports_is_refused():
    with pytest.raises(DesignError, match="its NIC serve them"):
        world.Device("unet-mm-dc21140")


@pytest.mark.parametrize("many", [0, 3])
def test_a_pair_that_drains_says_when_nothing_more_is_under_way(many):
    two = world.World().connect()
    for number in range(many):
        two.to_other(number, calls.WR_READ, 4000)
    two.device.modify_qp(two.pairs[0], QpState(calls.SQD, tells_drained=True))
    two.to_other(9, calls.WR_WRITE)
    assert two.event() == (calls.EVENT_SQ_DRAINED, two.pairs[0])
    assert two.statuses(0, many) == [(number, OK) for number in range(many)]
    assert two.event() is None
    two.device.modify_qp(two.pairs[0], QpState(calls.RTS))
    assert two.statuses(0) == [(9, OK)]


@pytest.mark.parametrize("state", [calls.RTS, calls.RESET])
def test_a_pair_that_drains_no_more_says_nothing(state):
    two = world.World().connect()
    two.to_other(1, calls.WR_READ, 4000)
    two.device.modify_qp(two.pairs[0], QpState(calls.SQD, tells_drained=True))
    two.device.modify_qp(two.pairs[0], QpState(state))
    assert two.event() is None


def test_a_drained_pair_can_be_given_other_patience():
    two = world.World().connect()
    asked = two.device._pairs[two.pairs[0]].attributes
    for state in (calls.SQD, calls.SQD, calls.RTS):
        two.device.modify_qp(two.pairs[0], asked._replace(state=state, timeout=4, retry=0))
    two.device.modify_qp(two.pairs[1], QpState(calls.RESET))
    begin = two.device.now_ns
    two.to_other(1, calls.WR_WRITE)
    assert two.statuses(0) == [(1, calls.RETRY_EXC_ERR)]
    assert two.device.now_ns - begin < 2 * 4_096 * 2**4
