"""What cannot be started or run says so, and what to give or do instead."""

import pytest
from every_interface import FACES, place
from failures import failure, frames_of_ours

from nicscope.errors import SimulationError
from nicscope.interfaces import vmmc
from program_results import results_of
from refusals import refused

EVERY = pytest.mark.parametrize("name", FACES)


@EVERY
def test_a_coroutine_given_for_a_function_is_refused_and_the_function_asked_for(name):
    async def program(given):
        pass

    error = failure(FACES[name].cluster(), program(1))

    assert "start() was given a coroutine, program(...)" in str(error)
    assert "start(node, program)" in str(error)


@EVERY
def test_a_plain_function_is_refused_and_async_def_asked_for(name):
    def plain(given):
        pass

    error = failure(FACES[name].cluster(), plain)

    assert str(error).startswith(f"plain(), {place(plain, 'def plain')}, is no 'async def'")


def test_a_plain_function_that_returns_a_coroutine_is_a_program():
    async def program(_, number):
        return number

    assert results_of(vmmc.Cluster(), lambda endpoint: program(endpoint, 7)) == [7]


def generator(given):
    yield given


async def async_generator(given):
    yield given


async def takes_nothing():
    pass


async def takes_two(given, more):
    pass


@EVERY
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (generator, "has a 'yield' and so is a generator"),
        (async_generator, "has a 'yield' and so is a generator"),
        (takes_nothing, r"takes \(\), but a program is called with one argument, its "),
        (takes_two, r"takes \(given, more\), but a program is called with one argument, its "),
        (None, "a program is an 'async def' function, not None"),
    ],
)
def test_what_is_no_program_is_refused_and_one_asked_for(name, program, message):
    with pytest.raises(SimulationError, match=message) as caught:
        FACES[name].cluster().start(0, program)
    assert frames_of_ours(caught.value) == []


@EVERY
@pytest.mark.parametrize("nodes", [0, -1])
def test_a_cluster_without_nodes_is_refused(name, nodes):
    with refused(SimulationError, "at least 1 node"):
        FACES[name].cluster(nodes=nodes)


@EVERY
def test_a_second_run_and_a_late_start_are_refused_until_the_cluster_is_renewed(name):
    async def program(_):
        return 7

    cluster = FACES[name].cluster()
    cluster.start(0, program)
    assert cluster.run() == [7]

    with refused(SimulationError, "run()", "renew()"):
        cluster.run()
    with refused(SimulationError, "run()", "started"):
        cluster.start(0, program)
    assert cluster.results == [7]

    cluster.renew()
    cluster.start(1, program)
    assert cluster.run() == [7]
