"""Room that a NIC which watches its host's memory has for registered pages (EDT, 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine


class NicRoom:
    """Of one node: buffers of a page each, and a bound of what is registered at once."""

    def __init__(self, machine: Machine, node: int, page: int) -> None:
        nics = machine.bus.ways.nics
        config: Any = nics.config[node, 0]
        self._registers: Any = nics.registers[node, 0]
        self._page = page
        buffers = (int(config["memory_bytes"]) - int(config["buffer_start"])) // page
        # Pages that are ever registered at once.
        self.most: int = min(
            buffers, int(nics.tags.shape[1]), int(config["pinned_bytes_max"]) // page
        )

    @property
    def left(self) -> int:
        """Pages that could be registered now."""
        registered = int(self._registers["pinned"]) // self._page
        return self.most - registered
