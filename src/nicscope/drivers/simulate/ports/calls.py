"""What the driver of nodes with ports does, called from a distance.

``host.calls`` and ``nic.ports.calls`` are for what takes no time; ``linked.FUNCTIONS`` has the
functions themselves.
"""

from __future__ import annotations

from nicscope.host.calls import HOST
from nicscope.kernel.distant import Declarations

DRIVER = Declarations(behind=HOST)


@DRIVER.function
def check_transfer(machine, n):
    """Count the PCI transfer of ``n`` if the translation that it uses no longer holds."""


@DRIVER.function
def steal_cpu(machine, n, duration, now):
    """Take ``duration`` ps from the CPU of ``n``: now if it idles, else from what it does."""


@DRIVER.function
def leave_packet(machine, n, place, now):
    """The last byte of the packet at ``place`` of the send ring of ``n`` has left."""


@DRIVER.function
def follow_outcome(machine, n, now):
    """See to the miss that the firmware's action has ended with: the processor waits, or a port."""


@DRIVER.question
def can_go_on_at_port(machine, n, p):
    """Whether what process ``p`` of node ``n`` waits for at its port can begin."""


@DRIVER.function
def begin_at_port(machine, n, p, now):
    """Have the CPU of ``n`` do what process ``p`` asks of its port."""


@DRIVER.function
def end_at_port(machine, n, p, now):
    """Effect of what the CPU of ``n`` has done for process ``p`` at its port."""


@DRIVER.function
def end_miss(machine, n, now):
    """The processor of ``n`` has waited: effect of the miss's present stage."""


@DRIVER.function
def go_on_with_thread(machine, n, now):
    """Effect of the kernel thread's timer at ``n``."""


@DRIVER.function
def raise_event(machine, n, who, space, page, receive, ahead, when):
    """Append a miss to the queue at ``when``, unless it is there; ``who`` waits if it is a port."""


@DRIVER.question
def thread_is_done(machine, n, now):
    """Let the thread go on at ``now``; whether its queue's head is to be filled."""


@DRIVER.function
def next_event(machine, n, now):
    """The event at the head of the queue is served; the thread turns to the next, or sleeps."""


@DRIVER.function
def scan_pins(machine, n, now):
    """Unpin what is pinned beyond the high water, if a scan is due; see to the next one."""


@DRIVER.function
def go_on_with_script(machine, p, now):
    """What the scripted process ``p`` does next, now that its operation has ended."""


@DRIVER.function
def go_on_with_trace(machine, p, now):
    """What process ``p``, which follows a program trace, does next."""


@DRIVER.function
def bring_descriptor(machine, n, now):
    """Have the engine, when free, fetch the descriptor of the port in ``SERVING.bringing``."""


@DRIVER.function
def begin_fetch(machine, n, now):
    """Read entries of the host's table, as soon as the bus is free; the processor waits."""


@DRIVER.function
def serve_in_trap(machine, n, now):
    """Effect of what the CPU has done in a trap."""


@DRIVER.function
def end_miss_in_trap(machine, n, now):
    """The kernel has seen to a miss in a trap, or knows what will: the trap goes on."""


@DRIVER.function
def begin_handler(machine, n, now):
    """A packet is in the kernel's memory: interrupt, unless the handler runs."""


@DRIVER.function
def end_handler(machine, n, now):
    """Effect of the handler's work on one packet, if that has ended; it goes on to the next."""


@DRIVER.function
def meet_packet(machine, d, sender, place, now):
    """The header of a packet from ``sender``, at ``place`` of its ring, is in, if it arrives."""
