"""What a Trapeze process builds, sends and names is its own: nothing else comes in between."""

from itertools import chain

import numpy as np
import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of
from refusals import refused

PLATFORM = "p6-natoma"


@pytest.mark.requirement("TR-10")
@pytest.mark.parametrize("received", range(4))
def test_what_is_reserved_is_sent_whatever_is_received_meanwhile(received):
    """Each of four parts is reserved between two messages, of 128 bytes and with a payload."""

    async def builds(endpoint):
        messages = []
        for part in range(4):
            endpoint.reserve(32)[:] = bytes([part + 1]) * 32
            if part >= received:
                messages.append(await endpoint.receive())
        assert [message.control for message in messages] == [b"X" * 128] * len(messages)
        await endpoint.send(1)
        assert [message.control for message in messages] == [b"X" * 128] * len(messages)
        await endpoint.send(1)

    async def other(endpoint):
        page = endpoint.allocate(4096)
        for _ in range(4 - received):
            endpoint.reserve(128)[:] = b"X" * 128
            await endpoint.send(0, page)
        built, empty = await endpoint.receive(), await endpoint.receive()
        return built.control, empty.control

    _, (built, empty) = results_of(Cluster(PLATFORM), builds, other)
    assert built == b"".join(bytes([part + 1]) * 32 for part in range(4))
    assert empty == bytes(128)


def test_a_message_number_is_its_senders_before_and_after_the_message_is_done():
    """Processes of a node count their messages together."""
    each, senders = 6, 3
    numbers = {}

    def of_mine(endpoint, number):
        try:
            endpoint.is_sent(number)
        except SimulationError as error:
            said = str(error)
        else:
            return True
        assert f"has sent no message {number}" in said
        return False

    def sender(own):
        async def program(endpoint):
            mine = numbers.setdefault(own, [])
            for _ in range(each):
                mine.append(await endpoint.send(1))
                assert [n for n in range(each * senders) if of_mine(endpoint, n)] == mine
                await endpoint.sleep(7 * own)
            await endpoint.sleep(2000)
            for number in range(each * senders + 2):
                assert of_mine(endpoint, number) == (number in mine)
                if number in mine:
                    await endpoint.sent(number)
                    continue
                with refused(SimulationError, f"message {number}"):
                    await endpoint.sent(number)

        return program

    async def sink(endpoint):
        for _ in range(each * senders):
            await endpoint.receive()

    cluster = Cluster(PLATFORM)
    for own in range(senders):
        cluster.start(0, sender(own))
    cluster.start(1, sink)
    cluster.run()
    assert sorted(chain(*numbers.values())) == list(range(each * senders))
    assert any(mine != list(range(mine[0], mine[0] + each)) for mine in numbers.values())


def test_a_view_of_memory_is_made_writeable_in_no_way_that_numpy_has():
    """Or a program could change, behind the library, what the NIC has yet to read."""

    def is_read_only(view):
        assert np.asarray(view).dtype == np.uint8
        while isinstance(view, np.ndarray):
            for derived in (view, view[1:], view.view(), view.reshape(-1, 2), np.asarray(view)):
                with pytest.raises(ValueError, match="WRITEABLE"):
                    derived.flags.writeable = True
                with pytest.raises(ValueError, match="WRITEABLE"):
                    derived.setflags(write=True)
                with pytest.raises(ValueError, match="read-only"):
                    derived[...] = 1
            view = view.base
        assert memoryview(view).readonly
        return True

    async def sends(endpoint):
        page = endpoint.allocate(4096)
        view = page.bytes
        await page.write(b"A" * 4096)
        assert bytes(view) == b"A" * 4096  # it shows what changes
        await endpoint.send(1, page)
        return is_read_only(view) and is_read_only(page.part(6, 100).bytes)

    async def hears(endpoint):
        message = await endpoint.receive()
        assert len(message.payload) == 4096
        assert (await endpoint.receive()).payload.shape == (0,)
        return is_read_only(message.payload) and is_read_only(cluster.memory(0))

    async def empty(endpoint):
        await endpoint.sleep(1000)
        await endpoint.send(1)

    cluster = Cluster(PLATFORM)
    assert results_of(cluster, (0, sends), (1, hears), (0, empty)) == [True, True, None]
