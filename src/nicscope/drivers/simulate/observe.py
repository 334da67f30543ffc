"""The observer's records: they cost nothing and keep as many as the caller made room for."""

from __future__ import annotations

from nicscope.drivers.simulate.log import Engine
from nicscope.drivers.simulate.machine import INTERRUPTED
from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import POST_PAYLOAD, SERVE

HOST_WRITE = int(Engine.HOST_WRITE)
HOST_TX = int(Engine.HOST_TX)
NET_TX = int(Engine.NET_TX)
NET_RCV = int(Engine.NET_RCV)
HOST_RCV = int(Engine.HOST_RCV)
HOST_READ = int(Engine.HOST_READ)
FIRMWARE = int(Engine.FIRMWARE)
CPU_WORK = int(Engine.CPU)
TABLE = int(Engine.TABLE)
DESCRIPTOR = int(Engine.DESCRIPTOR)
REPORT = int(Engine.REPORT)


@step
def log_transfer(machine, engine, node, sender, packet, control, start, end, byte_count):
    """Keep one record of a transfer or a host operation."""
    if machine.tally[0].log < machine.log.size:
        _write_down(machine, engine, node, sender, packet, control, start, end, byte_count)
    machine.tally[0].log += 1


@routine
def _write_down(machine, engine, node, sender, packet, control, start, end, byte_count):
    record = machine.log[machine.tally[0].log]
    record.packet = packet
    record.sender = sender
    record.node = node
    record.engine = engine
    record.task = -1
    record.control = control
    record.start = start
    record.end = end
    record.bytes = byte_count
    record.lookup = 0


@step
def log_action(machine, node, task, sender, packet, start, end):
    """Keep one record of an action of the firmware."""
    log_transfer(machine, FIRMWARE, node, sender, packet, 0, start, end, 0)
    if machine.tally[0].log <= machine.log.size:
        record = machine.log[machine.tally[0].log - 1]
        record.task = task
        if task in (SERVE, POST_PAYLOAD) and machine.ports.nodes.size > 0:
            record.lookup = machine.ports.nodes[node].looking


@step
def log_work(machine, n, what, now, byte_count=0):
    """Keep one record of ``what`` the CPU of ``n`` has done until now, if that took time.

    ``byte_count``: that a program has loaded or stored.
    """
    node = machine.nodes[n]
    if now > node.cpu_since:
        process = -1 if what == INTERRUPTED else node.cpu_process
        log_transfer(machine, CPU_WORK, n, process, -1, 0, node.cpu_since, now, byte_count)
        if machine.tally[0].log <= machine.log.size:
            machine.log[machine.tally[0].log - 1].task = what


@step
def keep_message(machine, packet, read):
    """Keep one message that was read at ``read``, or dropped if that is -1."""
    tally = machine.tally[0]
    if tally.messages < machine.messages.size:
        record = machine.messages[tally.messages]
        record.sender = packet.sender
        record.packet = packet.number
        record.destination = packet.destination
        record.payload = packet.payload
        record.posted = packet.posted_at
        record.read = read
    tally.messages += 1


@step
def count_arrival(node, packet):
    """Count one message that the host has read."""
    node.received += 1
    node.received_bytes += packet.payload
