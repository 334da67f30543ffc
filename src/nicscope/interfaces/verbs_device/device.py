"""A simulated RDMA device: the verbs implemented on a machine of ports, and its counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.design import Scheme
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.calls import Bill, Facts
from nicscope.interfaces.verbs_device.connections import MTU, QueuePairs
from nicscope.interfaces.verbs_device.fabric import DESIGN, Fabric
from nicscope.interfaces.verbs_device.posting import MOST_INLINE
from nicscope.interfaces.verbs_device.regions import DM_BYTES
from nicscope.nic.ports import layout, traffic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.run_report import RunReport


WORD = 4  # bytes in which port_xmit_data and port_rcv_data count
OF_PORT = "counters"  # folders of /sys/class/infiniband/DEVICE/ports/1
OF_NIC = "hw_counters"
FLUSHES = (layout.FLUSHED, layout.CLOSED)


Find = Callable[["Machine", int], int]  # for a node


class Counter(NamedTuple):
    """A hardware counter: its sysfs folder, how it is computed, and its meaning."""

    folder: str
    of: Find
    meaning: str


def _tally(place: int) -> Find:
    return lambda machine, n: int(machine.ports.tallies[n, place])


def _words(packets: int, payload: int) -> Find:
    def of(machine: Machine, n: int) -> int:
        own, header = machine.ports.tallies[n], machine.endpoints[n]["control_bytes"]
        return int(own[packets] * header + own[payload]) // WORD

    return of


def _ended(what: int) -> Find:
    return lambda machine, n: int(machine.ports.ended[n, what])


def _told(side: int, *statuses: int) -> Find:
    return lambda machine, n: int(machine.ports.told_by_side[n, side, [*statuses]].sum())


def _sent(*statuses: int) -> Find:
    return _told(layout.SENT, *statuses)


def _received(*statuses: int) -> Find:
    return _told(layout.RECEIVED, *statuses)


BAD = tuple(each for each in range(len(layout.STATUS_NAMES)) if each != layout.DONE)
COUNTERS = {
    "port_xmit_data": Counter(
        OF_PORT,
        _words(traffic.PACKETS_OUT, traffic.PAYLOAD_OUT),
        "4-byte words that left, headers too",
    ),
    "port_rcv_data": Counter(
        OF_PORT, _words(traffic.PACKETS_IN, traffic.PAYLOAD_IN), "4-byte words that came"
    ),
    "port_xmit_packets": Counter(
        OF_PORT,
        _tally(traffic.PACKETS_OUT),
        "packets that left, repeats and ACKs too",
    ),
    "port_rcv_packets": Counter(
        OF_PORT,
        _tally(traffic.PACKETS_IN),
        "packets that came",
    ),
    "port_rcv_errors": Counter(OF_PORT, _ended(traffic.CORRUPTED), "packets that came damaged"),
    "rx_write_requests": Counter(OF_NIC, _tally(traffic.WRITES_IN), "writes carried out for peers"),
    "rx_read_requests": Counter(OF_NIC, _tally(traffic.READS_IN), "reads answered for peers"),
    "rx_atomic_requests": Counter(
        OF_NIC, _tally(traffic.ATOMICS_IN), "atomics carried out for peers"
    ),
    "out_of_buffer": Counter(
        OF_NIC,
        _ended(traffic.NO_BUFFER),
        "packets dropped: no receive posted",
    ),
    "out_of_sequence": Counter(OF_NIC, _ended(traffic.OUT_OF_TURN), "packets that came too early"),
    "duplicate_request": Counter(
        OF_NIC,
        _tally(traffic.HAD_BEFORE),
        "request packets that had come before",
    ),
    "rnr_nak_retry_err": Counter(
        OF_NIC,
        _tally(traffic.RESTS),
        "RNR NAKs that came, before the last",
    ),
    "local_ack_timeout_err": Counter(
        OF_NIC,
        _tally(traffic.TIME_OUTS),
        "timeouts that ran out, before the last",
    ),
    "rx_icrc_encapsulated": Counter(OF_NIC, _ended(traffic.CORRUPTED), "packets that came damaged"),
    "req_cqe_error": Counter(OF_NIC, _sent(*BAD), "requests that ended with an error"),
    "req_cqe_flush_error": Counter(OF_NIC, _sent(*FLUSHES), "requests that were flushed"),
    "req_remote_access_errors": Counter(
        OF_NIC,
        _sent(layout.REMOTE_PROTECTION),
        "requests for memory not permitted",
    ),
    "req_remote_invalid_request": Counter(
        OF_NIC,
        _sent(layout.REMOTE_INVALID),
        "requests that the peer found invalid",
    ),
    "req_rnr_retries_exceeded": Counter(
        OF_NIC, _sent(layout.NO_RECEIVE), "requests that used up rnr_retry"
    ),
    "req_transport_retries_exceeded": Counter(
        OF_NIC, _sent(layout.PEER_DEAD), "requests that used up retry_cnt"
    ),
    "resp_cqe_error": Counter(OF_NIC, _received(*BAD), "receives that ended with an error"),
    "resp_cqe_flush_error": Counter(OF_NIC, _received(*FLUSHES), "receives that were flushed"),
    "resp_local_length_error": Counter(
        OF_NIC, _received(layout.TOO_LONG), "receives shorter than their message"
    ),
    "resp_remote_access_errors": Counter(
        OF_NIC,
        _tally(traffic.ACCESS_REFUSED),
        "peers' requests for memory not permitted",
    ),
}


def counters_of(machine: Machine, node: int) -> dict[str, int]:
    """All counters of a node's device, by name."""
    return {name: counter.of(machine, node) for name, counter in COUNTERS.items()}


NOTHING = dict.fromkeys(COUNTERS, 0)


MOST_BYTES = 1 << 30
DEPTH = 1 << 14  # of a queue; what the NIC has no place for waits in the host's memory
READS = 16


class Device(QueuePairs):
    """One NIC in one node, as one process uses it."""

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
        """Creates the machine on first use."""
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
        """The node beneath: its design, its platform and its log of the run."""
        return self._fabric

    @property
    def now_ps(self) -> int:
        """Virtual time in picoseconds."""
        self._flush_posted()
        return self._sim_process.now

    def records(self) -> NDArray[Any]:
        """Log records of every engine, as far as they were kept (``keep_log``), by ``end``."""
        machine = self._machine
        return machine.log[: int(machine.tally[0]["log"])]

    @property
    def facts(self) -> Facts:
        """The device's capabilities and limits."""
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
        """The costs of the run so far."""
        return self._fabric.report()

    def counters(self) -> dict[str, int]:
        """The counters so far, by Linux's names; zeros if the device was never used."""
        if not self._is_made:
            return dict(NOTHING)
        self._flush_posted()
        return counters_of(self._machine, self._node)

    def bill(self) -> Bill:
        """The costs so far in one record; all zero for a device that was never used."""
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
