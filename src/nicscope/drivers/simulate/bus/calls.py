"""What happens at a bus, called from a distance: a simulation without one compiles none of it."""

from __future__ import annotations

from nicscope.drivers.simulate.ports.calls import DRIVER


@DRIVER.function
def fire_bus(machine, n, now):
    """The first request of the bus of ``n`` is ordered now."""


@DRIVER.function
def begin_at_bus(machine, n, p, now):
    """Begin the access of process ``p`` on the idle CPU of ``n``."""


@DRIVER.function
def go_on_accessing(machine, n, now):
    """The CPU of ``n`` goes on with its access, which may end."""


@DRIVER.question
def begin_errand(machine, n, p, now):
    """Whether the CPU has a part of the way to do before what ``p`` asked for takes effect."""


@DRIVER.function
def begin_payload(machine, n, count, now):
    """Begin the move of ``count`` bytes of the packet that the engine of ``n`` is for."""


@DRIVER.function
def fetched_over_bus(machine, n, now):
    """Payload bytes in NIC memory of the packet that is fetched."""


@DRIVER.function
def fetched_at(machine, n, count):
    """When ``count`` bytes of it will be there, as far as that is settled, else ``NEVER``."""


@DRIVER.function
def go_on_moving(machine, n, master, now):
    """The move of ``master`` goes on: what it waited for is over."""


@DRIVER.function
def end_telling(machine, n, now):
    """A report is in the host's memory; the next one goes."""


@DRIVER.function
def take_descriptor(machine, n):
    """The descriptor that the NIC of ``n`` fetches has come, or a part of it."""


@DRIVER.function
def tell_of_engine(machine, n, now):
    """The engine may be free: a CPU that waits for it looks."""
