"""The protocol on simulated machines: results are right with the bytes that NICs delivered."""

from itertools import product

import numpy as np
import pytest
from machine_runs import INTERFACES, PROGRAMS, lossy, run_of

from nicscope.apps.svm.machines.node import run_on_machines
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, run_on_shared_memory
from pairwise import in_turn, others_marked

ON = pytest.mark.parametrize("on", INTERFACES)


# Every program, and every interface, in the gate; each with each in the long tests.
@pytest.mark.parametrize(("name", "on"), in_turn(pytest.mark.long, PROGRAMS, INTERFACES))
def test_results_are_right(name, on):
    program = PROGRAMS[name](4)

    run = run_of(program, Placement(2, 2), on)

    program.check(run)
    assert run.records.fetches > 0
    assert run.report.total.messages_out > run.records.fetches


@pytest.mark.parametrize(
    ("placement", "on"),
    in_turn(
        pytest.mark.long,
        [Placement(4, 1), Placement(2, 2, True), Placement(3, 1), Placement(1, 3)],
        INTERFACES,
    ),
)
def test_results_are_right_wherever_processes_run(placement, on):
    program = PROGRAMS["radix"](placement.nodes * placement.processes)

    program.check(run_of(program, placement, on))


@pytest.mark.parametrize(
    ("on", "design"),
    [
        ("vmmc", "vmmc-interrupt"),
        ("unet", "unet"),
        ("unet", "unet-mm-dc21140"),
        ("mini", "mini"),
        ("via", "via"),
    ],
)
def test_results_are_right_on_other_designs(on, design):
    program = PROGRAMS["radix"](2)

    program.check(run_of(program, Placement(2, 1), on, design=design))


@pytest.mark.parametrize(
    ("name", "on", "seed"),
    others_marked(
        pytest.mark.long,
        product(["radix", "water-nsquared"], INTERFACES, [5, 6]),
        [
            ("radix", "vmmc", 5),
            ("radix", "mini", 6),
            ("radix", "unet", 5),
            ("water-nsquared", "vmmc", 6),
            ("radix", "via", 6),
            ("radix", "trapeze", 5),
        ],
    ),
)
def test_results_are_right_when_packets_are_lost_doubled_overtaken_and_damaged(name, on, seed):
    program = PROGRAMS[name](4)
    placement = Placement(2, 2, are_copies_private=seed == 6)

    run = run_of(program, placement, on, faults=lossy(seed, on))

    program.check(run)
    assert run.microseconds > run_of(program, placement, on).microseconds
    received = run.report.total.received
    assert received.lost > 0
    assert received.corrupted > 0


def run_anywhere(program, layout, placement, on):
    """On simulated machines, or in logical time, which has no machines."""
    if on == "logical time":
        return run_on_shared_memory(program, layout, placement)
    return run_on_machines(program, layout, placement, on=on)


@pytest.mark.parametrize(
    ("on", "placement", "words"),
    [
        ("logical time", Placement(3, 2, are_copies_private=False), 1024),
        ("logical time", Placement(3, 2, are_copies_private=True), 1024),
        *[(on, Placement(3, 1), 24) for on in INTERFACES],
    ],
)
def test_two_who_write_one_page_keep_each_others_words(on, placement, words):
    layout = Layout()
    page = layout.array("page", words, np.uint32)

    async def program(me):
        if me.number == 0:
            await me.read(page)
        await me.barrier()
        for i in range(me.number, words, me.processes):
            (await me.write(page, i, i + 1))[0] = i
        await me.barrier()
        return int((await me.read(page)).sum())

    run = run_anywhere(program, layout, placement, on)

    assert run.results == [sum(range(words))] * placement.nodes * placement.processes
    assert run.array(page).tolist() == list(range(words))


@pytest.mark.parametrize("on", ["logical time", *INTERFACES])
def test_who_has_a_second_lock_knows_what_was_known_under_the_first(on):
    """What is known passes on: 0 writes, 1 has 0's lock and lets go of another, 2 has that."""
    layout = Layout()
    data = layout.array("data", 1, np.uint32)
    steps = layout.array("steps", 2048, np.uint32)

    async def program(me):
        await me.read(data)  # a copy that will be out of date
        await me.barrier()
        if me.number == 0:
            await me.acquire("first")
            (await me.write(data))[0] = 99
            await me.release("first")
            return None
        await me.compute(me.number * 1_000_000)
        await me.acquire("first" if me.number == 1 else "second")
        seen = int((await me.read(data))[0])
        await me.release("first" if me.number == 1 else "second")
        if me.number == 1:
            await me.acquire("second")
            if on == "logical time":
                (await me.write(steps, 0, 1))[0] = 1
            await me.release("second")
        return seen

    assert run_anywhere(program, layout, Placement(3, 1), on).results == [None, 99, 99]


@ON
def test_locks_pass_among_processes_of_a_node_and_of_others(on):
    layout = Layout()
    count = layout.array("count", 1, np.uint32)

    async def program(me):
        for _ in range(2):
            await me.acquire(7)
            (await me.write(count))[0] += 1
            await me.release(7)
        await me.barrier()
        return int((await me.read(count))[0])

    assert run_on_machines(program, layout, Placement(2, 3), on=on).results == [12] * 6


def test_runs_are_the_same_each_time():
    program = PROGRAMS["radix"](2)
    runs = [run_of(program, Placement(2, 1), "vmmc") for _ in range(2)]

    assert runs[0].microseconds == runs[1].microseconds
    assert runs[0].report.to_json() == runs[1].report.to_json()


def test_a_lock_that_nobody_else_asks_for_sends_nothing_again():
    layout = Layout()
    count = layout.array("count", 1, np.uint32)

    def sent(times):
        async def program(me):
            for _ in range(times if me.number == 0 else 0):
                await me.acquire("own")
                await me.release("own")
            await me.read(count)

        return run_on_machines(program, layout, Placement(2, 1)).report.total.messages_out

    assert sent(9) == sent(1) > sent(0)
