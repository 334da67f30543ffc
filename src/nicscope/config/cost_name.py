"""Every cost that a platform may state: the vocabulary of ``[costs]``.

A cost is charged per ``per``.  A tabulated one depends on ``size_of`` (how much one event does)
and is given at a few sizes; between them it is a straight line.
"""

from __future__ import annotations

import msgspec


class CostName(msgspec.Struct, frozen=True):
    """What one cost pays for, and per what."""

    meaning: str
    per: str
    size_of: str | None = None  # of a tabulated cost
    by_byte: bool = False


COSTS: dict[str, CostName] = {
    # host, in user mode
    "user_check": CostName("user library: is the page pinned? (bitmap)", "lookup"),
    "user_tree": CostName("user library: page to table index (two-level tree)", "lookup"),
    "request_check_min": CostName("bitmap check of a request, best case", "request", "pages"),
    "request_check_max": CostName("bitmap check of a request, worst case", "request", "pages"),
    "user_pin": CostName("system call that pins pages and stores translations", "call", "pages"),
    "user_unpin": CostName("system call that unpins pages", "call", "pages"),
    "copy_start": CostName("copy to or from the pinned area, fixed part", "request"),
    "copy_per_byte": CostName("copy to or from the pinned area", "byte", by_byte=True),
    "trap": CostName("fast trap into the kernel", "send"),
    "system_call": CostName("call into the kernel and back, without what it does", "call"),
    "post": CostName("user library writes a descriptor to a queue", "descriptor"),
    "poll": CostName("look at a queue that is found ready", "look"),
    # host, in the kernel
    "interrupt": CostName("NIC's interrupt until the handler serves it", "interrupt"),
    "interrupt_entry": CostName("entry into the receive interrupt handler", "receive"),
    "kernel_pin": CostName("pin one resident page in kernel context", "page"),
    "kernel_pin_receive": CostName("same for a receive buffer, where it differs", "page"),
    "kernel_pin_shared": CostName("pin a shared page: copy on write first", "page"),
    "kernel_unpin": CostName("unpin one page in kernel context", "page"),
    "zero_map_in": CostName("map in a zeroed page for an absent receive buffer", "page"),
    "page_fault": CostName("bring an absent page from disk", "page"),
    "page_out": CostName("write a page to disk", "page"),
    "thread_delay": CostName("kernel thread is woken until it runs", "wake-up"),
    "wake_up": CostName("a blocked process is woken until it runs", "wake-up"),
    "notify": CostName("signal to a process until its handler runs", "signal"),
    "miss_delay": CostName("interrupt raised to miss thread scheduled", "miss"),
    "miss_processing": CostName("miss thread: host table, cache update; pins apart", "miss"),
    # NIC
    "ni_check": CostName("NIC looks a page up in its cache, hit or miss", "lookup"),
    "ni_further_way": CostName("NIC checks one more way of a set, after the first", "way"),
    "ni_handle": CostName("NIC looks up who or what a request names, no page", "lookup"),
    "ni_table_read": CostName("NIC reads an entry of its own table", "lookup"),
    "ni_hit_send": CostName("NIC cache hit on the send path", "hit"),
    "ni_hit_receive": CostName("NIC cache hit on the receive path", "hit"),
    "ni_hit_pretranslate": CostName("NIC cache hit while pre-translating a buffer", "hit"),
    "ni_dma": CostName("DMA part of a fetch of entries from the host", "miss", "entries"),
    "ni_miss": CostName("whole fetch of entries from the host table", "miss", "entries"),
    "ni_handshake": CostName("NIC and kernel exchange request and translation", "miss"),
    "icm_fetch": CostName("NIC reads an entry of a region, or a line of pages', by DMA", "fetch"),
    "send_queue": CostName("send queue handling", "send"),
    "receive_queue": CostName("receive queue handling", "receive"),
    # VIA: library, kernel agent, messaging on the NIC
    "retry_timeout": CostName("without an acknowledgement, until frames go again", "time-out"),
    # a coherent host and its interface: times of the machine, see docs/coherence.md
    "l1_latency": CostName("access that hits in the first level", "access"),
    "l2_latency": CostName("look into the second level", "access"),
    "bus_cycle": CostName("cycle of the memory bus", "cycle"),
    "memory_latency": CostName("memory, from address to data", "block"),
    "cache_supply": CostName("cache supplies a block to the bus", "block"),
    "device_latency": CostName("NIC's memory, from address to data", "access"),
    "flush_instruction": CostName("instructions to flush a block", "block"),
    "reaction": CostName("NIC: from an invalidation to its request for the block", "block"),
    "queue_poll": CostName("NIC: from losing the block at a queue's head to reading it", "block"),
    "dma_init": CostName("NIC sets up its DMA engine", "transfer"),
    "dma_interrupt": CostName("NIC is interrupted at the end of a transfer", "transfer"),
    # network
    "retransmission": CostName("a dropped request comes again", "drop"),
    # delivery in virtual time: the host's part of a message
    "send_call": CostName("from the program's call to the first store to the ring", "message"),
    "pio_write": CostName("store a control message to the send ring", "message"),
    "pio_read": CostName("notice and read a control message in the receive ring", "message"),
    "pio_write_burst": CostName("the same from a shadow buffer, in bursts", "message"),
    "pio_read_burst": CostName("the same into a shadow buffer, in bursts", "message"),
    "block_copy_per_byte": CostName("copy by the CPU while DMA rests", "byte", by_byte=True),
    "block_copy_contended_per_byte": CostName(
        "copy by the CPU while DMA moves data", "byte", by_byte=True
    ),
    # delivery in virtual time: DMA, links, memory
    "pci_read_start": CostName("host memory to NIC, before the first byte", "transfer"),
    "pci_read_per_byte": CostName("host memory to NIC", "byte", by_byte=True),
    "pci_read_contended_per_byte": CostName(
        "host memory to NIC while the CPU does PIO or copies", "byte", by_byte=True
    ),
    "pci_write_start": CostName("NIC to host memory, before the first byte", "transfer"),
    "pci_write_per_byte": CostName("NIC to host memory", "byte", by_byte=True),
    "pci_write_contended_per_byte": CostName(
        "NIC to host memory while the CPU does PIO or copies", "byte", by_byte=True
    ),
    "link_start": CostName("NIC to the link, before the first byte", "transfer"),
    "link_per_byte": CostName("link, one direction", "byte", by_byte=True),
    "link_watchdog": CostName("longest that a packet may hold any part of its path", "packet"),
    "switch_hop": CostName("head of a packet through one switch", "switch"),
    "nic_memory_per_byte": CostName("to or from NIC memory", "byte", by_byte=True),
    # delivery in virtual time: the NIC's processor
    "firmware_start": CostName("start a transfer or take a message", "action"),
    "firmware_finish": CostName("hand a buffer back, or a message to the host", "action"),
    "firmware_log": CostName("log a transfer, while logging is on", "transfer"),
}
