"""Barriers hold all back, locks all but one; notes never come where no slot is empty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.apps.collectives import operations
from nicscope.apps.collectives.mailbox import PLACES, SLOTS, Credits
from nicscope.apps.collectives.operations import BakeryLock, ManagedLock
from nicscope.apps.collectives.running import INTERFACES, Machine, run_ranks
from nicscope.errors import SimulationError, StudyError
from nicscope.interfaces import Faults
from nicscope.studies.collectives import ONE_SIDED, TURNS, time_barrier, time_lock
from refusals import refused

LATE_US = 700.0


def times_at_a_barrier(interface, ranks, late, **machine):
    """When each came to a barrier and left it; rank ``late`` comes later than all others."""

    async def body(party):
        await party.barrier.meet()
        if party.rank == late:
            await party.wire.compute(LATE_US)
        came = party.wire.now_us
        await party.barrier.meet()
        return came, party.wire.now_us

    return run_ranks(Machine(interface, **machine), ranks, 0, body)[0]


def held_back(times):
    return min(left for _, left in times) >= max(came for came, _ in times)


@given(
    interface=st.sampled_from(INTERFACES),
    ranks=st.integers(1, 6),
    late=st.integers(0, 5),
)
def test_nobody_leaves_a_barrier_before_all_have_come(interface, ranks, late):
    assert held_back(times_at_a_barrier(interface, ranks, late % ranks))


@pytest.mark.parametrize("interface", ["unet", "trapeze", "mini"])
def test_a_barrier_holds_on_a_network_that_loses(interface):
    lossy = Faults(seed=2, loss=0.1)

    assert held_back(times_at_a_barrier(interface, 3, 1, faults=lossy))


def test_a_barrier_with_a_round_too_few_is_found(monkeypatch):
    async def one_round(self):
        its = self._messages
        await its.say((its.rank + 1) % its.ranks, operations.ARRIVED, bytes(7))
        await its.wait_until(lambda: self._arrived[0] > 0)
        self._arrived[0] -= 1

    monkeypatch.setattr(operations.Barrier, "meet", one_round)

    assert not held_back(times_at_a_barrier("mini", 4, 0))


def test_later_barriers_are_faster_than_the_first_where_pages_are_pinned_on_demand():
    first, *later = time_barrier(Machine("vmmc"), 4, 3).times_us

    assert first > 2 * max(later)


@pytest.mark.parametrize(
    ("interface", "algorithm"),
    [*((one, "manager") for one in INTERFACES), *((one, "remote") for one in ONE_SIDED)],
)
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_one_process_at_a_time_has_the_lock(interface, algorithm, ranks):
    timed = time_lock(Machine(interface), ranks, algorithm, 2)  # it counts turns that got lost

    assert len(timed.alone.times_us) == 3
    assert timed.contended_us >= 1.0  # for so long each holds it


@pytest.mark.parametrize("algorithm", ["manager", "remote"])
def test_locks_hold_on_a_network_that_loses(algorithm):
    time_lock(Machine("vmmc", faults=Faults(seed=1, loss=0.1, duplication=0.1)), 3, algorithm, 1)


def test_a_lock_that_two_have_is_found(monkeypatch):
    async def at_once(self):
        self._is_mine = True

    async def no_one(self):
        self._is_mine = False

    monkeypatch.setattr(ManagedLock, "acquire", at_once)
    monkeypatch.setattr(ManagedLock, "release", no_one)

    with pytest.raises(StudyError, match=f"of {3 * TURNS} turns"):
        time_lock(Machine("mini"), 3, "manager", 1)


def test_a_bakery_that_serves_everybody_at_once_is_found(monkeypatch):
    async def take(self):
        """Without a number."""

    monkeypatch.setattr(BakeryLock, "acquire", take)

    with pytest.raises(StudyError, match="held by two"):
        time_lock(Machine("mini"), 3, "remote", 1)


def test_the_home_of_a_bakery_lends_no_processor():
    """Its owner computes for long, and another takes the lock meanwhile."""

    async def body(party):
        lock = BakeryLock(party.messages)
        await lock.open()
        await party.barrier.meet()
        begun = party.wire.now_us
        if party.rank:
            await lock.acquire()
            await lock.release()
        else:
            await party.wire.compute(1e5)
        return party.wire.now_us - begun

    assert run_ranks(Machine("vmmc"), 2, 1 << 14, body)[0][1] < 1e4


def test_who_has_no_lock_releases_none():
    async def body(party):
        await ManagedLock(party.messages).release()

    with refused(SimulationError, "rank"):
        run_ranks(Machine("mini"), 2, 0, body)


@given(st.lists(st.booleans(), max_size=200), st.data())
def test_notes_under_way_never_outnumber_slots(turns, data):
    """Two processes send and take in any order; each turn one of them acts."""
    both = [Credits(), Credits()]
    under_way = [[], []]  # to each of the two

    def say(me, *, only_credit=False):
        place, told = both[me].send(only_credit=only_credit)
        assert place not in [one[0] for one in under_way[1 - me]], "the slot is not empty yet"
        under_way[1 - me].append((place, told, only_credit))
        assert len(under_way[1 - me]) <= PLACES

    for me in map(int, turns):
        if under_way[me] and data.draw(st.booleans()):
            _, told, only_credit = under_way[me].pop(0)
            both[me].take(told, only_credit=only_credit)
            if both[me].must_return_credits:
                say(me, only_credit=True)
        elif both[me].has_free_slot:
            say(me)
    for me in (0, 1, 0, 1, 0, 1):
        while under_way[me]:
            _, told, only_credit = under_way[me].pop(0)
            both[me].take(told, only_credit=only_credit)
            if both[me].must_return_credits:
                say(me, only_credit=True)
    assert all(one.has_free_slot for one in both)
    assert SLOTS < PLACES
