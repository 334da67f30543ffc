"""What the caches, the bus and the memory are like: values, units, and where each comes from.

Source of all that is published: EDT (Won, Lee, Park, Kim), Table 1.
"""

from __future__ import annotations

from typing import NamedTuple


class Parameter(NamedTuple):
    """A value in ``unit``, its class of evidence, and the source or the reason."""

    value: int
    unit: str
    evidence: str  # published, derived, fitted, measured, assumed
    source: str


TABLE_1 = "EDT, Table 1"

HOST_PARAMETERS = {
    "memory_bytes": Parameter(1 << 20, "bytes", "assumed", "room for the buffers of a study"),
    "l1_bytes": Parameter(32 << 10, "bytes", "published", TABLE_1),
    "l1_line": Parameter(32, "bytes", "published", TABLE_1),
    "l1_ways": Parameter(2, "lines", "published", TABLE_1),
    "l2_bytes": Parameter(1 << 20, "bytes", "published", TABLE_1),
    "l2_line": Parameter(128, "bytes", "published", TABLE_1),
    "l2_ways": Parameter(2, "lines", "published", TABLE_1),
    "word": Parameter(4, "bytes", "assumed", "the word that a program writes and reads at a time"),
    "l1_latency": Parameter(1_000, "ps", "derived", f"{TABLE_1}: 1 cycle at 1 GHz"),
    "l2_latency": Parameter(10_000, "ps", "derived", f"{TABLE_1}: 10 cycles at 1 GHz"),
    "bus_cycle": Parameter(10_000, "ps", "derived", f"{TABLE_1}: 100 MHz"),
    "bus_bytes": Parameter(16, "bytes", "published", f"{TABLE_1}: 128 bits"),
    "arbitration": Parameter(1, "bus cycles", "assumed", "request to grant on an idle bus"),
    "address_phase": Parameter(1, "bus cycles", "assumed", "the shortest there is"),
    "snoop": Parameter(2, "bus cycles", "assumed", "a cache looks up its second level, 10 ns"),
    "memory_latency": Parameter(60_000, "ps", "assumed", "SDRAM row and column access"),
    "cache_supply": Parameter(10_000, "ps", "assumed", "reading a line out of the second level"),
    "retry_delay": Parameter(5, "bus cycles", "assumed", "from a retry to the next attempt"),
    "flush_instruction": Parameter(2_000, "ps", "assumed", "two host cycles for each line"),
    "device_latency": Parameter(10_000, "ps", "published", f"{TABLE_1}: NI local memory"),
    "combine_buffers": Parameter(4, "buffers", "assumed", "as on the Pentium Pro"),
    "combine_bytes": Parameter(32, "bytes", "assumed", "as on the Pentium Pro"),
    "fill_then_invalidate": Parameter(
        1, "0 or 1", "published", "EDT, 4: a write that misses loads the block, then invalidates"
    ),
}
