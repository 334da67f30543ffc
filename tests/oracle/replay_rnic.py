"""What an RDMA NIC's replay must count: regions and pages in two levels of caches.

Written from the facts: an MPT entry is 64 bytes, an MTT entry 8, an entry of an indirect region 16;
level 0 first, then level 1, then the tables in host memory.
"""

from collections import OrderedDict

from oracle.replay_parts import Kinds, Scheme


class Level:
    """One cache: sets of names, the least recent first; ``sets`` of 0 is no cache."""

    def __init__(self, lines, ways):
        self.ways = ways
        self.sets = [OrderedDict() for _ in range(lines // ways)]

    def find(self, number, name):
        """Whether ``name``, which belongs into the set of ``number``, is there; then it is."""
        held = self.sets[number % len(self.sets)]
        if name in held:
            held.move_to_end(name)
            return True
        if len(held) == self.ways:
            held.popitem(last=False)
        held[name] = True
        return False


class Rnic(Scheme):
    """Regions that were registered ahead; a request looks up its region, then its pages."""

    def prepare(self, design):
        self.line, self.page = design["line"], design["page_size"]
        self.pages_0 = Level(design["entries"] // self.line, design["ways"])
        self.regions_0 = Level(design["mpt_entries"], design["mpt_ways"])
        self.pages_1 = self.regions_1 = None
        if design["l1_entries"] is not None:
            self.pages_1 = Level(design["l1_entries"] // self.line, design["l1_ways"])
        if design["mpt_l1_entries"] is not None:
            self.regions_1 = Level(design["mpt_l1_entries"], design["mpt_l1_ways"])
        if design["l1_shared"]:
            self.regions_1 = self.pages_1
        all_lines = (design["entries"] + (design["l1_entries"] or 0)) // self.line
        self.kinds = Kinds(self.counts, all_lines)
        self.touched = set()  # (pid, line)
        self.parts = set()  # (pid, part) of indirect regions
        self.lowest = {}  # pid -> lowest address

    def foresee(self, touches):
        for pid, address in touches:
            self.lowest[pid] = min(address, self.lowest.get(pid, address))

    def pool_of(self, pid):
        """First page and number of pages that ``pid`` registered ahead, else None."""
        size = self.design["registered"]
        if size is None:
            return None
        # Reading: whole pages are registered, from the one of the lowest address on.
        return self.lowest[pid] // self.page, -(-size // self.page)

    def request(self, pid, path, pages, length):
        pool = self.pool_of(pid)
        if pool is not None and (pages[-1] >= pool[0] + pool[1] or pages[0] < pool[0]):
            self.counts["rejected"] += 1
            return
        self.look_up_regions(pid, pages, length)
        # Reading: a line's entries come at once, so its further pages are hits of this request.
        self.counts["mtt_l0_hits"] += len(pages)
        for line in sorted({page // self.line for page in pages}):
            self.look_up_line(pid, path, line)

    def look_up_regions(self, pid, pages, length):
        mtu = self.design["mtu"]
        packets = 1 if mtu is None else -(-length // mtu)
        if self.design["indirect"] is None:
            for _ in range(packets):
                self.look_up_region(self.ordinals[pid], ("region", pid))
            return
        each = self.design["indirect"] // self.page
        parts = sorted({page // each for page in pages})
        # Reading: each part of an indirect region is looked up by a packet of its own; the packets
        # beyond those find what the last one did.
        parts += parts[-1:] * (packets - len(parts))
        for part in parts:
            self.parts.add((pid, part))
            self.look_up_region(self.ordinals[pid], ("region", pid))
            self.look_up_region(part, ("part", pid, part))
            self.counts["indirect_lookups"] += 1

    def look_up_region(self, number, name):
        self.counts["mpt_lookups"] += 1
        self.find("mpt", self.regions_0, self.regions_1, number, name)

    def look_up_line(self, pid, path, line):
        self.touched.add((pid, line))
        self.counts["mtt_l0_hits"] -= 1
        name = ("line", pid, line)
        is_there = self.find("mtt", self.pages_0, self.pages_1, line, name)
        self.kinds.lookup((pid, line), path, is_there)
        if not is_there:
            self.counts["entries_fetched"] += self.line
            # Reading: what leaves a cache leaves for want of room, for all stays registered.
            self.kinds.evicted((pid, line))

    def find(self, which, level_0, level_1, number, name):
        """Whether some cache has ``name``; counts where."""
        if level_0.find(number, name):
            self.counts[which + "_l0_hits"] += 1
            return True
        self.counts[which + "_l0_misses"] += 1
        if level_1 is not None:
            if level_1.find(number, name):
                self.counts[which + "_l1_hits"] += 1
                return True
            self.counts[which + "_l1_misses"] += 1
        self.counts["icm_fetches"] += 1
        return False

    def finish(self):
        """Registration: of each process, by what it registered or touched."""
        lines = entries = parts = 0
        for pid in self.ordinals:
            pool = self.pool_of(pid)
            if pool is None:
                own = len([line for of, line in self.touched if of == pid])
                lines, entries = lines + own, entries + own * self.line
                parts += len([part for of, part in self.parts if of == pid])
            else:
                lines += self.spanned(*pool, self.line)
                entries += pool[1]
                if self.design["indirect"] is not None:
                    parts += self.spanned(*pool, self.design["indirect"] // self.page)
        self.counts["regions"] = len(self.ordinals) + parts
        self.counts["mtt_entries"] = entries
        self.counts["icm_bytes"] = (
            64 * (len(self.ordinals) + parts) + 8 * self.line * lines + 16 * parts
        )
        self.counts["pin_calls"] = len(self.ordinals) if self.design["indirect"] is None else parts
        self.count_pin(entries)

    @staticmethod
    def spanned(first, pages, unit):
        """How many aligned units of so many pages hold some of ``pages`` pages from ``first``."""
        return (first + pages - 1) // unit - first // unit + 1
