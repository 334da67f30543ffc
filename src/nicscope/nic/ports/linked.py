"""The modules of the firmware that have distant functions: what a driver links, beside its own."""

from __future__ import annotations

from nicscope.nic.ports import (
    arbitrate,
    complete,
    confirming,
    free_queue,
    handle_cache,
    holding,
    plan,
    receive,
    remote_memory,
    reports,
    resume,
    retransmit,
    transmit,
    window,
)

MODULES = (
    arbitrate,
    complete,
    confirming,
    free_queue,
    handle_cache,
    holding,
    plan,
    receive,
    remote_memory,
    reports,
    resume,
    retransmit,
    transmit,
    window,
)
