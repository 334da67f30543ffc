"""A simulated RDMA device: what the verbs of a program come down to, on a machine of ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.scheme import Scheme
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.calls import Bill, Facts
from nicscope.interfaces.verbs_device.connecting import MTU, Connecting
from nicscope.interfaces.verbs_device.counters import NOTHING, counters_of
from nicscope.interfaces.verbs_device.fabric import DESIGN, Fabric
from nicscope.interfaces.verbs_device.posting import MOST_INLINE
from nicscope.interfaces.verbs_device.regions import DM_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.interfaces.run_report import RunReport

MOST_BYTES = 1 << 30
DEPTH = 1 << 14  # of a queue; what the NIC has no place for waits in the host's memory
READS = 16


class Device(Connecting):
    """One NIC in one node, as one process calls it."""

    def __init__(
        self,
        design: str | Path | Design = DESIGN,
        *,
        faults: Faults | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """``options`` are those of ``Fabric``; ``seed`` is that of ``faults`` that are none."""
        self._begin_on(Fabric(design, faults=faults or Faults(seed=seed), **options))

    @classmethod
    def on(cls, fabric: Fabric) -> Device:
        """A device on the next node of a fabric that has several."""
        made = cls.__new__(cls)
        made._begin_on(fabric)
        return made

    def _begin_on(self, fabric: Fabric) -> None:
        self._fabric, self._node = fabric, len(fabric.devices)
        fabric.devices.append(self)
        scheme = self._fabric.design.scheme
        self.on_demand = scheme in (Scheme.INTERRUPT, Scheme.UNET_MM)
        self._is_made = False

    def __getattr__(self, name: str) -> Any:
        """The machine is made when something of it is first asked for."""
        if name.startswith("__") or self.__dict__.get("_is_made", True):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._is_made = True
        self._begin_machine()
        self._begin_memory()
        self._begin_protection()
        self._begin_queues()
        self._begin_pairs()
        self._begin_posting()
        self._begin_sharing()
        return getattr(self, name)

    @property
    def design_name(self) -> str:
        """The design's name."""
        return self._fabric.design.name

    @property
    def fabric(self) -> Fabric:
        """The node beneath: its design, its platform, what it has kept of the run."""
        return self._fabric

    @property
    def now_ps(self) -> int:
        """Virtual time, as exact as it is."""
        self._settle()
        return self._driven.now

    def records(self) -> NDArray[Any]:
        """What every engine did when, as far as it was kept (``keep_log``), by ``end``."""
        machine = self._machine
        return machine.log[: int(machine.tally[0]["log"])]

    @property
    def facts(self) -> Facts:
        """What it can do."""
        size = self._fabric.size
        return Facts(
            mtu_bytes=MTU,
            max_msg_bytes=MOST_BYTES,
            max_qp_wr=DEPTH,
            max_sge=size.segments,
            max_inline=MOST_INLINE,
            max_cqe=size.entries,
            max_srq_wr=DEPTH,
            max_rd_atomic=READS,
            dm_bytes=DM_BYTES,
            qp_types=frozenset(self.kinds),
            opcodes=frozenset(self.operations),
            srq=True,
            on_demand=self.on_demand,
            huge=True,
            windows=True,
            resize_cq=True,
            max_qp=self._fabric.pairs - 1,
            max_cq=size.queues - 1,
            max_mr=size.regions - 1,
        )

    def report(self) -> RunReport:
        """What the run has cost so far."""
        return self._fabric.report()

    def counters(self) -> dict[str, int]:
        """Counters so far, by the names that Linux has for them; zeros if nobody has used it."""
        if not self._is_made:
            return dict(NOTHING)
        self._settle()
        return counters_of(self._machine, self._node)

    def bill(self) -> Bill:
        """The same in a line; of a device that nobody has used all is zero."""
        if not self._is_made:
            return Bill(*[0] * len(Bill._fields))
        counts = self._fabric.counts(self._node)
        serving = self._ports.nodes[self._node]
        return Bill(
            messages=int(serving["messages_out"]),
            bytes=int(serving["bytes_out"]),
            virtual_ns=self.now_ns,
            lookups=counts.get("lookups") or 0,
            misses=counts.get("ni_misses") or 0,
            pins=counts.get("pins") or 0,
            unpins=counts.get("unpins") or 0,
        )


__all__ = ["Device", "codes"]
