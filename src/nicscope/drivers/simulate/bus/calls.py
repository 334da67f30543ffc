"""What happens at a bus, called from a distance: a simulation without one compiles none of it."""

from __future__ import annotations

from nicscope.drivers.simulate.ports.calls import PORTS


@PORTS.function
def fire_bus(machine, n, now):
    """The first request of the bus of ``n`` is ordered now."""


@PORTS.function
def begin_at_bus(machine, n, p, now):
    """Begin the access of process ``p`` on the idle CPU of ``n``."""


@PORTS.function
def go_on_accessing(machine, n, now):
    """The CPU of ``n`` goes on with its access, which may end."""


@PORTS.question
def begin_errand(machine, n, p, now):
    """Whether the CPU has a part of the way to do before what ``p`` asked for takes effect."""


@PORTS.function
def begin_payload(machine, n, count, now):
    """Begin the move of ``count`` bytes of the packet that the engine of ``n`` is for."""


@PORTS.function
def fetched_over_bus(machine, n, now):
    """Payload bytes in NIC memory of the packet that is fetched."""


@PORTS.function
def fetched_at(machine, n, count):
    """When ``count`` bytes of it will be there, as far as that is settled, else ``NEVER``."""


@PORTS.function
def go_on_moving(machine, n, master, now):
    """The move of ``master`` goes on: what it waited for is over."""


@PORTS.function
def register_frame(machine, n, frame):
    """The NIC of ``n`` keeps a copy of ``frame``, which is pinned, if it has room for it."""


@PORTS.function
def deregister_frame(machine, n, frame):
    """The NIC of ``n`` keeps no copy of ``frame`` any more; nothing is pinned there."""


@PORTS.function
def tell_over_bus(machine, n, p, ring, now):
    """A report of port ``p`` of ``n`` is made: the NIC writes it when those before are written."""


@PORTS.function
def end_telling(machine, n, now):
    """A report is in the host's memory; the next one goes."""


@PORTS.function
def tell_of_engine(machine, n, now):
    """The engine may be free: a CPU that waits for it looks."""


@PORTS.function
def leave_room(machine, n, p, slot):
    """The descriptor in ``slot`` of port ``p`` has ended: so has its room."""


@PORTS.function
def leave_rooms(machine, n, p):
    """Port ``p`` has closed: nobody reads what has come for it."""
