"""Tasks within a process, and waiting for any of several calls."""

import pytest
from every_interface import FACES
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.errors import SimulationError, StuckError, WaitTimeoutError
from nicscope.interfaces import Cluster, Faults, trapeze, unet, via
from refusals import refused
from suite import share

EVERY = pytest.mark.parametrize("name", FACES)


def me(end):
    """The process of an endpoint, which is that by itself but under U-Net."""
    return getattr(end, "process", end)


def run(cluster, *programs, tasks=4):
    for node, program in enumerate(programs):
        cluster.start(node, program, tasks=tasks)
    return cluster.run()


@EVERY
def test_tasks_share_the_cpu_and_their_results_are_joined(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)
        begun = me(end).now_us

        async def works(us):
            await end.compute(us)
            return us

        tasks = [me(end).spawn(works(us)) for us in (30, 20)]
        await end.compute(10)
        found = [await task.join() for task in tasks]
        return found, me(end).now_us - begun, [task.is_done for task in tasks]

    [(found, took, done)] = run(face.cluster(), program)
    assert found == [30, 20]
    assert done == [True, True]
    processors = 2 if name == "miNI" else 1  # of a host; tasks run on either
    assert took == pytest.approx(60 / processors, abs=2)


@EVERY
def test_a_task_goes_on_while_its_program_waits(name):
    face, said = FACES[name], []

    async def program(given):
        end = await face.open(given)

        async def ticks():
            for _ in range(5):
                await end.compute(10)
                said.append(me(end).now_us)

        task = me(end).spawn(ticks())
        with pytest.raises(TimeoutError):
            await face.wait(end, 35)
        said.append("late")
        await task.join()

    run(face.cluster(), program)
    assert said.index("late") in (3, 4)
    assert len(said) == 6


@EVERY
def test_a_join_ends_in_time_and_the_task_goes_on(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)

        async def works():
            await end.compute(100)
            return 7

        task = me(end).spawn(works())
        with refused(WaitTimeoutError, "task.join()"):
            await task.join(timeout_us=20)
        return await task.join(timeout_us=200), await task.join()

    assert list(run(face.cluster(), program)) == [(7, 7)]


@EVERY
def test_what_is_left_running_ends_with_its_program(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)
        me(end).spawn(face.wait(end))
        await end.compute(5)
        return "done"

    cluster = face.cluster()
    assert list(run(cluster, program)) == ["done"]
    assert cluster.report().elapsed_us < 50


@EVERY
def test_what_a_task_raises_fails_the_run(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)

        async def fails():
            await end.compute(5)
            raise KeyError("task")

        me(end).spawn(fails())
        await face.wait(end, 500)

    with pytest.raises(KeyError, match="task") as caught:
        run(face.cluster(), program)
    assert "program(), " in caught.value.__notes__[0]


@EVERY
def test_a_task_that_waits_for_ever_is_told_of_by_its_name(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)

        async def waits():
            await face.wait(end)

        await me(end).spawn(waits()).join()

    with pytest.raises(StuckError) as caught:
        run(face.cluster(), program)
    assert "program(): waits in task.join(), " in str(caught.value)
    assert f"program(), task waits(): waits in {face.call}, " in str(caught.value)


@EVERY
def test_more_tasks_than_there_is_room_for_are_refused(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)
        for _ in range(3):
            me(end).spawn(face.wait(end))
        await end.compute(5)

    with refused(SimulationError, "start(..., tasks=N)"):
        run(face.cluster(), program, tasks=2)


def senders_and_poller(names, sizes, receive):
    """Two processes that send to one endpoint each, of one process that waits for any."""

    def sends(name):
        async def program(process):
            endpoint = await process.open()
            tag = await endpoint.connect(0, name)
            for number, size in enumerate(sizes):
                await process.sleep(size)
                await endpoint.send(tag, bytes([number]))

        return program

    async def polls(process):
        endpoints = [await process.open(name) for name in names]
        return await receive(process, endpoints)

    cluster = unet.Cluster(nodes=1 + len(names), endpoints=len(names))
    cluster.start(0, polls, tasks=len(names))
    for node, name in enumerate(names, 1):
        cluster.start(node, sends(name))
    return cluster.run()[0]


@share(1.5)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(5, 300))
@example(pauses=[0, 0], patience=5)  # what one polls for has come, and the other's turn is over
def test_waiting_for_any_of_several_endpoints_loses_and_doubles_nothing(pauses, patience):
    async def receive(process, endpoints):
        found = [[] for _ in endpoints]
        for _ in range(1000):
            if sum(map(len, found)) == len(endpoints) * len(pauses):
                break
            try:
                came = await process.wait_any(
                    *(endpoint.receive() for endpoint in endpoints), timeout_us=patience
                )
            except TimeoutError:
                continue
            for which, message in came:
                found[which].append(message.content[0])
        return found

    found = senders_and_poller(("a", "b"), pauses, receive)
    assert found == [list(range(len(pauses)))] * 2


@pytest.mark.parametrize("design", ["unet", "unet-mm-pca200"])
def test_a_process_that_polls_for_several_goes_on_when_any_has_come(design):
    async def sends(process):
        endpoint = await process.open()
        tag = await endpoint.connect(0, "second")
        await process.sleep(100)
        await endpoint.send(tag, b"x")

    async def waits(process):
        first, second = await process.open("first"), await process.open("second")
        [(which, _)] = await process.wait_any(first.receive(), second.receive())
        return which, process.now_us

    cluster = unet.Cluster(design, endpoints=2)
    cluster.start(0, waits, tasks=2)
    cluster.start(1, sends)
    which, came = cluster.run()[0]

    assert which == 1
    assert came < 200  # not at the end of its time slice, of 33 ms


@EVERY
def test_waiting_for_any_gives_the_first_and_the_others_have_taken_nothing(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)

        async def works(us):
            await end.compute(us)
            return us

        [(which, what)] = await me(end).wait_any(face.wait(end), works(30))
        [(again, _)] = await me(end).wait_any(works(1), face.wait(end))
        return which, what, again

    assert list(run(face.cluster(), program)) == [(1, 30, 0)]


@EVERY
def test_waiting_for_any_ends_in_time(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)
        begun = me(end).now_us
        with refused(WaitTimeoutError, ".wait_any()"):
            await me(end).wait_any(face.wait(end), timeout_us=40)
        return me(end).now_us - begun

    assert list(run(face.cluster(), program)) == [pytest.approx(40, abs=2)]


def test_a_wait_or_a_task_that_was_refused_and_handled_is_no_forgotten_call():
    async def program(process):
        with pytest.raises(SimulationError, match="timeout_us"):
            await process.wait_any(process.sleep(3), process.sleep(4), timeout_us="soon")
        with pytest.raises(SimulationError, match="without its 'await'"):
            await process.wait_any(process.sleep(3), 4)
        others.append(process)
        await process.sleep(1)

    async def another(process):
        await process.sleep(0.5)
        with pytest.raises(SimulationError, match="acts only for itself"):
            others[0].spawn(process.sleep(1))
        return "went on"

    others = []
    cluster = unet.Cluster("unet", nodes=2)

    assert run(cluster, program, another) == [None, "went on"]


def test_a_task_serves_while_the_program_sends_on_trapeze():
    async def both(endpoint):
        other = 1 - endpoint.node

        async def serves():
            found = []
            for _ in range(20):
                message = await endpoint.receive()
                found.append((message.scan(1), bytes(message.payload[:1])))
                endpoint.release(message)
            return found

        task = endpoint.spawn(serves())
        page = endpoint.allocate(64)
        for number in range(20):
            await page.write(bytes([number]) * 64)
            endpoint.reserve(1)[:] = bytes([100 + number])
            await endpoint.send(other, page)
        return await task.join()

    expected = [(bytes([100 + number]), bytes([number])) for number in range(20)]
    assert list(run(trapeze.Cluster("p6-natoma"), both, both)) == [expected, expected]


@pytest.mark.parametrize("mechanism", ["edt", "pio", "pci"])
def test_tasks_of_a_process_post_and_wait_on_vis_of_their_own(mechanism):
    async def side(host):
        nic, first = await host.open_nic(), host.node == 0
        tag = await nic.create_ptag()

        async def talks(name, mark):
            vi, places = await nic.create_vi(tag), await nic.descriptors(tag)
            region = await nic.register_mem(nic.allocate(4096), tag)
            for number in range(3):
                await nic.post_recv(vi, places.request(region.segment(64 * number, 64)))
            if first:
                await nic.connect_accept(await nic.connect_wait(name), vi)
            else:
                await nic.compute(200)
                await nic.connect_request(vi, 0, name)
            found = []
            for number in range(3):
                await nic.write(region.address + 1024, bytes([mark + number] * 8))
                await nic.post_send(vi, places.request(region.segment(1024, 8)))
                await nic.send_wait(vi)
                await nic.recv_wait(vi)
                found.append((await nic.read(region.address + 64 * number, 8))[0])
            return found

        tasks = [nic.spawn(talks("a", 10)), nic.spawn(talks("b", 20))]
        return [await task.join() for task in tasks]

    expected = [[10, 11, 12], [20, 21, 22]]
    assert list(run(via.Cluster(mechanism=mechanism), side, side)) == [expected, expected]


def test_a_run_that_fails_while_a_task_waits_for_any_says_why():
    async def program(end):
        async def waits():
            await end.wait_any(end.sleep(1000), end.sleep(2000))

        end.spawn(waits())
        await end.sleep(10)
        raise SimulationError("this is why")

    with pytest.raises(SimulationError, match="this is why"):
        run(Cluster("utlb"), program)


def test_a_node_dies_while_a_task_waits_for_any():
    async def program(end):
        async def waits():
            await end.wait_any(end.sleep(1000), end.sleep(2000))

        end.spawn(waits())
        await end.sleep(500)
        return "alive"

    cluster = Cluster("utlb", faults=Faults(node_deaths={0: 100_000_000}))

    assert run(cluster, program, program) == [None, "alive"]


@pytest.mark.parametrize("design", ["utlb", "mini"])  # on hosts with one processor, and with two
def test_tasks_that_post_at_the_same_time_each_post_their_own(design):
    cluster = Cluster(design, interface="mini") if design == "mini" else Cluster(design)

    async def receiver(end):
        box = end.allocate(4096)
        await (end.register(box, name="box") if design == "mini" else end.export(box, "box"))
        await end.sleep(20_000)
        return list(await box.read(6))

    async def sender(end):
        if design == "mini":
            box = await end.open(await end.find("box"))
        else:
            box = await end.import_buffer(0, "box")
        page = end.allocate(4096)
        await page.write(bytes(range(1, 7)))

        async def posts(at):
            if design == "mini":
                await end.write(box, page, 1, offset=at, at=at, notify=False)
            else:
                await end.store(box, page, at, at=at, length=1)

        tasks = [end.spawn(posts(at)) for at in range(6)]
        for task in tasks:
            await task.join()
        await end.sleep(10_000)

    cluster.start(0, receiver)
    cluster.start(1, sender, tasks=6)

    assert cluster.run()[0] == [1, 2, 3, 4, 5, 6]
