"""Tables of rights and handles as they are in use, and whether they are as they were."""

import numpy as np

from nicscope.nic.ports.layout import NOBODY

TIMES = 150  # more than any table has rows
SETTLED = 3  # by then everything has been used once
PAGE = 4096


def tables(cluster, *processes):
    """What is taken, of everything that can be, on each node; and objects that are somebody's."""
    ports = cluster.simulation.machine.ports
    pinning = ports.translations.host.pinning
    taken = {
        "ports": ports.table["open"].sum(axis=1),
        "tags": (ports.channels["port"] != NOBODY).sum(axis=1),
        "exports": ports.shared.exports["valid"].sum(axis=1),
        "imports": (ports.shared.imports["port"] != NOBODY).sum(axis=1),
        "pending": ports.pending["busy"].sum(axis=(1, 2)),
        "held": pinning.held.sum(axis=1),
        "in use": ports.translations.host.in_use.sum(axis=1),
        "pinned": ports.memory.hosts["pinned"],
        "frames": (ports.memory.frames["references"] > 0).sum(axis=1),
        "cuts": ports.nodes["cuts"],
    }
    found = {name: np.asarray(each).tolist() for name, each in taken.items()}
    found["objects"] = [len(process._owner._records) for process in processes]
    return found


def is_steady(seen):
    """Whether nothing has grown or shrunk since all was used once."""
    first = seen[SETTLED]
    return len(seen) == TIMES and all(each == first for each in seen[SETTLED:])
