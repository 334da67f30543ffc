"""An IOMMU in ordered dictionaries, and a device's own cache: all forget the least recently used.

Written from ``docs/path.md``.
"""

from collections import Counter, OrderedDict

FANOUT = 512


class Lru:
    def __init__(self, entries):
        self.entries = entries
        self.held = OrderedDict()

    def has(self, key):
        """Whether it has ``key``, which it has from now on."""
        had = key in self.held
        self.held[key] = True
        self.held.move_to_end(key)
        if len(self.held) > self.entries:
            self.held.popitem(last=False)
        return had


class Twin:
    def __init__(self, page, iotlb, walk_cache, device=0):
        self.page = page
        self.device = Lru(device) if device else None
        self.iotlb = Lru(iotlb)
        levels = {4096: 4, 4096 * FANOUT: 3, 4096 * FANOUT**2: 2}[page]
        self.above = [Lru(walk_cache) for _ in range(levels - 1)]
        self.counts = Counter()

    def access(self, process, address, length):
        self.counts["requests"] += 1
        self.counts["bytes"] += length
        for piece in range(address // 4096, (address + length - 1) // 4096 + 1):
            self.counts["pieces"] += 1
            self.piece(process, piece * 4096 // self.page)

    def piece(self, process, page):
        if self.device is not None and self.device.has((process, page)):
            return
        self.counts["lookups"] += 1
        if self.iotlb.has((process, page)):
            return
        self.counts["misses"] += 1
        self.counts["reads"] += 1
        for cache in self.above:
            page //= FANOUT
            if cache.has((process, page)):
                return
            self.counts["reads"] += 1
