"""The bus of hosts whose NICs serve ports: before paged memory, and with the NICs' buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.bus.state import Bus, new_bus
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.coherent.parameters import Parameters
    from nicscope.memory.paging.layout import HostMemory
    from nicscope.nic.coherent.mechanism import Mechanism


def bus_of_ports(
    parameters: Parameters,
    way: Mechanism,
    delivery: Delivery,
    memory: HostMemory,
    processes: int,
    interrupt: int,
) -> Bus:
    """Caches before ``memory`` and NICs that move packets over ``way``.

    The NICs watch nothing: no queue lies in that memory.  ``interrupt``: ps until their host's CPU
    does what they cannot.  Errors: ``SimulationError`` if the
    buffers of ``delivery`` are more than the interface stages.
    """
    buffer = delivery.max_payload
    need = (delivery.send_buffers + delivery.receive_buffers) * buffer
    staging = parameters.nic["staging_bytes"]
    if need > staging:
        raise SimulationError(
            f"the NIC's buffers take {need:,} bytes, and an interface at the bus has "
            f"{staging:,} for messages (staging_bytes); take fewer buffers or a smaller max_payload"
        )
    bus = new_bus(
        memory.bytes.shape[0],
        processes,
        parameters.host,
        parameters.nic,
        memory=memory.bytes,
        window_bytes=int(memory.config[0]["page_size"]),
        queues=False,
    )
    bus.rules["way"] = int(way)
    bus.rules["receives"] = delivery.send_buffers * buffer
    bus.rules["buffer"] = buffer
    bus.rules["interrupt"] = interrupt
    return bus


def buffers_of(bus: Bus, delivery: Delivery) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The buffers of the send and of the receive side, where they lie in the NICs' memory."""
    memory = bus.ways.agents.memory
    first = int(bus.rules[0]["receives"])
    last = first + delivery.receive_buffers * delivery.max_payload
    shape = (memory.shape[0], -1, delivery.max_payload)
    return memory[:, :first].reshape(shape, copy=False), memory[:, first:last].reshape(
        shape, copy=False
    )
