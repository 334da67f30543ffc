"""Scripted processes: rows of requests, carried out in order without a program.

A process posts a row's descriptor at the row's port, and when as many as may be are outstanding it
waits for a report at that port.  With one outstanding its requests follow one another.
"""

from nicscope.drivers.simulate.host import set_timer
from nicscope.drivers.simulate.ports.calls import run_trace_process
from nicscope.drivers.simulate.records import NO_OPERATION, POST, REPORT, SLEEP
from nicscope.drivers.simulate.traced.state import is_traced
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import layout


@distant
def run_script_process(machine, p, now):
    """Begins the next row of the scripted process ``p``, whose operation has ended."""
    if is_traced(machine):
        run_trace_process(machine, p, now)
        return
    process = machine.processes[p]
    scripted = machine.scripted[p]
    if process.operation == POST:
        scripted.outstanding += 1
    elif process.operation == REPORT and process.own & 1 == layout.SENT:
        scripted.outstanding -= 1
        scripted.failed += process.address != layout.DONE
        scripted.done += 1
        scripted.latency += now - scripted.posted_at
    elif process.operation == REPORT:
        scripted.done += 1
    process.time = now
    if scripted.next < scripted.last and scripted.outstanding < scripted.depth:
        _begin_row(machine, p, now)
    elif scripted.outstanding > 0:
        process.operation = REPORT
        process.own = layout.SENT
        process.address = 0
    else:
        process.operation = NO_OPERATION
        machine.inbox[machine.tally[0].ended] = process
        machine.inbox[machine.tally[0].ended].process = p
        machine.tally[0].ended += 1


@step
def _begin_row(machine, p, now):
    process = machine.processes[p]
    scripted = machine.scripted[p]
    row = machine.script[scripted.next]
    if row.not_before > now:
        process.operation = SLEEP
        process.duration = row.not_before - now
        set_timer(machine, process.node)
        return
    process.operation = row.operation
    process.peer = row.port
    process.own = row.own
    process.tag = row.name
    process.duration = row.offset
    process.address = row.address
    process.payload = row.length
    process.packet = scripted.next
    scripted.posted_at = now
    scripted.next += 1
