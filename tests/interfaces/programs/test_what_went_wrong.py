"""A run that ends ill says who, where in the person's own file, when, and what to do."""

import asyncio

import pytest
from every_interface import FACES, place
from failures import failure, frames_of_ours, told

from nicscope.errors import NicscopeError, SimulationError, StuckError
from nicscope.interfaces import trapeze, unet, vmmc
from nicscope.interfaces.via.descriptor import VipError
from program_results import results_of
from refusals import assert_named, refused

EVERY = pytest.mark.parametrize("name", FACES)


@EVERY
def test_a_run_that_cannot_go_on_names_process_call_time_and_the_innermost_line_of_ones_own(name):
    face = FACES[name]

    async def deep(end):
        await face.wait(end)  # in vain

    async def waits(given):
        end = await face.open(given)
        await end.compute(3)
        await deep(end)

    error = failure(face.cluster(), waits, kind=StuckError)

    said = f"process 0 of node 0, waits(): waits in {face.call}, {place(deep, 'in vain')}, since "
    assert said in str(error)
    assert frames_of_ours(error) == []


@EVERY
def test_an_exception_in_a_program_names_process_line_and_time_and_no_frame_of_ours(name):
    face = FACES[name]

    async def breaks(given):
        end = await face.open(given)
        await end.compute(2.5)
        raise KeyError("mine")  # here

    error = failure(face.cluster(), breaks, kind=KeyError)

    [note] = error.__notes__
    assert note.startswith(f"in process 0 of node 0, breaks(), {place(breaks, '# here')}, at ")
    assert note.endswith(" us")
    assert frames_of_ours(error) == []
    assert told(error).count("breaks") == 2  # its frame, and the note


@EVERY
def test_a_misuse_names_process_line_and_time_and_no_frame_of_ours(name):
    face = FACES[name]

    async def misuses(given):
        end = await face.open(given)
        await end.compute(-1)  # here

    error = failure(face.cluster(), misuses, kind=NicscopeError)

    assert "got -1 us" in str(error)
    assert f"misuses(), {place(misuses, '# here')}, at " in told(error)
    assert frames_of_ours(error) == []


@EVERY
def test_a_call_without_await_is_an_error_that_names_its_line(name):
    face = FACES[name]

    async def forgets(given):
        end = await face.open(given)
        end.compute(5)  # here
        await end.compute(1)

    error = failure(face.cluster(), forgets)

    facts = (place(forgets, "# here"), "'await end.compute(...)'", "process 0 of node 0, forgets()")
    assert_named(str(error), facts)


@EVERY
def test_a_wait_without_await_is_heard_of_too_and_at_the_end_at_the_latest(name):
    face = FACES[name]

    async def forgets(given):
        end = await face.open(given)
        kept = face.wait(end)
        await end.compute(1)
        return kept is None

    assert "'await " in str(failure(face.cluster(), forgets))


def test_what_lacks_its_await_is_named_when_it_is_used_for_its_result():
    async def forgets(endpoint):
        message = endpoint.receive()
        return message.payload

    error = failure(trapeze.Cluster("p6-natoma"), forgets, kind=AttributeError)

    assert_named(error.__notes__[-1], ("message", "endpoint.receive()", "'await'"))


def test_a_program_that_waits_is_told_of_a_call_that_it_made_without_await():
    async def forgets(endpoint):
        sent = endpoint.send(1)
        await endpoint.receive()
        return sent

    error = failure(trapeze.Cluster("p6-natoma"), forgets)

    assert_named(str(error), ("sent", "endpoint.send()", "'await'"))


def test_await_before_what_does_not_wait_says_to_leave_it_away():
    async def awaits(endpoint):
        await endpoint.allocate(8)

    error = failure(vmmc.Cluster(), awaits, kind=TypeError)

    assert_named(error.__notes__[-1], ("leave 'await' away",))


@EVERY
def test_a_program_that_calls_run_is_told_that_it_only_awaits(name):
    cluster = FACES[name].cluster()

    async def runs(_):
        cluster.run()

    assert "a program called run()" in str(failure(cluster, runs))


@EVERY
def test_an_await_of_what_is_not_the_simulations_names_it_and_its_line(name):
    face = FACES[name]

    async def sleeps(_):
        await asyncio.sleep(0)  # here

    error = failure(face.cluster(), sleeps)

    facts = ("process 0 of node 0, sleeps()", "asyncio.sleep()", place(sleeps, "# here"), "at 0 us")
    assert_named(str(error), facts)


def test_asyncio_without_a_loop_of_its_own_is_told_of_alike():
    async def sleeps(_):
        await asyncio.sleep(1)

    error = failure(vmmc.Cluster(), sleeps, kind=RuntimeError)

    assert any("asyncio" in note for note in error.__notes__)
    assert frames_of_ours(error) == []


@EVERY
def test_a_call_of_another_process_is_refused_by_name(name):
    face, kept = FACES[name], []

    async def gives(given):
        kept.append(await face.open(given))

    async def takes(given):
        await (await face.open(given)).compute(50)
        await kept[0].compute(1)

    error = failure(face.cluster(), gives, takes)
    assert_named(str(error), ("process 0 of node 1", "process 0 of node 0's"))


@EVERY
def test_a_call_after_the_run_is_refused(name):
    face, kept = FACES[name], []

    async def gives(given):
        kept.append(await face.open(given))

    results_of(face.cluster(), gives)

    with refused(SimulationError, "process 0 of node 0", "not running"):
        kept[0].allocate(8)


def test_a_message_that_was_dropped_for_want_of_a_buffer_is_told_to_who_waits_for_it():
    async def sends(process):
        endpoint = await process.open("sends")
        tag = await endpoint.connect(1, "waits")
        await endpoint.send(tag, endpoint.allocate(200))

    async def waits(process):
        await (await process.open("waits")).receive()

    error = failure(unet.Cluster(), sends, waits)

    assert_named(str(error), ("1 message", "dropped", "no receive buffer"))


def test_a_wait_for_the_end_of_nothing_is_told():
    async def waits(endpoint):
        await endpoint.done()

    assert "nothing is posted" in str(failure(vmmc.Cluster(), waits))


def test_a_vip_error_keeps_its_code_and_says_where():
    async def misuses(host):
        await (await host.open_nic()).create_vi(77)

    error = failure(FACES["VIA"].cluster(), misuses, kind=VipError)

    assert error.code.name == "VIP_INVALID_PTAG"
    assert "misuses(), " in error.__notes__[0]


@EVERY
def test_ctrl_c_says_of_every_program_where_it_stands(name):
    face = FACES[name]

    async def waits(given):
        await face.wait(await face.open(given))  # in vain

    async def interrupted(given):
        await (await face.open(given)).compute(500)
        raise KeyboardInterrupt

    error = failure(face.cluster(), waits, interrupted, kind=KeyboardInterrupt)

    assert any(
        note.startswith(f"process 0 of node 0, waits(): waits in {face.call}, ")
        for note in error.__notes__
    )
    assert error.__notes__[0].startswith("in process 0 of node 1, interrupted(), ")


@EVERY
def test_results_and_report_are_kept_when_a_run_fails(name):
    face = FACES[name]

    async def ends(given):
        await (await face.open(given)).compute(5)
        return "mine"

    async def breaks(given):
        await (await face.open(given)).compute(500)
        raise KeyError("mine")

    cluster = face.cluster()
    failure(cluster, ends, breaks, kind=KeyError)

    assert cluster.results == ["mine", None]
    assert cluster.report().elapsed_us >= 500
