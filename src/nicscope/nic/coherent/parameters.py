"""What the interface is like: values, units, and where each comes from.

Constants that EDT leaves open (ED-86) are assumed here; a study fits them to what it must.
Each entry is (value, unit, evidence, source).
"""

from __future__ import annotations

COHERENT_METHOD = 1
DMA_LIKE_METHOD = 2
BY_FLUSH = 1
BY_READING = 2
FALL_BACK = 1
POSTPONE = 2

NIC_PARAMETERS: dict[str, tuple[int, str, str, str]] = {
    "memory_bytes": (4 << 20, "bytes", "published", "EDT, 5: 4 MB for a thousand registrations"),
    "staging_bytes": (128 << 10, "bytes", "assumed", "two messages of 64 KB outside registrations"),
    "dma_mbytes_s": (1600, "MB/s", "published", "EDT, Table 1: peak rate on the host side"),
    "dma_window": (2, "blocks", "assumed", "reads or writes that the engine has under way"),
    "dma_init": (300_000, "ps", "assumed", "30 NIC cycles to set address and length; to be fitted"),
    "dma_interrupt": (500_000, "ps", "assumed", "50 NIC cycles; to be fitted"),
    "reaction": (
        40_000,
        "ps",
        "assumed",
        "tag match and request; long enough for the rest of a block to be written (EDT, 5)",
    ),
    "read_window": (4, "blocks", "assumed", "reads that the cache controller has under way"),
    "doorbell_bytes": (8, "bytes", "assumed", "a token is an address"),
    "receive_method": (DMA_LIKE_METHOD, "1 or 2", "published", "EDT, 7.2: write-back to memory"),
    "initialisation": (BY_READING, "1 or 2", "assumed", "EDT, 4 names both: flush, or NIC reads"),
    "when_full": (FALL_BACK, "1 or 2", "assumed", "EDT, 5 names both: DMA, or wait"),
    "pinned_bytes_max": (4 << 20, "bytes", "assumed", "registered memory kept at most"),
    "queue_blocks": (64, "blocks", "assumed", "of each of the two cacheable queues"),
    "queue_poll": (
        200_000,
        "ps",
        "assumed",
        "from losing the block at the queue's head to reading it: 20 NIC cycles of polling",
    ),
    "lazy_pointers": (1, "0 or 1", "published", "EDT, 5"),
    "valid_bits": (1, "0 or 1", "published", "EDT, 5"),
    "sense_reverse": (1, "0 or 1", "published", "EDT, 5"),
}
