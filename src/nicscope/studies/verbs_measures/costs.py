"""What was done, and who was busy, between two moments of a run: differences of its report."""

from __future__ import annotations

from typing import Any

import msgspec

SHARES = ("cpu_share", "nic_share", "bus_share", "link_share")
COUNTS = ("pins", "unpins", "interrupts", "checks")


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Of a stretch of a run on one node."""

    virtual_ns: int
    busy_ns: dict[str, float]  # of host's processor, NIC, bus and link
    lookups: int
    ni_misses: int
    pins: int
    unpins: int
    interrupts: int
    checks: int  # pages that the library looked at before it posted or registered

    @property
    def missed_percent(self) -> float:
        """Of the lookups."""
        return 100 * self.ni_misses / self.lookups if self.lookups else 0.0

    def busy_percent(self, who: str) -> float:
        """Of the stretch, how much that engine was busy."""
        return 100 * self.busy_ns[who] / self.virtual_ns if self.virtual_ns else 0.0

    def since(self, before: Costs) -> Costs:
        """What came after ``before``."""
        found: dict[str, Any] = {}
        for name in self.__struct_fields__:
            now, then = getattr(self, name), getattr(before, name)
            found[name] = (
                {who: now[who] - then[who] for who in now} if isinstance(now, dict) else now - then
            )
        return Costs(**found)


def costs_now(device: Any) -> Costs:
    """All that a device's node has done so far."""
    report = device.report()
    node = report.nodes[0]
    elapsed = report.elapsed_us * 1000
    bill = device.bill()
    return Costs(
        virtual_ns=bill.virtual_ns,
        busy_ns={
            name.removesuffix("_share"): (getattr(node, name) or 0.0) * elapsed for name in SHARES
        },
        lookups=bill.lookups,
        ni_misses=bill.misses,
        **{name: getattr(node, name) or 0 for name in COUNTS},
    )
