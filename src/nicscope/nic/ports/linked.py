"""The modules of the firmware that have distant functions: what a driver links, beside its own."""

from __future__ import annotations

from nicscope.nic.ports import (
    arbitrate,
    complete,
    confirming,
    connection,
    free_queue,
    handle_cache,
    holding,
    plan,
    receive,
    receive_queue,
    receives,
    remote_memory,
    remote_work,
    reports,
    resume,
    retransmit,
    scatter,
    transmit,
    window,
    work_requests,
)

MODULES = (
    arbitrate,
    complete,
    confirming,
    connection,
    free_queue,
    handle_cache,
    holding,
    plan,
    receive,
    receive_queue,
    receives,
    remote_memory,
    remote_work,
    reports,
    resume,
    retransmit,
    scatter,
    transmit,
    window,
    work_requests,
)
