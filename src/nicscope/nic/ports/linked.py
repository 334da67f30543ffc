"""The modules of the firmware that have distant functions: what a driver links, beside its own."""

from __future__ import annotations

from nicscope.nic import handles
from nicscope.nic.ports import (
    arrivals,
    complete,
    connection,
    free_queue,
    lookup,
    plan,
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

MODULES = (
    arrivals,
    complete,
    connection,
    free_queue,
    handles,
    lookup,
    plan,
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
