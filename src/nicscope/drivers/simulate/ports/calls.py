"""Distant functions of drivers of nodes with ports.

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
def interrupt_cpu(machine, n, duration, now):
    """Take ``duration`` ps from the CPU of ``n``: now if it idles, else from what it does."""


@DRIVER.function
def end_packet_send(machine, n, place, now):
    """The last byte of the packet at ``place`` of the send ring of ``n`` has left."""


@DRIVER.function
def serve_miss(machine, n, now):
    """Serves the miss that ended the firmware's action: the processor waits, or a port does."""


@DRIVER.question
def can_begin_at_port(machine, n, p):
    """Whether what process ``p`` of node ``n`` waits for at its port can begin."""


@DRIVER.function
def begin_at_port(machine, n, p, now):
    """Has the CPU of ``n`` carry out what process ``p`` asks of its port."""


@DRIVER.function
def end_at_port(machine, n, p, now):
    """Completes what the CPU of ``n`` has done for process ``p`` at its port."""


@DRIVER.function
def end_miss(machine, n, now):
    """Ends the present stage of the miss for which the processor of ``n`` has waited."""


@DRIVER.function
def run_kernel_thread(machine, n, now):
    """Runs the kernel thread of ``n``, whose timer has fired."""


@DRIVER.function
def queue_miss(machine, n, who, space, page, receive, ahead, when):
    """Queues a miss at ``when``, unless it is queued; ``who`` waits if it is a port."""


@DRIVER.question
def end_thread_step(machine, n, now):
    """Ends the kernel thread's present step; returns whether its queue's head is to be filled."""


@DRIVER.function
def serve_next_miss(machine, n, now):
    """Dequeues the miss that has been served; the thread takes the next one, or sleeps."""


@DRIVER.function
def scan_pins(machine, n, now):
    """Unpins pages above the high water mark if a scan is due; schedules the next scan."""


@DRIVER.function
def run_script_process(machine, p, now):
    """Begins the next row of the scripted process ``p``, whose operation has ended."""


@DRIVER.function
def run_trace_process(machine, p, now):
    """Continues process ``p``, which follows a program trace."""


@DRIVER.function
def fetch_descriptor(machine, n, now):
    """Fetches the descriptor of the port in ``SERVING.bringing`` once the engine is free."""


@DRIVER.function
def begin_fetch(machine, n, now):
    """Read entries of the host's table, as soon as the bus is free; the processor waits."""


@DRIVER.function
def serve_in_trap(machine, n, now):
    """Ends the step that the CPU has carried out in a trap."""


@DRIVER.function
def end_miss_in_trap(machine, n, now):
    """Continues the trap: the kernel has served a miss, or knows what will."""


@DRIVER.function
def begin_handler(machine, n, now):
    """Raises an interrupt for a packet in the kernel's memory, unless the handler runs."""


@DRIVER.function
def end_handler(machine, n, now):
    """Ends the handler's work on one packet, if that is over, and takes the next."""


@DRIVER.function
def receive_header(machine, d, sender, place, now):
    """Handles the header of a packet from ``sender`` at ``place`` of its ring, if it arrives."""
