"""Runs and waits that end in time: daemons, ``until_us``, and ``timeout_us`` on every wait."""

import pytest
from every_interface import FACES, place
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.errors import SimulationError, StuckError, WaitTimeoutError
from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.via.descriptor import Reliability, Return, VipError
from program_results import results_of
from suite import share

EVERY = pytest.mark.parametrize("name", FACES)


def ends(face, us):
    async def program(given):
        await (await face.open(given)).compute(us)
        return "done"

    return program


def waits(face):
    async def program(given):
        await face.wait(await face.open(given))

    return program


@EVERY
def test_a_run_does_not_wait_for_daemons(name):
    face = FACES[name]
    cluster = face.cluster()
    cluster.start(0, waits(face), daemon=True)
    cluster.start(1, ends(face, 20))

    assert list(cluster.run()) == [None, "done"]
    assert 20 <= cluster.report().elapsed_us < 60


@EVERY
def test_a_run_of_daemons_alone_ends_at_once(name):
    face = FACES[name]
    cluster = face.cluster()
    cluster.start(0, waits(face), daemon=True)

    assert list(cluster.run()) == [None]


@EVERY
def test_a_daemon_that_fails_fails_the_run(name):
    face = FACES[name]

    async def fails(given):
        await (await face.open(given)).compute(5)
        raise KeyError("daemon")

    cluster = face.cluster()
    cluster.start(0, fails, daemon=True)
    cluster.start(1, ends(face, 50))
    with pytest.raises(KeyError, match="daemon"):
        cluster.run()


@EVERY
def test_a_run_until_a_time_returns_then_and_is_gone_on_with_as_if_it_had_not_stopped(name):
    face = FACES[name]

    def started():
        cluster = face.cluster()
        cluster.start(0, ends(face, 100))
        cluster.start(1, ends(face, 300))
        return cluster

    whole, parts = started(), started()
    expected = whole.run()

    assert list(parts.run(until_us=1)) == [None, None]
    assert parts.report().elapsed_us <= 1
    assert list(parts.run(until_us=200)) == ["done", None]
    assert parts.report().elapsed_us <= 200
    assert parts.run() == expected
    assert parts.report().to_json() == whole.report().to_json()
    with pytest.raises(SimulationError, match=r"a second run\(\)"):
        parts.run()


@EVERY
def test_a_run_until_a_time_forgives_what_waits_and_the_next_one_does_not(name):
    face = FACES[name]
    cluster = face.cluster()
    cluster.start(0, waits(face))

    assert list(cluster.run(until_us=500)) == [None]
    with pytest.raises(StuckError, match="a program waits"):
        cluster.run()


@EVERY
def test_a_wait_ends_in_time_with_an_error_that_names_it(name):
    face = FACES[name]

    async def program(given):
        end = await face.open(given)
        me = getattr(end, "process", end)
        begun = me.now_us
        try:
            await face.wait(end, 40)  # here
        except TimeoutError as error:
            return error, me.now_us - begun
        raise AssertionError

    [(error, took)] = results_of(face.cluster(), program)

    assert isinstance(error, WaitTimeoutError)
    assert 40 <= took < 55  # to be woken takes its time too
    if name == "VIA":
        assert str(error) == "VIP_TIMEOUT: nobody asked for 'x' in time"
        assert error.code is Return.VIP_TIMEOUT
        return
    assert str(error).startswith(f"{face.call}, {place(program, '# here')}, has waited long enough")


@EVERY
@pytest.mark.parametrize("wrong", [-1, float("nan"), "soon"])
def test_a_time_that_is_none_is_refused(name, wrong):
    face = FACES[name]

    async def program(given):
        await face.wait(await face.open(given), wrong)

    with pytest.raises(SimulationError, match="time"):
        results_of(face.cluster(), program)


async def times_out(call):
    with pytest.raises(WaitTimeoutError):
        await call


def test_waits_for_the_end_of_what_is_sent_and_for_names_end_in_time_too():
    async def on_unet(process):
        endpoint = await process.open()
        await times_out(endpoint.connect(1, "nobody", timeout_us=30))
        await times_out(endpoint.sent(timeout_us=5))
        await times_out(endpoint.receive("block", timeout_us=5))
        await times_out(endpoint.receive("signal", timeout_us=5))
        return process.now_us

    async def on_vmmc(endpoint):
        await times_out(endpoint.import_buffer(1, "nobody", 30))
        await times_out(endpoint.done(timeout_us=5))
        return endpoint.now_us

    async def on_mini(endpoint):
        await times_out(endpoint.find("nobody", 5, timeout_us=30))
        await times_out(endpoint.done(timeout_us=5))
        return endpoint.now_us

    assert 45 < results_of(unet.Cluster(), on_unet)[0] < 120
    assert 35 < results_of(vmmc.Cluster(), on_vmmc)[0] < 80
    assert 35 < results_of(mini.Cluster(), on_mini)[0] < 80


def test_a_transfer_that_was_not_done_in_time_is_waited_for_again():
    async def keeps(endpoint):
        await endpoint.export(endpoint.allocate(40_000), "x")
        await endpoint.sleep(50_000)

    async def stores(endpoint):
        there = await endpoint.import_buffer(0, "x")
        transfer = await endpoint.store(there, endpoint.allocate(40_000))
        tries = 0
        while True:
            try:
                return (await endpoint.wait(transfer, timeout_us=50)).ok, tries
            except TimeoutError:
                tries += 1

    ok, tries = results_of(vmmc.Cluster(), keeps, stores)[1]
    assert ok
    assert tries > 3


def test_a_full_send_ring_is_waited_for_in_time():
    async def sends(endpoint):
        page, sent = endpoint.allocate(8192), 0
        endpoint.reserve(2)[:] = b"ab"
        while True:
            try:
                await endpoint.send(1, page, timeout_us=100)
            except TimeoutError:
                break
            sent += 1
            endpoint.reserve(2)[:] = b"ab"
        await endpoint.sleep(2000)
        await endpoint.send(1, page)  # what was reserved still is
        return sent

    async def takes(endpoint):
        await endpoint.sleep(30_000)  # longer than its ring and the sender's take to fill
        heads = []
        for _ in range(1000):
            try:
                message = await endpoint.receive(timeout_us=5000)
            except TimeoutError:
                break
            heads.append(message.scan(2))
            endpoint.release(message)
        return heads

    sent, heads = results_of(trapeze.Cluster("p6-natoma"), sends, takes)
    assert sent > 3
    assert heads == [b"ab"] * (sent + 1)


PATIENCES = st.lists(st.floats(0, 400), min_size=1, max_size=5)
PAUSES = st.lists(st.floats(0, 300), min_size=1, max_size=5)
COUNT = 6


async def all_in_time(receive, patiences):
    """What ``receive`` gives, tried with ever more patience until there are all."""
    found, tries = [], 0
    while len(found) < COUNT and tries < 200:
        patience = patiences[tries % len(patiences)]
        tries += 1
        try:
            found.append(await receive((patience + 1) * (1 + tries // 4)))
        except TimeoutError:
            continue
    return found


@share(0.4)
@given(PATIENCES, PAUSES, st.integers(0, 50))
def test_waits_that_end_in_time_lose_and_double_nothing_on_vmmc(patiences, pauses, seed):
    async def keeps(endpoint):
        await endpoint.export(endpoint.allocate(4096), "x")

        async def receive(us):
            return (await endpoint.notification("poll", timeout_us=us)).offset

        return await all_in_time(receive, patiences)

    async def stores(endpoint):
        there, buffer = await endpoint.import_buffer(0, "x"), endpoint.allocate(64)
        for number in range(COUNT):
            transfer = await endpoint.store(there, buffer, number, length=8, notify=True)
            await endpoint.sleep(pauses[number % len(pauses)])
            await endpoint.wait(transfer)

    cluster = vmmc.Cluster(faults=Faults(loss=0.1, seed=seed))
    assert results_of(cluster, keeps, stores)[0] == list(range(COUNT))


@share(0.4)
@given(PATIENCES, PAUSES)
def test_waits_that_end_in_time_lose_and_double_nothing_on_trapeze(patiences, pauses):
    async def takes(endpoint):
        async def receive(us):
            message = await endpoint.receive(timeout_us=us)
            found = int(message.payload[0])
            endpoint.release(message)
            return found

        return await all_in_time(receive, patiences)

    async def sends(endpoint):
        page = endpoint.allocate(4096)
        for number in range(COUNT):
            await page.write(bytes([number] * 4096))
            await endpoint.send(0, page)
            await endpoint.sleep(pauses[number % len(pauses)])

    assert results_of(trapeze.Cluster("p6-natoma"), takes, sends)[0] == list(range(COUNT))


@share(0.4)
@given(PATIENCES, PAUSES, st.integers(0, 50))
def test_waits_that_end_in_time_lose_and_double_nothing_on_via(patiences, pauses, seed):
    async def end_of(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag, Reliability.VIP_SERVICE_RELIABLE_RECEPTION)
        places = await nic.descriptors(tag)
        return nic, vi, places, await nic.register_mem(nic.allocate(4096), tag)

    async def takes(host):
        nic, vi, places, region = await end_of(host)
        for number in range(COUNT):
            await nic.post_recv(vi, places.request(region.segment(8 * number, 8)))
        await nic.connect_accept(await nic.connect_wait("x"), vi)

        async def receive(us):
            return (await nic.recv_wait(vi, us)).length

        return await all_in_time(receive, patiences)

    async def sends(host):
        nic, vi, places, region = await end_of(host)
        for _ in range(1000):
            try:
                await nic.connect_request(vi, 0, "x", 500)
                break
            except VipError:
                continue
        for number in range(COUNT):
            await nic.post_send(vi, places.request(region.segment(0, number + 1)))
            await nic.compute(pauses[number % len(pauses)])
            await nic.send_wait(vi)

    cluster = via.Cluster(loss=0.1, seed=seed)
    assert results_of(cluster, takes, sends)[0] == list(range(1, COUNT + 1))
