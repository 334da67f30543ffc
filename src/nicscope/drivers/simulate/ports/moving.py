"""What a NIC's engines have yet to move, as the kernel asks when memory is to be given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.memory.paging.layout import PRESENT
from nicscope.nic.ports.layout import BARRED

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.memory.paging.layout import HostMemory


def is_busy(machine: Machine, node: int) -> bool:
    """Whether packets are in its rings at all."""
    endpoint = machine.endpoints[node]
    return bool(
        endpoint["completed"] != endpoint["accepted"] or endpoint["finished"] != endpoint["written"]
    )


def is_moving(
    machine: Machine, memory: HostMemory, node: int, space: int, first: int, last: int
) -> bool:
    """Whether a packet in its rings comes from or goes to one of these pages, or waits for one."""
    ports, endpoint = machine.ports, machine.endpoints[node]
    entries = memory.entries[node, space, first : last + 1]
    frames = entries["frame"][entries["state"] == PRESENT]
    slots = _places(endpoint["completed"], endpoint["accepted"], endpoint["receive_ring"])
    heads = ports.arrival_heads[node, slots]
    if np.isin(heads["frame"], frames).any():
        return True
    if ((heads["space"] == space) & (heads["page"] >= first) & (heads["page"] <= last)).any():
        return True
    for slot, runs in zip(slots.tolist(), heads["runs"].tolist(), strict=True):
        if runs > 0 and np.isin(ports.work.runs[node, slot, :runs]["frame"], frames).any():
            return True
    places = _places(endpoint["finished"], endpoint["written"], endpoint["send_ring"])
    leaving = ports.send_heads[node, places]
    return bool(np.isin(leaving["frame"][leaving["kind"] & BARRED == 0], frames).any())


def _places(begin: int, end: int, size: int) -> Any:
    return np.arange(int(begin), int(end)) % int(size)
