"""Programs at random: no row begins before what it needs, and each is carried out once."""

import functools

import numpy as np
import pytest
from hypothesis import given

from drivers_traced.programs_of_rows import (
    BASE,
    PAGE,
    compute,
    deposit,
    fetch,
    program,
    programs,
    row,
    subject,
    timed,
    times_of,
)
from nicscope.drivers.simulate.traced import build, timing
from oracle.programs import wrongs
from suite import INTERPRETED, share

DESIGNS = ["vmmc-static", "utlb", "mini", "vmmc-interrupt", "unet-mm-pca200"]


def everything():
    """A program with rows of every kind, within a node and across: all its kernels are entered."""
    nodes, rows = [0, 0, 1, 2], [[] for _ in range(4)]
    for length in (0, 1, 300, 6000):
        for p, q in ((0, 1), (0, 2), (3, 0), (2, 3)):
            at = BASE if length else 0
            rows[p].append(row("SEND", q, address=at, length=length))
            rows[q].append(row("RECEIVE", p, address=at, length=length))
    for p, own in enumerate(rows):
        home = (nodes[p] + 1) % 3
        for page in range(6):
            own += [fetch(home, page), deposit(home, page, ns=500), compute(20_000)]
        for name in range(3):
            own += [row("LOCK", name=name), compute(20_000), row("UNLOCK", name=name)]
        loose = {"after": [len(own) - 1]}
        own += [fetch(home, 1, **loose), deposit(home, 2, **loose), fetch(home, 3, ns=500)]
        own[-1]["after"] = [len(own) - 2, len(own) - 3]
        own.append(row("BARRIER"))
    return nodes, rows


@functools.cache
def compile_all_for(design):
    """An example that compiles on its way takes minutes the first time, and moments the next."""
    timed(*everything(), design)


@pytest.fixture(autouse=True)
def compiled_before_the_examples(request):
    callspec = getattr(request.node, "callspec", None)
    if not INTERPRETED:
        compile_all_for(callspec.params.get("design", DESIGNS[0]) if callspec else DESIGNS[0])


def checked(nodes, rows, on="vmmc-static"):
    """A run that goes against nothing."""
    run, outcome = timed(nodes, rows, on)
    assert wrongs(nodes, rows, *times_of(run, rows)) == []
    assert (outcome.times_ps >= 0).all()
    assert (outcome.times_ps.sum(axis=1) == outcome.elapsed_ps).all()
    assert outcome.failed == 0
    return run, outcome


@given(programs())
def test_any_program_keeps_its_order(program):
    checked(*program)


@pytest.mark.parametrize("design", DESIGNS)
@share(0.32)
@given(program=programs())
def test_under_any_design(design, program):
    checked(*program, design)


@share(0.8)
@given(program=programs())
def test_the_same_however_often_it_is_left_and_entered(program):
    once, _ = timed(*program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "_EVENTS_AT_ONCE", 3)
        patch.setattr(timing, "_INTERPRETED_AT_ONCE", 3)
        again, _ = timed(*program)

    assert times_of(once, program[1]) == times_of(again, program[1])


@pytest.mark.parametrize(("first", "length"), [(BASE, 0), (0, 64)])
def test_messages_without_bytes_or_buffer_leave_from_one_page_of_their_sender(first, length):
    """No page of the program's own: neither those that they name, nor that at address 0."""
    at = [first + page * PAGE * (length == 0) for page in range(4)]
    own = row("DEPOSIT", 1, address=(first or 128) + 5 * PAGE * (length == 0), length=64)
    sent = [row("SEND", 1, address=address, length=length) for address in at]

    _, outcome = checked([0, 1], [[*sent, own], [row("RECEIVE", 0) for _ in at]], "utlb")

    assert outcome.nodes[0].counts["ni_misses"] == 2  # the page of messages, and the program's


def test_rows_that_need_not_wait_run_at_once():
    chain = [fetch(1, page) for page in range(6)]
    free = [fetch(1, page, after=[]) for page in range(6)]

    _, one_by_one = checked([0, 1], [chain, [compute(1)]])
    _, together = checked([0, 1], [free, [compute(1)]])

    assert together.elapsed_ps < one_by_one.elapsed_ps * 0.8


def test_no_more_are_outstanding_than_may_be(monkeypatch):
    free = [fetch(1, page, after=[]) for page in range(6)]
    _, many = checked([0, 1], [free, [compute(1)]])
    monkeypatch.setattr(build, "DEPTH", 1)

    _, one = checked([0, 1], [free, [compute(1)]])
    _, chain = checked([0, 1], [[fetch(1, page) for page in range(6)], [compute(1)]])

    assert one.elapsed_ps == chain.elapsed_ps > many.elapsed_ps


def test_a_row_that_waits_for_a_beginning_goes_on_before_the_end():
    rows = [[fetch(1), row("COMPUTE", ns=10, after=[], after_start=[0])], [compute(1)]]

    run, _ = checked([0, 1], rows)

    begun, ended = times_of(run, rows)
    assert begun[0, 0] <= begun[0, 1] < ended[0, 0]


@pytest.mark.parametrize("nodes", [[0, 1], [0, 0]])
def test_a_row_may_wait_for_another_process(nodes):
    rows = [
        [compute(50_000), compute(1)],
        [row("COMPUTE", ns=5, after_others=[(0, 0)]), row("COMPUTE", ns=5)],
    ]

    run, _ = checked(nodes, rows)

    begun, ended = times_of(run, rows)
    assert ended[0, 0] == 50_000_000 <= begun[1, 0] < 60_000_000


def test_each_of_a_nodes_processes_computes_on_its_own():
    _, outcome = checked([0, 0, 0, 1], [[compute(1_000_000)]] * 4)

    assert outcome.elapsed_ps == 10**9


def test_more_messages_than_a_port_has_places_for_wait_until_some_are_read(monkeypatch):
    monkeypatch.setattr(build, "RING", 4)
    monkeypatch.setattr(build, "DEPTH", 2)
    sends = [row("SEND", 1, name=tag, after=[]) for tag in range(30)]
    receives = [compute(5_000_000), *(row("RECEIVE", 0, name=tag) for tag in reversed(range(30)))]

    _, outcome = checked([0, 1], [sends, receives])

    assert outcome.elapsed_ps > 5 * 10**9


def test_a_barrier_of_some_is_met_without_the_others():
    meet = row("BARRIER", name=7)

    run, outcome = checked([0, 1, 2], [[meet, meet], [meet, meet], [compute(10_000_000)]])

    assert times_of(run, [[meet, meet], [meet, meet], [0]])[1][0, 1] < 10**9
    assert outcome.elapsed_ps == 10**10


@pytest.mark.parametrize("many", range(1, 10))
def test_a_barrier_takes_rounds_of_a_logarithm(many):
    nodes = [*range(many)]
    _, outcome = checked(nodes, [[row("BARRIER")] for _ in nodes])

    packets = sum(node.packets for node in outcome.nodes)
    assert packets >= many * (many - 1).bit_length()
    assert (outcome.elapsed_ps > 0) == (many > 1)


def test_a_lock_in_a_nodes_own_memory_crosses_nothing():
    rows = [[row("LOCK", name=0), row("UNLOCK", name=0)], [compute(1)]]

    _, outcome = checked([0, 1], rows)
    assert [node.packets for node in outcome.nodes] == [0, 0]

    rows[0][0]["name"] = rows[0][1]["name"] = 1
    _, outcome = checked([0, 1], rows)
    assert min(node.packets for node in outcome.nodes) > 0


def test_what_is_exported_is_no_lookup_of_the_program():
    _, outcome = checked([0, 1], [[fetch(1, page) for page in range(5)], [compute(1)]], "utlb")

    here, there = (node.counts for node in outcome.nodes)
    assert (here["lookups_receive"], there["lookups_send"]) == (5, 5)
    assert (here["pins"], there["pins"]) == (5, 0)


@pytest.mark.requirement("MI-60", "MI-36")
def test_what_is_exported_is_in_minis_table_before_time_as_in_a_static_one():
    """Only what the reader's own pages take to pin is part of the program."""
    line = 8
    on = subject("mini", entries=256, line=line, ways=2)
    _, outcome = timed([0, 1], [[fetch(1, page) for page in range(line)], []], on)

    low = on.service.steps["thread_work"]
    processing = outcome.misses_ps[:, 1].tolist()
    assert processing == [low + line * on.service.steps["pin_send"], low]
    assert outcome.nodes[0].counts["pins"] == line
    assert outcome.nodes[1].counts["pins"] == 0


@pytest.mark.requirement("MI-32", "MI-25")
def test_no_answer_is_dropped_for_want_of_its_place():
    on = subject("mini", entries=256, line=8, ways=2)
    rows = [[fetch(1, 16 * i) for i in range(4)], [], [fetch(1, 16 * i) for i in range(4)]]
    run, outcome = timed([0, 1, 2], rows, on)

    assert outcome.misses == 2 * (4 + 4)  # the second to ask for a line does so while it comes
    assert run.machine.ports.made.sum(axis=0).tolist()[1] == 0  # again
    longest = max(outcome.misses_ps.sum(axis=1).tolist())
    assert outcome.elapsed_ps < 4 * (4 * longest + 200 * 10**6)


def test_an_end_is_there_when_the_bytes_are_at_home():
    """A deposit ends when the home has confirmed it, behind the bytes."""
    _, near = checked([0, 1], [[deposit(1, length=8)], [compute(1)]])
    _, far = checked([0, 1], [[deposit(1, length=3000)], [compute(1)]])

    assert far.elapsed_ps > near.elapsed_ps


def test_a_run_of_pages_reaches_over_requests():
    rows = [[row("FETCH", 1, address=BASE + 100, length=9000), deposit(1, 1)], [compute(1)]]

    _, outcome = checked([0, 1], rows, "utlb")

    assert outcome.nodes[0].counts["lookups"] == 4


def test_memory_anywhere_takes_no_more():
    rows = [[fetch(1, 0), fetch(1, 1 << 24)], [compute(1)]]

    run, _ = checked([0, 1], rows, "mini")

    assert run.machine.ports.memory.frames.shape[1] < 1 << 13
    assert np.count_nonzero(run.machine.ports.memory.frames["pins"]) > 0


def test_no_byte_of_the_hosts_is_moved():
    nodes, rows = everything()
    on = timing.Timing(program(nodes, rows), subject("mini", entries=64, line=8, ways=2))
    memory = on.machine.ports.memory.bytes
    memory[1] = 1

    on.run()

    assert not memory[[0, 2]].any()  # though they fetched pages of node 1's
