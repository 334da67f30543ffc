"""What an RDMA NIC must count of a trace that says itself what is registered when.

Written from the facts: a region has one page size, rights, and page entries of its own in the
host's table, in whole lines (driver updates are aligned to 64 bytes); a request names one region,
which must hold all its bytes and allow what it does; deregistration revokes the region's entry.
"""

from oracle.replay_parts import COUNTS
from oracle.replay_rnic import Rnic

# Rights as verbs have them: the NIC may always read local memory for its own process.
NEEDED = {
    "send": None,
    "write": None,
    "serve_read": "remote_read",
    "recv": "local_write",
    "read": "local_write",
    "serve_write": "remote_write",
}
RECEIVED = ("recv", "read", "serve_write")


class Region:
    """What one row registered."""

    def __init__(self, number, pid, address, length, page_size, rights, first_line, line):
        self.number, self.pid = number, pid
        self.first, self.last = address, address + length - 1
        self.length, self.page_size, self.rights = length, page_size, rights
        self.entries = self.last // page_size - self.first // page_size + 1
        self.first_line, self.lines = first_line, -(-self.entries // line)

    def covers(self, address, length):
        return self.first <= address and address + length - 1 <= self.last

    def allows(self, op):
        return self.rights is None or NEEDED[op] is None or NEEDED[op] in self.rights

    def pinned(self, page):
        """Host pages of ``page`` bytes that its own pages lie in."""
        first = self.first // self.page_size * self.page_size
        end = (self.last // self.page_size + 1) * self.page_size
        return (end - 1) // page - first // page + 1


class RegionNic(Rnic):
    """One NIC; what its host has registered is known row by row."""

    def __init__(self, design):
        self.design = design
        self.counts = dict.fromkeys(COUNTS, 0)
        self.pinned_pages = self.table_bytes = 0
        self.live, self.gone = [], []
        self.numbers = self.table_lines = 0
        self.prepare(design)

    def register(self, pid, address, length, page_size, rights):
        self.numbers += 1
        size = page_size or self.page
        region = Region(
            self.numbers, pid, address, length, size, rights, self.table_lines, self.line
        )
        # Reading: places in the table are given in order, and none twice.
        self.table_lines += region.lines
        self.live.append(region)
        self.counts["regions"] += 1
        self.counts["pin_calls"] += 1
        self.counts["mtt_entries"] += region.entries
        self.count_pin(region.pinned(self.page))
        self.table_bytes += 64 + 8 * self.line * region.lines
        self.counts["icm_bytes"] = max(self.counts["icm_bytes"], self.table_bytes)

    def deregister(self, pid, address, length, page_size):
        [region] = [
            each
            for each in self.live
            if (each.pid, each.first, each.length) == (pid, address, length)
            and page_size in (None, each.page_size)
        ][-1:]
        self.live.remove(region)
        self.gone.append(region)
        self.counts["unpin_calls"] += 1
        for _ in range(region.pinned(self.page)):
            self.count_unpin()
        self.table_bytes -= 64 + 8 * self.line * region.lines
        for level in {self.pages_0, self.pages_1, self.regions_0, self.regions_1} - {None}:
            for held in level.sets:
                for name in [name for name in held if name[1] == region.number]:
                    del held[name]
                    self.counts["entries_invalidated"] += 1

    def access(self, pid, op, address, length):
        self.counts["requests"] += 1
        mine = [region for region in self.live if region.pid == pid]
        covering = [region for region in mine if region.covers(address, length)]
        allowing = [region for region in covering if region.allows(op)]
        if not allowing:
            first, last = address // self.page, (address + length - 1) // self.page
            self.counts["lookups"] += last - first + 1
            self.counts["rejected"] += 1
            was = [region for region in self.gone if region.pid == pid]
            if covering:
                self.counts["rejected_rights"] += 1
            elif any(region.covers(address, length) for region in was):
                self.counts["rejected_deregistered"] += 1
            else:
                self.counts["rejected_unregistered"] += 1
            return
        # Reading: a trace has no key, so a request has that of the newest region that does.
        region = allowing[-1]
        base = region.first // region.page_size
        first = address // region.page_size - base
        last = (address + length - 1) // region.page_size - base
        self.counts["lookups"] += last - first + 1
        self.counts["mtt_l0_hits"] += last - first + 1
        mtu = self.design["mtu"]
        for _ in range(1 if mtu is None else -(-length // mtu)):
            self.look_up_region(region.number, ("region", region.number))
        path = "receive" if op in RECEIVED else "send"
        for line in range(first // self.line, last // self.line + 1):
            self.look_up_own_line(region, path, line)

    def look_up_own_line(self, region, path, line):
        self.counts["mtt_l0_hits"] -= 1
        name = ("line", region.number, line)
        number = region.first_line + line
        is_there = self.find("mtt", self.pages_0, self.pages_1, number, name)
        key = (region.number, line)
        self.kinds.lookup(key, path, is_there)
        if not is_there:
            self.counts["entries_fetched"] += self.line
            self.kinds.evicted(key)


def replay(rows, design):
    """Every count by node: ``rows`` are (node, pid, op, address, length, page_size, rights)."""
    nics = {}
    for node, pid, op, address, length, page_size, rights in rows:
        nic = nics.setdefault(node, RegionNic(design))
        if op == "register":
            nic.register(pid, address, length, page_size, rights)
        elif op == "deregister":
            nic.deregister(pid, address, length, page_size)
        else:
            nic.access(pid, op, address, length)
    return {node: nic.counts for node, nic in sorted(nics.items())}
