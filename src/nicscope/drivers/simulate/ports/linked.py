"""The distant functions themselves, from the modules that have them."""

from nicscope.drivers.simulate.bus import (
    arbitration,
    completion_writes,
    moves,
    payloads,
    transactions,
)
from nicscope.drivers.simulate.ports import (
    cpu,
    leaving,
    misses,
    network,
    posting,
    scripted,
    thread,
)
from nicscope.drivers.simulate.ports.calls import DRIVER
from nicscope.drivers.simulate.traced import follower
from nicscope.host import library, pages, release
from nicscope.host.calls import HOST
from nicscope.nic import handles
from nicscope.nic.ports import (
    arrivals,
    complete,
    connection,
    free_queue,
    lookup,
    plan,
    program_memory,
    receive,
    receive_queue,
    remote_memory,
    resume,
    retransmit,
    transmit,
    window,
    work_queues,
    work_requests,
)
from nicscope.nic.ports.calls import FIRMWARE

_MODULES = (
    cpu, leaving, misses, network, posting, scripted, thread, follower,
    arbitration, completion_writes, moves, payloads, transactions,
    library, pages, release,
    arrivals, complete, connection, free_queue, handles, lookup, plan,
    program_memory, receive, receive_queue, remote_memory, resume, retransmit, transmit, window,
    work_queues, work_requests,
)  # fmt: skip
FUNCTIONS = tuple(
    each for declared in (FIRMWARE, HOST, DRIVER) for each in declared.found_in(*_MODULES)
)
