"""NIC memory that delivery takes, byte by byte: rings, buffers, table, and the firmware's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.delivery import CONTROL_BYTES

if TYPE_CHECKING:
    from nicscope.config.delivery import Delivery

# A record of the firmware's log as it is packed (Trapeze, 3.2, names the five fields, not their
# widths).  Times are ticks of the NIC's 33 MHz counter, which 32 bits hold for two minutes; 24 bits
# hold any payload up to 16 MB.
LOG_RECORD = {"packet": 4, "engine": 1, "bytes": 3, "start": 4, "completion": 4}
LOG_RECORD_BYTES = sum(LOG_RECORD.values())
# An entry of the incoming payload table: where a payload of that tag goes (the widths are assumed;
# a 32-bit PCI bus takes addresses of 4 bytes).
TABLE_ENTRY = {"DMA address": 4, "length": 4}
TABLE_ENTRIES = 64  # assumed: the paper states no number; as many as a ring has entries
TABLE_ENTRY_BYTES = sum(TABLE_ENTRY.values())


class Held(NamedTuple):
    """``number`` things of ``each_bytes`` bytes in NIC memory."""

    what: str
    number: int
    each_bytes: int

    @property
    def byte_count(self) -> int:
        """Bytes of all of them."""
        return self.number * self.each_bytes

    def to_json(self) -> dict[str, Any]:
        """Units are in the keys."""
        return {
            "what": self.what,
            "count": self.number,
            "each_bytes": self.each_bytes,
            "bytes": self.byte_count,
        }


def memory_account(
    delivery: Delivery, log_records: int = 0, table_entries: int = TABLE_ENTRIES
) -> list[Held]:
    """What one endpoint holds in NIC memory; nothing that it holds is left out.

    ``log_records`` are those that the firmware has logged since the host last read them;
    ``table_entries`` those of the incoming payload table.
    """
    held = [
        Held("send ring", delivery.send_ring, CONTROL_BYTES),
        Held("receive ring", delivery.receive_ring, CONTROL_BYTES),
        Held("send buffers", delivery.send_buffers, delivery.max_payload),
        Held("receive buffers", delivery.receive_buffers, delivery.max_payload),
        Held("incoming payload table", table_entries, TABLE_ENTRY_BYTES),
    ]
    if delivery.logging:
        held.append(Held("log of transfers", log_records, LOG_RECORD_BYTES))
    return held
