"""What an RDMA NIC of a device looks up, slow and obvious: regions and pages, in order of requests.

Written from the facts, as ``replay_rnic`` is: an action of the NIC on a stretch of memory looks up
its region, then each of its pages, whose entries come a line at a time.
"""

from collections import Counter

from .replay_rnic import Level


class TwinNic:
    """One NIC's caches of both tables, in up to two levels."""

    def __init__(self, design):
        self.line = design["line"]
        self.mtu = design["mtu"]
        self.pages = [Level(design["entries"] // self.line, design["ways"])]
        self.regions = [Level(design["mpt_entries"], design["mpt_ways"])]
        if design["l1_entries"]:
            self.pages.append(Level(design["l1_entries"] // self.line, design["l1_ways"]))
        if design["l1_shared"]:
            self.regions.append(self.pages[1])
        elif design["mpt_l1_entries"]:
            self.regions.append(Level(design["mpt_l1_entries"], design["mpt_l1_ways"]))
        self.counts = Counter()

    def use(self, region, page):
        """A stretch of one page, no longer than a packet."""
        self.look_up("mpt", self.regions, region, ("region", region))
        line = page // self.line
        if not self.look_up("mtt", self.pages, line, ("line", line)):
            self.counts["ni_misses"] += 1
            self.counts["entries_fetched"] += self.line
        self.counts["lookups"] += 1

    def look_up(self, which, levels, number, name):
        """Whether some level has it; then all that were asked do."""
        for depth, level in enumerate(levels):
            found = level.find(number, name)
            self.counts[f"{which}_l{depth}_{'hits' if found else 'misses'}"] += 1
            if found:
                return True
        self.counts["icm_fetches"] += 1
        return False

    def forget(self, region, pages):
        """The region is deregistered, and no other has one of its pages."""
        self.drop(self.regions, region, ("region", region))
        for line in dict.fromkeys(page // self.line for page in pages):
            self.drop(self.pages, line, ("line", line))

    def drop(self, levels, number, name):
        for level in levels:
            there = level.sets[number % len(level.sets)].pop(name, None)
            self.counts["entries_invalidated"] += there is not None
