"""A device's counters under the names that Linux has for them, each with what it counts.

Sources of names: Linux, Documentation/ABI/stable/sysfs-class-infiniband (``counters``) and
drivers/infiniband/hw/mlx5/counters.c (``hw_counters``, which ``rdma statistic`` shows).  What the
machine does not count is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from nicscope.nic.ports import layout, tallies, traffic

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine

WORD = 4  # bytes in which port_xmit_data and port_rcv_data count
OF_PORT = "counters"  # folders of /sys/class/infiniband/DEVICE/ports/1
OF_NIC = "hw_counters"
FLUSHES = (layout.FLUSHED, layout.CLOSED)


Find = Callable[["Machine", int], int]  # for a node


class Counter(NamedTuple):
    """A counter: in which folder it is, how it is found, and what it counts."""

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
        _words(tallies.PACKETS_OUT, tallies.PAYLOAD_OUT),
        "4-byte words that left, headers too",
    ),
    "port_rcv_data": Counter(
        OF_PORT, _words(tallies.PACKETS_IN, tallies.PAYLOAD_IN), "4-byte words that came"
    ),
    "port_xmit_packets": Counter(
        OF_PORT,
        _tally(tallies.PACKETS_OUT),
        "packets that left, repeats and ACKs too",
    ),
    "port_rcv_packets": Counter(
        OF_PORT,
        _tally(tallies.PACKETS_IN),
        "packets that came",
    ),
    "port_rcv_errors": Counter(OF_PORT, _ended(traffic.CORRUPTED), "packets that came damaged"),
    "rx_write_requests": Counter(OF_NIC, _tally(tallies.WRITES_IN), "writes carried out for peers"),
    "rx_read_requests": Counter(OF_NIC, _tally(tallies.READS_IN), "reads answered for peers"),
    "rx_atomic_requests": Counter(
        OF_NIC, _tally(tallies.ATOMICS_IN), "atomics carried out for peers"
    ),
    "out_of_buffer": Counter(
        OF_NIC,
        _ended(traffic.NO_BUFFER),
        "packets dropped: no receive posted",
    ),
    "out_of_sequence": Counter(OF_NIC, _ended(traffic.OUT_OF_TURN), "packets that came too early"),
    "duplicate_request": Counter(
        OF_NIC,
        _tally(tallies.HAD_BEFORE),
        "request packets that had come before",
    ),
    "rnr_nak_retry_err": Counter(
        OF_NIC,
        _tally(tallies.RESTS),
        "RNR NAKs that came, before the last",
    ),
    "local_ack_timeout_err": Counter(
        OF_NIC,
        _tally(tallies.TIME_OUTS),
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
        _tally(tallies.ACCESS_REFUSED),
        "peers' requests for memory not permitted",
    ),
}


def counters_of(machine: Machine, node: int) -> dict[str, int]:
    """All counters of a node's device, by name."""
    return {name: counter.of(machine, node) for name, counter in COUNTERS.items()}


NOTHING = dict.fromkeys(COUNTERS, 0)
