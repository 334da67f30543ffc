"""A port whose endpoint has closed is the next one's: nothing of it reaches who had it before."""

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces import mini, unet, vmmc
from nicscope.nic.ports.layout import SEND
from program_results import results_of
from refusals import refused

PAGE = 4096
MODES = ("poll", "block", "signal")
IS_GONE = "port 3 of node 0 is closed: nothing more comes of it"


def played(former, next_one, design="unet-mm-pca200"):
    """What these return: both on node 0, and what node 1 sends goes to the next owner.

    Each has an endpoint of its own, so that both get port 3 for another.
    """
    closed = []

    async def before(process):
        await process.open()
        extra = await process.open()
        assert extra.port == 3
        return await former(process, extra, closed)

    async def after(process):
        await process.open()
        while not closed:
            await process.sleep(5)
        return await next_one(process)

    async def sender(process):
        endpoint = await process.open("sender")
        tag = await endpoint.connect(0, "next")
        await endpoint.send(tag, b"for the next")
        return (await endpoint.sent()).status

    return results_of(unet.Cluster(design, endpoints=3), (0, before), (0, after), (1, sender))


async def opens_and_hears(process):
    """The next owner: it sends, and is sent something."""
    endpoint = await process.open("next")
    assert endpoint.port == 3
    tag = await endpoint.connect(1, "sender")
    request = await endpoint.send(tag, b"hello")
    return request, (await endpoint.sent()).request, (await endpoint.receive()).content


@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet-mm-dc21140"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", ["receive", "sent"])
def test_a_closed_endpoint_waits_for_no_report_of_the_next_one(call, mode, design):
    async def former(_process, extra, closed):
        await extra.close()
        closed.append(True)
        with pytest.raises(SimulationError, match=IS_GONE):
            await getattr(extra, call)(mode)

    _, (request, reported, content), status = played(former, opens_and_hears, design)
    assert (request, content, status) == (reported, b"for the next", "done")


@pytest.mark.parametrize("delay", range(0, 40, 3))
def test_a_report_that_is_asked_for_while_the_port_is_given_on_is_the_former_owners_or_none(delay):
    """It was there when it was asked for; the CPU was busy with the other's opening."""

    async def former(process, extra, closed):
        tag = await extra.connect(1, "sender")
        await extra.send(tag, b"mine")
        await process.sleep(200)
        await extra.close()
        closed.append(True)
        await process.sleep(delay / 2)
        try:
            return (await extra.sent()).ok
        except SimulationError as error:
            said = str(error)
        assert "closed" in said
        return False

    heard, (request, reported, content), status = played(former, opens_and_hears)
    assert type(heard) is bool
    assert (request, content, status) == (reported, b"for the next", "done")


def test_a_descriptor_that_waits_for_room_at_a_closed_port_is_not_posted_at_the_next_ones():
    async def former(process, extra, closed):
        ring = process.cluster.size.ring
        room = process.allocate(PAGE)
        tag = await extra.connect(1, "sender")
        await extra.close()
        for _ in range(ring):  # each ends as "closed", and nobody reads that
            await process.post(SEND, tag, [(room.address, 100)], port=3)
        closed.append(True)
        with pytest.raises(SimulationError, match=IS_GONE):
            await process.post_inline(SEND, tag, b"in the name of the next", port=3)
        with refused(SimulationError, "port 3 of node 0", "this process's"):
            await process.post_inline(SEND, tag, b"once more", port=3)

    _, (request, reported, content), status = played(former, opens_and_hears)
    assert (request, content, status) == (reported, b"for the next", "done")


def test_a_port_without_an_endpoint_is_not_opened_by_who_had_one_there():
    """Or what was put into its queues would be the next one's."""

    async def former(process, extra, closed):
        await extra.close()
        with refused(SimulationError, "port 3 of node 0", "no endpoint"):
            process.open_port(3)
        closed.append(True)

    _, (request, reported, content), status = played(former, opens_and_hears)
    assert (request, content, status) == (reported, b"for the next", "done")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("interface", [vmmc, mini])
def test_a_closed_port_that_has_nothing_to_report_is_not_waited_at(interface, mode):
    """Of VMMC and miNI too; a report that is there can still be read."""

    async def closes(endpoint):
        page = endpoint.allocate(PAGE)
        await endpoint.close_port()
        await endpoint.post(SEND, 0, [(page.address, 8)])
        assert (await endpoint.done(mode)).status == "closed"
        for call in (endpoint.done, endpoint.arrival):
            with refused(SimulationError, "port 1 of node 0", "closed"):
                await call(mode)
        endpoint.open_port(endpoint.port)
        await endpoint.post(SEND, 0, [(page.address, 8)])
        return (await endpoint.done(mode)).status

    assert results_of(interface.Cluster(), closes) == ["tag not registered"]


async def frames_of(area, _):
    assert area.frames


# The ways into an area.
REACHES = {
    "read": lambda _, buffer: buffer.read(1),
    "write": lambda _, buffer: buffer.write(b"!"),
    "allocate": lambda area, _: area.allocate(PAGE).write(b"!"),
    "store": lambda area, _: area._store_at(0, b"!"),
    "load": lambda area, _: area._load_at(0, 1),
    "frames": frames_of,
}


@pytest.mark.requirement("UM-16")
@pytest.mark.parametrize("call", REACHES)
def test_nothing_of_a_closed_endpoints_area_reaches_what_lies_there_next(call):
    async def former(process):
        await process.open()
        endpoint = await process.open()
        assert endpoint.port == 3
        area, buffer = endpoint.area, endpoint.allocate(PAGE)
        await endpoint.close()
        state["closed"] = True
        while "written" not in state:
            await process.sleep(10)
        with pytest.raises(SimulationError, match="clos"):
            await REACHES[call](area, buffer)
        state["tried"] = True

    async def next_one(process):
        await process.open()
        while "closed" not in state:
            await process.sleep(10)
        endpoint = await process.open()
        assert endpoint.port == 3
        buffer = endpoint.allocate(PAGE)
        await buffer.write(b"private")
        state["written"] = True
        while "tried" not in state:
            await process.sleep(10)
        return await buffer.read(7)

    state = {}
    cluster = unet.Cluster("unet", "pca200-linux", area_bytes=4 * PAGE, endpoints=3)
    assert results_of(cluster, (0, former), (0, next_one))[1] == b"private"
