"""What registering memory does: pages are pinned, and a NIC that watches the bus has their copy."""

import pytest
from conforming import code_of
from pairs import MECHANISMS, Cluster, ended, idle, make_end, run_pair

from nicscope.config.design import load_design, with_settings
from nicscope.interfaces.via import Return, Status, VipError
from nicscope.interfaces.via.descriptor import STATUS_ERROR_MASK, AddressSegment, DataSegment
from nicscope.memory.coherence.layout import EMPTY, INVALID, SHARED
from program_results import results_of

PAGE = 4096
BLOCK = 128


def places_of(cluster, region, node=0, process=0):
    """Where ``node`` has each page of a region in its memory, and its NIC in its own."""
    machine = cluster.simulation.machine
    memory = machine.ports.memory
    first = region.address // PAGE
    pages = range(first, first + -(-region.length // PAGE))
    hosts = [int(memory.entries[node, process, page]["frame"]) * PAGE for page in pages]
    homes = machine.bus.ways.agents.home[node]
    return hosts, [int(homes[place // BLOCK]) for place in hosts]


def run_alone(program, **how):
    cluster = Cluster(nodes=1, **how)

    async def made(host):
        return await program(cluster, host)

    return results_of(cluster, made)[0]


@pytest.mark.requirement("ED-5")
def test_registration_pins_each_page_and_gives_it_a_copy_on_the_nic_and_takes_time_by_the_page():
    async def program(cluster, host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        times, regions = [], []
        for pages in (1, 4):
            begun = nic.now_us
            regions.append(await nic.register_mem(nic.allocate(pages * PAGE), tag))
            times.append(nic.now_us - begun)
        hosts, held = places_of(cluster, regions[1])
        pins = cluster.simulation.machine.ports.memory.frames[0]["pins"]
        return times, held, [int(pins[place // PAGE]) for place in hosts]

    found = run_alone(program, settings={"user_pin": 100_000_000})
    (one, four), held, pinned = found
    assert (round(one, -2), round(four, -2)) == (100, 400)
    assert len(set(held)) == 4
    assert EMPTY not in held
    assert pinned == [1] * 4


@pytest.mark.requirement("ED-5")
@pytest.mark.parametrize("mechanism", ["pci", "edt", "cc-dma-intervention", "pio"])
def test_deregistration_unpins_what_nothing_else_has_registered(mechanism):
    """And leaves the NIC's table and its memory to others."""

    async def program(cluster, host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        room = nic.allocate(3 * PAGE)
        whole = await nic.register_mem(room, tag)
        half = await nic.register_mem(room.part(PAGE, PAGE), tag)
        machine = cluster.simulation.machine
        memory = machine.ports.memory
        first = room.address // PAGE
        frames = [int(memory.entries[0, 0, first + page]["frame"]) for page in range(3)]
        seen = []
        for region in (whole, half):
            await nic.deregister_mem(region)
            seen.append([int(memory.frames[0]["pins"][frame]) for frame in frames])
            if cluster.way == "edt":
                held = machine.bus.ways.agents.home[0]
                seen[-1] += [int(held[frame * PAGE // BLOCK]) != EMPTY for frame in frames]
        return seen

    found = run_alone(program, mechanism=mechanism)
    if mechanism == "edt":
        assert found == [[0, 1, 0, False, True, False], [0, 0, 0, False, False, False]]
    else:
        assert found == [[0, 1, 0], [0, 0, 0]]


@pytest.mark.requirement("ED-5")
def test_memory_that_is_given_back_makes_room_in_the_table_of_the_nic():
    """However often: a table of 8 pages is full at the ninth, and has room again."""

    async def program(cluster, host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        room = nic.allocate(12 * PAGE)
        pins = cluster.simulation.machine.ports.memory.frames[0]["pins"]
        before = int(pins.sum())
        for turn in range(5):
            regions = [
                await nic.register_mem(room.part((turn + page) * PAGE, PAGE), tag)
                for page in range(8)
            ]
            with pytest.raises(VipError, match="VIP_ERROR_RESOURCE"):
                await nic.register_mem(room.part((turn + 8) % 12 * PAGE, PAGE), tag)
            await nic.write(room.address + turn * PAGE, b"first")
            for region in regions[::-1] if turn % 2 else regions:
                await nic.deregister_mem(region)
        return int(pins.sum()) - before

    design = with_settings(load_design("via-static"), ["entries=8"])
    assert run_alone(program, design=design, mechanism="pio") == 0


@pytest.mark.requirement("ED-5")
def test_descriptors_and_completion_queues_lie_in_registered_memory_too():
    async def program(cluster, host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        memory = cluster.simulation.machine.ports.memory
        registers = cluster.simulation.machine.bus.ways.nics.registers[0, 0]

        def held():
            return int((memory.frames[0]["pins"] > 0).sum()), int(registers["registrations"])

        found = [held()]
        await nic.descriptors(tag, 4)
        found.append(held())
        await nic.create_cq(tag)
        found.append(held())
        return found

    before, with_descriptors, with_queue = run_alone(program)
    for less, more in ((before, with_descriptors), (with_descriptors, with_queue)):
        assert [b - a for a, b in zip(less, more, strict=True)] == [1, 1]


@pytest.mark.requirement("ED-19")
@pytest.mark.parametrize(("initialisation", "state"), [(1, INVALID), (2, SHARED)])
def test_the_nic_sets_a_registration_up_without_the_program(initialisation, state):
    async def program(cluster, host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        machine = cluster.simulation.machine
        buffer = nic.allocate(1024)
        await nic.write(buffer.address, b"dirty in the host's caches")
        before = int(machine.bus.hosts.registers[0, 0]["cpu_writes"])
        region = await nic.register_mem(buffer, tag)
        after = int(machine.bus.hosts.registers[0, 0]["cpu_writes"])
        await nic.compute(100)
        _, (home,) = places_of(cluster, region)
        copies = machine.bus.ways.agents.copies[0, home : home + PAGE // BLOCK]
        return after - before, {int(one["state"]) for one in copies}

    assert run_alone(program, settings={"initialisation": initialisation}) == (0, {state})


@pytest.mark.requirement("ED-62", "ED-60")
def test_user_host_and_nic_addresses_are_three_and_the_nic_finds_its_own():
    cluster = Cluster()

    async def first(host):
        end = await make_end(host)
        await end.nic.connect_request(end.vi, 1, "test")
        await end.nic.write(end.out.address + 137, b"thrice translated")  # amid a block
        await end.nic.post_send(end.vi, end.send(137, 17))
        assert (await end.nic.send_wait(end.vi)).ok
        (at,), (home,) = places_of(cluster, end.out)
        copy = cluster.simulation.machine.bus.ways.agents.memory[0]
        return end.out.address, at, home * BLOCK, copy[home * BLOCK + 137 :][:17].tobytes()

    async def second(host):
        end = await make_end(host)
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("test"), end.vi)
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, 17)

    (user, at, home, kept), came = results_of(cluster, first, second)
    assert len({user, at, home}) == 3
    assert kept == came == b"thrice translated"


@pytest.mark.requirement("ED-62")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_pages_that_are_apart_in_host_memory_are_found(mechanism):
    """At either end the second page of a buffer lies before the first, and a message in both."""
    cluster = Cluster(mechanism=mechanism)
    raw, at = bytes(i % 251 for i in range(300)), PAGE - 131

    async def buffer_of(end):
        room = end.nic.allocate(2 * PAGE)
        for page in (1, 0):
            await end.nic.write(room.address + page * PAGE, b"touched")
        region = await end.nic.register_mem(room, end.tag)
        (low, high), _ = places_of(cluster, region, end.nic.node)
        assert high != low + PAGE
        return region

    async def first(host):
        end = await make_end(host)
        region = await buffer_of(end)
        await end.nic.connect_request(end.vi, 1, "test")
        await end.nic.write(region.address + at, raw)
        await end.nic.post_send(end.vi, end.places.request(region.segment(at, 300)))
        return (await end.nic.send_wait(end.vi)).ok

    async def second(host):
        end = await make_end(host)
        region = await buffer_of(end)
        await end.nic.post_recv(end.vi, end.places.request(region.segment(at, 300)))
        await end.nic.connect_accept(await end.nic.connect_wait("test"), end.vi)
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(region.address + at, 300)

    assert results_of(cluster, first, second) == [True, raw]


@pytest.mark.requirement("ED-32")
def test_what_arrives_is_written_back_to_memory_before_its_end_is_told_as_the_paper_measured():
    cluster = Cluster()

    async def first(host):
        end = await make_end(host)
        await end.nic.connect_request(end.vi, 1, "test")
        await end.nic.write(end.out.address, bytes(range(1, 201)))
        await end.nic.post_send(end.vi, end.send(0, 200))

    async def second(host):
        end = await make_end(host)
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("test"), end.vi)
        await end.nic.recv_wait(end.vi)
        (at,), (home,) = places_of(cluster, end.into, 1)
        bus = cluster.simulation.machine.bus
        copies = bus.ways.agents.copies[1, home : home + 2]
        return bus.hosts.memory[1, at : at + 200].tobytes(), {int(one["state"]) for one in copies}

    assert results_of(cluster, first, second)[1] == (bytes(range(1, 201)), {SHARED})


def test_a_buffer_that_finds_no_room_on_the_nic_is_moved_by_its_engine():
    """``pinned_bytes_max`` holds the places of descriptors and two buffers of two at each end."""

    async def first(end):
        await end.nic.write(end.out.address, bytes(range(200)))
        await end.nic.post_send(end.vi, end.send(0, 200))
        return (await end.nic.send_wait(end.vi)).ok

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, 200)

    assert run_pair(first, second, settings={"pinned_bytes_max": PAGE}) == [True, bytes(range(200))]
    assert run_pair(first, idle)[0]


@pytest.mark.parametrize("address", [2**63 - 1, 2**63, 2**64 - 8])
def test_an_address_that_nobody_has_is_the_nics_to_refuse(address):
    async def first(end):
        forged = DataSegment(address, end.out.handle, 8)
        await end.nic.post_send(end.vi, end.places.request(forged))
        sent = await ended(end.nic.send_wait(end.vi))
        await end.nic.disconnect(end.vi)
        await end.nic.connect_request(end.vi, 1, "again")
        remote = AddressSegment(address, end.out.handle)
        await end.nic.rdma_write(end.vi, end.places, [end.out.segment(0, 8)], remote)
        written = await ended(end.nic.send_wait(end.vi))
        return [Status(int(one.status)) & STATUS_ERROR_MASK for one in (sent, written)]

    async def second(end):
        await end.nic.compute(100)
        await end.nic.disconnect(end.vi)
        await end.nic.connect_accept(await end.nic.connect_wait("again"), end.vi)
        await end.nic.compute(200)

    rights = {"enable_rdma_write": True}
    assert run_pair(first, second, rights=rights)[0] == [
        Status.VIP_STATUS_PROTECTION_ERROR,
        Status.VIP_STATUS_RDMA_PROT_ERROR,
    ]


async def sleep_until(nic, us):
    """Leave the CPU to the node's other processes."""
    await code_of(nic.connect_wait("nobody", timeout_us=us - nic.now_us))


@pytest.mark.requirement("ED-49")
def test_registration_waits_until_the_nic_has_room_where_that_is_asked_for():
    """Or it is past the NIC's copies: a page that was given back makes room for the next."""

    def run(when_full):
        async def first(host):
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            regions = [await nic.register_mem(nic.allocate(PAGE), tag) for _ in range(4)]
            await sleep_until(nic, 900)
            await nic.deregister_mem(regions[1])
            await sleep_until(nic, 1500)

        async def second(host):
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            await sleep_until(nic, 500)
            region = await nic.register_mem(nic.allocate(100), tag)
            (held,) = places_of(cluster, region, process=1)[1]
            found = nic.now_us, held != EMPTY
            if when_full == 2:
                found += (await code_of(nic.register_mem(nic.allocate(5 * PAGE), tag)),)
            return found

        cluster = Cluster(nodes=1, settings={"pinned_bytes_max": 4 * PAGE, "when_full": when_full})
        found = results_of(cluster, (0, first), (0, second))[1]
        registers = cluster.simulation.machine.bus.ways.nics.registers[0, 0]
        return found, int(registers["fallbacks"])

    (now, is_held, code), fallbacks = run(2)
    assert 900 < now < 1000
    assert (is_held, code, fallbacks) == (True, Return.VIP_ERROR_RESOURCE, 0)
    (now, is_held), fallbacks = run(1)
    assert 500 < now < 600
    assert (is_held, fallbacks) == (False, 1)
