"""Jobs lie in a heap of shared memory, and each is done once, whoever takes it."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.apps.splash.work_pools import FREE_LIST, HEADER, JOB, NIL, PAD, STATUS, WorkPools
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, Process, run_on_shared_memory
from nicscope.errors import SimulationError
from oracle.heap import HeapTwin
from suite import share

JOBS = 30  # of the heap: 31 pieces of 10 words
WORDS = 310
ALONE = Placement(1, 1)
sizes = st.integers(1, 40)
turns = st.lists(st.one_of(sizes, st.floats(0, 1, exclude_max=True)), max_size=40)


def run_of(body, placement=ALONE):
    """A run of ``body`` with pools, and the pools."""
    layout = Layout()
    pools = WorkPools(layout, placement.nodes * placement.processes, JOBS)
    run = run_on_shared_memory(lambda me: body(me, pools), layout, placement, pools.heap.set_up)
    return run, pools


def pieces_of(run, pools):
    """The size of each piece and whether it is free; the free ones as they are linked."""
    words = run.array(pools.heap.array)
    pieces, place = [], 0
    while place < len(words):
        pieces.append((int(words[place + 1]), bool(words[place + 2])))
        place += HEADER + pieces[-1][0]
    linked, place = [], int(run.array(pools.state)[FREE_LIST])
    while place != NIL:
        linked.append(place)
        place = int(words[place])
    return pieces, linked


def headers_read(monkeypatch):
    """Where headers are read, from now on."""
    seen, read = [], Process.read

    async def noted(self, array, begin=0, end=None):
        if array.name == "heap" and end - begin == HEADER:
            seen.append(begin)
        return await read(self, array, begin, end)

    monkeypatch.setattr(Process, "read", noted)
    return seen


@given(turns=turns)
@share(0.5)
def test_a_heap_allocates_frees_and_passes_headers_as_its_twin_does(turns):
    twin = HeapTwin(WORDS)

    async def body(me, pools):
        held = []
        for turn in turns:
            del seen[:]
            if isinstance(turn, float) and held:
                place = held.pop(int(turn * len(held)))
                await pools.heap.free(me, place)
                assert seen == twin.free(place)
            elif any(free and size >= turn + 1 for size, free in twin.pieces):
                place = await pools.heap.allocate(me, int(turn) or 1)
                assert (place, seen) == twin.allocate(int(turn) or 1)
                held.append(place)

    with pytest.MonkeyPatch.context() as patch:
        seen = headers_read(patch)
        run, pools = run_of(body)

    assert pieces_of(run, pools) == (twin.pieces, twin.free_places())


def test_a_free_passes_used_pieces_from_the_first_free_one_to_the_next(monkeypatch):
    seen = headers_read(monkeypatch)

    async def body(me, pools):
        places = [await pools.heap.allocate(me, JOB) for _ in range(8)]
        passed = []
        for each in (1, 4, 6, 5, 0):
            del seen[:]
            await pools.heap.free(me, places[each])
            passed.append([place // (HEADER + JOB + 1) for place in seen])
        return passed

    run, pools = run_of(body)

    # The rest, 8, is free from the start.
    to_the_rest = [1, 2, 3, 4, 5, 6, 7, 8]
    assert run.results == [[to_the_rest] * 3 + [[1, 2, 3, 4, 5, 6], [0, 1]]]
    # 0 and 1 are one now, and 4 to 6.
    assert pieces_of(run, pools) == (
        [(16, True), (6, False), (6, False), (26, True), (6, False), (226, True)],
        [0, 40, 80],
    )


def jobs_of(counts):
    """Jobs of each process, all different."""
    every = iter(range(JOBS))
    return [[(next(every), 2, 3, 4) for _ in range(count)] for count in counts]


def taken_of(counts, placement, work=0):
    """What each process took, where the first one's jobs take long; the run and its pools."""
    given = jobs_of(counts)

    async def body(me, pools):
        await pools.fill(me, given[me.number])
        await me.barrier()
        taken = []
        while (job := await pools.take(me)) is not None:
            taken.append(tuple(job))
            await me.compute(work if me.number == 0 else 0)
        return taken

    run, pools = run_of(body, placement)
    return run.results, run, pools


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("counts", [[10, 0, 3, 1], [0, 0, 0, 0], [7, 8, 7, 8]])
def test_each_job_is_taken_once_and_freed(private, counts):
    taken, run, pools = taken_of(counts, Placement(2, 2, private))

    assert sorted(chain(*taken)) == [*chain(*jobs_of(counts))]
    assert pieces_of(run, pools) == ([(WORDS - HEADER, True)], [0])
    assert not run.array(pools.state)[STATUS : STATUS + 4 * PAD : PAD].any()


def test_a_process_takes_its_own_jobs_first_the_last_one_first_and_steals_of_a_busy_one():
    taken, _, _ = taken_of([20, 2, 2], Placement(3, 1), work=10**6)

    assert taken[0][0][0] == 19
    assert [row for row, *_ in taken[1][:2]] == [21, 20]
    assert [row for row, *_ in taken[2][:2]] == [23, 22]
    assert len(taken[0]) < 4
    assert len(taken[1]) > 5
    assert len(taken[2]) > 5


@pytest.mark.parametrize("unlocked", ["pool", "heap"])
def test_without_a_lock_jobs_are_lost_or_taken_twice(monkeypatch, unlocked):
    for name in ("acquire", "release"):
        real = getattr(Process, name)

        async def locked(self, lock, real=real):
            if unlocked not in (lock, lock[0]):
                await real(self, lock)

        monkeypatch.setattr(Process, name, locked)
    counts = [20, 1, 1, 1]

    try:
        taken, run, pools = taken_of(counts, Placement(4, 1), work=10**5)
    except SimulationError:
        return  # a header led out of the heap

    is_once = sorted(chain(*taken)) == [*chain(*jobs_of(counts))]
    assert not is_once or pieces_of(run, pools) != ([(WORDS - HEADER, True)], [0])


def test_jobs_have_headers_of_16_bytes_and_24_of_their_own_and_pools_1024():
    async def body(me, pools):
        await pools.fill(me, [(1, 2, 3, 4), (5, 6, 7, 8)])

    run, pools = run_of(body)

    words, state = run.array(pools.heap.array), run.array(pools.state)
    assert words[:20].tolist() == [-1, 6, 0, 0, 1, 2, 3, 4, -1, 0, -1, 6, 0, 0, 5, 6, 7, 8, 4, 0]
    assert np.flatnonzero(state).tolist() == [5, 6, 262]
    assert state[[5, 6, 262]].tolist() == [20, 1, 14]


@pytest.mark.parametrize(("words", "pieces"), [(298, [306]), (296, [296, 6]), (1, [2, 300])])
def test_a_rest_of_32_bytes_or_less_stays_with_its_piece(words, pieces):
    run, pools = run_of(lambda me, pools: pools.heap.allocate(me, words))

    found, _ = pieces_of(run, pools)
    assert [size for size, _ in found] == pieces
