"""Programs that do not end, or that the machine cannot carry out: one line says who, and where."""

import pytest

from drivers_traced.programs_of_rows import BASE, compute, fetch, program, row, subject, timed
from nicscope.drivers.simulate.traced.program import MOST_ADDRESS
from nicscope.drivers.simulate.traced.timing import Timing
from nicscope.errors import RoomError, SimulationError

IDLE = [compute(1)]


def refusal(nodes, rows, on="vmmc-static"):
    with pytest.raises(SimulationError) as raised:
        timed(nodes, rows, on)
    said = str(raised.value)
    assert "\n" not in said
    return said


def test_a_message_that_nobody_sends():
    said = refusal([0, 1], [[compute(5), row("RECEIVE", 1, name=3)], IDLE])

    assert "nothing more will happen after 0.005 us" in said
    assert said.endswith("process 0, row 1 (RECEIVE of tag 3 from process 1)")


def test_a_message_that_only_another_tag_has():
    rows = [[row("RECEIVE", -1, name=3)], [row("SEND", 0, name=4)]]

    assert "process 0, row 0 (RECEIVE of tag 3 from any process)" in refusal([0, 1], rows)


def test_a_barrier_to_which_one_comes_too_seldom():
    rows = [[row("BARRIER"), row("BARRIER")], [row("BARRIER")]]

    assert refusal([0, 1], rows).endswith("there wait: process 0, row 1 (BARRIER 0)")


def test_two_locks_each_held_by_who_waits_for_the_other():
    first = [row("LOCK", name=0), compute(100_000_000), row("LOCK", name=1)]
    second = [row("LOCK", name=1), compute(100_000_000), row("LOCK", name=0)]

    said = refusal([0, 1], [first, second])

    assert "process 0, row 2 (LOCK 1); process 1, row 2 (LOCK 0)" in said


def test_a_row_that_waits_for_one_that_waits_for_ever():
    rows = [
        [row("RECEIVE", 1), compute(5)],
        [row("COMPUTE", ns=5, after_others=[(0, 1)])],
    ]

    said = refusal([0, 1], rows)

    assert "process 0, row 0 (RECEIVE of tag 0 from process 1)" in said
    assert "process 1, row 0 (COMPUTE), for process 0, row 1 (COMPUTE)" in said


def test_many_that_wait_are_not_all_named():
    said = refusal([0] * 6 + [1], [[row("RECEIVE", 6)] for _ in range(6)] + [IDLE])

    assert said.endswith("process 3, row 0 (RECEIVE of tag 0 from process 6) and 2 more")


def test_letting_go_of_what_is_not_held():
    rows = [[row("LOCK"), compute(10**6), row("UNLOCK")], [row("UNLOCK")]]

    said = refusal([0, 1], rows)

    assert said == "process 1, row 0 (UNLOCK 0): the lock is not its own"


def test_fetching_from_ones_own_node():
    said = refusal([0, 1], [[compute(1), fetch(0)], IDLE])

    assert said.startswith("process 0, row 1 (FETCH of 4096 bytes, node 0): that is its own node")


def test_addresses_that_the_timing_itself_uses():
    far = row("FETCH", 1, address=MOST_ADDRESS, length=8)

    assert "address 0x2000000000000000 is not below 2^61" in refusal([0, 1], [[far], IDLE])


def test_memory_that_is_not_there(monkeypatch):
    monkeypatch.setattr("nicscope.memory_limit.available_bytes", lambda: 1 << 20)

    with pytest.raises(RoomError, match=r"timing 2 operations on 2 nodes, which touch \d+ pages"):
        Timing(program([0, 1], [[fetch(1)], IDLE]), subject("utlb"))


def test_more_pages_exported_than_a_design_can_pin():
    rows = [[fetch(1, page) for page in range(9)], IDLE]

    said = refusal([0, 1], rows, subject("vmmc-static", entries=8))

    assert "node 1 exports 11 pages, and design 'vmmc-static' cannot have them all pinned" in said


def test_what_fails_is_counted_and_the_program_goes_on():
    pages = row("FETCH", 1, address=BASE, length=16 * 4096)
    rows = [[pages, compute(5)], [compute(10**7), pages, compute(5)], IDLE]

    _, outcome = timed([0, 0, 1], rows, subject("vmmc-static", entries=64))
    assert (outcome.failed, outcome.rows.sum()) == (0, 6)
    _, outcome = timed([0, 0, 1], rows, subject("vmmc-static", entries=32))
    assert (outcome.failed, outcome.rows.sum()) == (1, 6)
