"""Programs on shared memory see what was written before, and nothing that was not delivered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nicscope.apps.svm.coherence import CONTROL_BASE, REQUEST_BYTES, SEND, SHARED_BASE, WRITE, Costs
from nicscope.apps.svm.memory import POISON, Domain, Layout
from nicscope.apps.svm.process import Placement, run_on_shared_memory
from suite import share

PAGE = 512  # bytes: small, so that processes meet on pages
ELEMENTS = 400


def placements():
    return st.builds(
        Placement, st.integers(1, 4), st.integers(1, 3), are_copies_private=st.booleans()
    )


@share(2)
@given(st.data(), placements(), st.integers(1, 5))
def test_phases_between_barriers_read_what_earlier_ones_wrote(data, placement, phases):
    many = placement.nodes * placement.processes
    shape = (phases, ELEMENTS)
    writers = data.draw(arrays.arrays(np.int64, shape, elements=st.integers(-2, many - 1)))
    readers = data.draw(arrays.arrays(np.int64, shape, elements=st.integers(-1, many - 1)))
    layout = Layout(PAGE)
    array = layout.array("a", ELEMENTS, np.uint32)
    given_first = np.arange(ELEMENTS, dtype=np.uint32) + 7

    async def program(me):
        seen = []
        for phase in range(phases):
            stable = (readers[phase] == me.number) & (writers[phase] < 0)
            for i in np.flatnonzero(stable).tolist():
                [value] = await me.read(array, i, i + 1)
                seen.append((phase, i, int(value)))
            mine = np.flatnonzero(writers[phase] == me.number)
            for i in mine.tolist():
                (await me.write(array, i, i + 1))[0] += phase + 1
            await me.barrier()
        return seen

    def set_up(array_of):
        array_of(array)[:] = given_first

    run = run_on_shared_memory(program, layout, placement, set_up)

    now, states = given_first.copy(), []
    for phase in range(phases):
        states.append(now.copy())
        now[writers[phase] >= 0] += phase + 1
    assert (run.array(array) == now).all()
    for seen in run.results:
        assert all(states[phase][i] == value for phase, i, value in seen)


@share(2)
@given(st.data(), placements())
def test_what_a_lock_guards_is_never_lost(data, placement):
    many = placement.nodes * placement.processes
    turns = data.draw(
        st.lists(
            st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=6),
            min_size=many,
            max_size=many,
        )
    )
    layout = Layout(PAGE)
    counts = layout.array("counts", (4, 30), np.uint32)  # of which pages have several

    async def program(me):
        for which, work in turns[me.number]:
            me.work(work * 1000)
            await me.acquire(which)
            row = await me.write(counts, which * 30, which * 30 + 30)
            row += 1
            await me.release(which)

    run = run_on_shared_memory(program, layout, placement)

    wanted = np.zeros(4, np.uint32)
    for turn in turns:
        for which, _ in turn:
            wanted[which] += 1
    assert (run.array(counts) == wanted[:, None]).all()


@pytest.mark.parametrize("is_locked", [False, True], ids=["barrier", "lock"])
def test_each_process_of_a_node_makes_a_diff_of_the_words_that_it_wrote_itself(is_locked):
    layout = Layout(PAGE)
    array = layout.array("a", 64, np.uint32)
    other = layout.array("b", 1, np.uint32)

    async def program(me):
        if me.number == 0:
            await me.write(array)  # its home
        await me.barrier()
        if me.number > 0:
            await me.read(array)
            mine = np.arange(3) * 8 + me.number  # words between the others'
            if me.number == 2:
                (await me.write_elements(array, mine))[mine] = me.number
            else:
                for at in mine.tolist():
                    (await me.write(array, at, at + 1))[0] = me.number
        if is_locked and me.number == 2:  # what both wrote goes home when the lock moves
            await me.compute(100_000)
            await me.acquire("lock")
            (await me.write(other))[0] = 1
            await me.release("lock")
        if is_locked and me.number == 0:
            await me.compute(1_000_000)
            await me.acquire("lock")
            await me.release("lock")
        await me.barrier()

    run = run_on_shared_memory(program, layout, Placement(2, 2))

    columns = run.records.columns()
    of_array = columns["address"] < SHARED_BASE + PAGE
    diffs = (columns["op"] == WRITE) & (columns["node"] == 1) & of_array
    shares = {}
    for pid, address, length in zip(
        *(columns[name][diffs].tolist() for name in ("pid", "address", "length")), strict=True
    ):
        shares.setdefault(pid, []).append((address % PAGE // 4, length))
    assert shares == {0: [(2, 3 * (4 + 8))], 1: [(3, 3 * (4 + 8))]}
    assert (run.array(array)[:20].nonzero()[0] % 8 < 4).all()


def test_a_lock_that_stays_in_a_domain_sends_nothing_and_one_that_moves_sends_diffs():
    layout = Layout()
    home = layout.array("home", 1024, np.uint32)

    def diffs(placement, takes):
        async def program(me):
            if me.number == 0:
                await me.write(home)  # its home
            await me.barrier()
            for turn in range(5):
                if me.number in takes:
                    await me.acquire("lock")
                    (await me.write(home, me.number, me.number + 1))[0] += 1 + turn
                    await me.release("lock")

        return run_on_shared_memory(program, layout, placement).records.diffs

    assert diffs(Placement(2, 2), {2}) == 1  # at the barrier with which a program ends
    assert diffs(Placement(2, 2), {0, 1}) == 0  # at home
    assert diffs(Placement(3, 1), {1, 2}) > 5


def test_a_copy_that_is_out_of_date_holds_nothing_that_was_ever_written():
    domain = Domain(0, 0, [0], 1, (2, PAGE))
    domain.is_valid[1] = True

    domain.invalidate_copy(1)

    assert (domain.memory[1] == POISON).all()
    assert not domain.is_valid[1]


@pytest.mark.requirement("UT-80")
def test_what_a_lock_that_moves_takes_home_is_the_protocol_processs_own_request():
    """UTLB, 6: each node has four processes and a protocol process, and all use the network."""
    layout = Layout(PAGE)
    array = layout.array("a", 2 * PAGE // 4, np.uint32)
    behind = PAGE // 4  # the second page, whose home is the other node

    async def program(me):
        if me.number == 2:
            (await me.write(array, behind, behind + 1))[0] = 1
        await me.barrier()
        if me.number == 0:
            await me.acquire("lock")
            (await me.write(array, behind + 5, behind + 6))[0] = 7
            await me.release("lock")
            (await me.write(array, behind + 9, behind + 10))[0] = 9
        await me.barrier()
        if me.number == 0:
            await me.acquire("lock")
            (await me.write(array, behind + 5, behind + 6))[0] = 8
            await me.release("lock")
            me.work(10**6)
            await me.compute()
        if me.number == 3:
            me.work(10**5)
            await me.compute()
            await me.acquire("lock")
            assert (await me.read(array, behind + 5, behind + 6))[0] == 8
            await me.release("lock")

    columns = run_on_shared_memory(program, layout, Placement(2, 2)).records.columns()

    written = columns["op"] == WRITE
    senders = list(zip(columns["node"][written], columns["pid"][written], strict=True))
    assert senders == [(0, 0), (0, 2)]  # at the barrier by itself; at the lock by the third


def sent(layout, program, placement):
    """Messages of locks and barriers: node, process, receiving node and length of each, in time."""
    columns = run_on_shared_memory(program, layout, placement).records.columns()
    is_message = (columns["op"] == SEND) & (columns["address"] == CONTROL_BASE)
    names = ("node", "pid", "peer", "length")
    return list(zip(*(columns[name][is_message].tolist() for name in names), strict=True))


def beginning_and_end(nodes):
    """How many messages two barriers take: one of each other node, and one to it."""
    return 2 * 2 * (nodes - 1)


@pytest.mark.requirement("UT-80")
def test_a_barrier_is_a_message_of_each_node_and_one_to_each():
    """UTLB, 6, traces each send; a barrier's manager hears of each node, and tells all the rest."""
    layout = Layout(PAGE)
    layout.array("a", PAGE)

    async def program(me):
        await me.compute(1000 * me.number)

    found = sent(layout, program, Placement(3, 2))

    protocol, last = 2, 1  # of each node's processes; the last to arrive tells of its node
    at_end = found[beginning_and_end(3) // 2 :]
    assert at_end == [
        (1, last, 0, REQUEST_BYTES),
        (2, last, 0, REQUEST_BYTES),
        (0, protocol, 1, REQUEST_BYTES),
        (0, protocol, 2, REQUEST_BYTES),
    ]


@pytest.mark.requirement("UT-80")
@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
def test_a_lock_is_asked_of_its_manager_who_passes_that_on_to_whoever_has_it(is_held):
    layout = Layout(PAGE)
    array = layout.array("a", PAGE // 4, np.uint32)

    async def program(me):
        await me.compute(10**5 * (1 + me.number))
        if me.number in (2, 3, 4):
            await me.acquire("lock")
            if me.number != 4:  # nobody fetches
                (await me.write(array, me.number, me.number + 1))[0] = 1
            await me.compute(10**6 if is_held and me.number == 3 else 0)
            await me.release("lock")
        await me.compute(10**7)

    found = sent(layout, program, Placement(3, 2))

    protocol, one_notice = 2, REQUEST_BYTES + 4
    many = beginning_and_end(3) // 2
    of_lock = found[many:-many]
    # The first of node 1 asks node 0, which has it at first; the second has it there; node 2 asks.
    assert of_lock == [
        (1, 0, 0, REQUEST_BYTES),
        (0, protocol, 1, REQUEST_BYTES),
        (2, 0, 0, REQUEST_BYTES),
        (0, protocol, 1, REQUEST_BYTES),
        (1, 1 if is_held else protocol, 2, one_notice),
    ]


def test_processes_leave_a_barrier_up_to_the_skew_apart_and_by_the_seed():
    layout = Layout(PAGE)
    layout.array("a", 4)

    def left(seed, skew):
        async def program(me):
            await me.barrier()
            return me._caller.endpoint.now_us

        costs = Costs(skew=skew)
        run = run_on_shared_memory(program, layout, Placement(4, 4), costs=costs, seed=seed)
        return np.array(run.results)

    at_once, apart, again, other = left(1, 0.0), left(1, 2e3), left(1, 2e3), left(2, 2e3)

    assert np.ptp(at_once) == 0
    assert 1e3 < np.ptp(apart) < 2e3 + np.ptp(at_once)
    assert (apart == again).all()
    assert (apart != other).any()
