"""The bus of hosts whose NICs serve ports: before paged memory, and with the NICs' buffers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nicscope.drivers.simulate.bus.completion_writes import ENTRY_BYTES
from nicscope.drivers.simulate.bus.state import Bus, Parameters, new_bus
from nicscope.drivers.simulate.store import buffers_in
from nicscope.errors import SimulationError
from nicscope.memory.paging.layout import NOBODY, HostMemory
from nicscope.nic.coherent import BY_PROCESSOR, COHERENT_METHOD, FALL_BACK, Mechanism, queue_bytes
from nicscope.nic.ports.descriptor import MOST_BYTES
from nicscope.nic.ports.layout import REPORT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.config.design import Delivery

WINDOW_BYTES = 4096  # that a program stores or loads at once, where there are no pages


def bus_of_ports(
    parameters: Parameters,
    way: Mechanism,
    delivery: Delivery,
    memory: HostMemory,
    processes: int,
    interrupt: int,
    rings: tuple[int, int],
    entries: int = 0,
) -> Bus:
    """Caches before ``memory`` and NICs that move packets over ``way``.

    The NICs watch nothing but cacheable queues, in the last frames of that memory.
    ``interrupt``: ps until their host's CPU does what they cannot; ``rings``: ports and the length
    of theirs; ``entries``: of a host's completion queues.
    Errors: ``SimulationError`` if the buffers of ``delivery`` are more than the interface stages.
    """
    page = int(memory.config[0]["page_size"])
    _check_registering(parameters, way)
    last = memory.frames.shape[1] - bus_frames(parameters, way, rings, page, entries)
    _reserve(memory, last)
    bus = new_bus(
        memory.bytes.shape[0],
        processes,
        parameters.host,
        parameters.nic,
        memory=memory.bytes,
        window_bytes=page,
        tags=parameters.nic["memory_bytes"] // page,  # of a frame each
        queues=way is Mechanism.CNI,
        rings=rings,
        entries=entries,
        rooms=way in BY_PROCESSOR,
    )
    _give_buffers(bus, parameters, way, delivery, REPORT.itemsize + MOST_BYTES)
    bus.rules["reports"] = last * page
    bus.rules["report"] = parameters.nic["staging_bytes"] - REPORT.itemsize
    bus.rules["descriptor"] = bus.rules["report"] - MOST_BYTES
    bus.rules["interrupt"] = interrupt
    return bus


def bus_of_endpoints(
    parameters: Parameters,
    way: Mechanism,
    delivery: Delivery,
    memory: NDArray[np.uint8],
    processes: int,
) -> Bus:
    """The same for NICs without ports, whose hosts' memory is bytes, shape (nodes, bytes).

    Errors: also ``SimulationError`` if a host's are not whole blocks.
    """
    block = parameters.host["l2_line"]
    if memory.shape[1] % block:
        raise SimulationError(
            f"at a bus a host's memory is whole blocks of {block} bytes, got {memory.shape[1]:,}"
        )
    bus = new_bus(
        len(memory),
        processes,
        parameters.host,
        parameters.nic,
        memory=memory,
        window_bytes=WINDOW_BYTES,
        queues=False,
    )
    _give_buffers(bus, parameters, way, delivery)
    return bus


def _give_buffers(
    bus: Bus, parameters: Parameters, way: Mechanism, delivery: Delivery, besides: int = 0
) -> None:
    """Places the staging buffers in the memory of interfaces; ``besides``: bytes behind them."""
    buffer = delivery.max_payload
    need = (delivery.send_buffers + delivery.receive_buffers) * buffer + besides
    staging = parameters.nic["staging_bytes"]
    if need > staging:
        raise SimulationError(
            f"the NIC's buffers take {need:,} bytes, and an interface at the bus has "
            f"{staging:,} for messages (staging_bytes); take fewer buffers or a smaller max_payload"
        )
    bus.rules["way"] = int(way)
    bus.rules["receives"] = delivery.send_buffers * buffer
    bus.rules["buffer"] = buffer


def bus_frames(
    parameters: Parameters, way: Mechanism, rings: tuple[int, int], page: int, entries: int = 0
) -> int:
    """Frames of a host's kernel for what its NIC reports, and for cacheable queues behind that."""
    queues = queue_bytes(parameters.nic, parameters.host["l2_line"])
    reports = math.prod(rings) * 2 * REPORT.itemsize + entries * ENTRY_BYTES
    return -(-reports // page) + (-(-queues // page) if way is Mechanism.CNI else 0)


def _reserve(memory: HostMemory, first: int) -> None:
    """Reserves the frames from ``first`` on, none of which is allocated yet, on each host."""
    count = memory.frames.shape[1] - first
    memory.frames["next_free"][:, first - 1 :] = NOBODY
    memory.frames["pins"][:, first:] = 1
    memory.frames["pinned_to_write"][:, first:] = 1
    memory.hosts["free_frames"] -= count


def _check_registering(parameters: Parameters, way: Mechanism) -> None:
    """Errors: ``SimulationError`` for what no port does with a frame that is registered."""
    for name, value, why in (
        ("receive_method", COHERENT_METHOD, "what arrives must be in the memory that kernels copy"),
        ("when_full", 3 - FALL_BACK, "a frame that finds no room is moved by the engine"),
    ):
        if way is Mechanism.EDT and parameters.nic[name] == value:
            raise SimulationError(f"edt for ports takes no {name} {value}: {why}")


def buffers_of(bus: Bus, delivery: Delivery) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The buffers of the send and of the receive side, where they lie in the NICs' memory."""
    buffers = (delivery.send_buffers, delivery.receive_buffers)
    return buffers_in(bus.ways.agents.memory, buffers, delivery.max_payload)
