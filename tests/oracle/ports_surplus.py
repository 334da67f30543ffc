"""What is pinned beyond the high water: a scan at long intervals (miNI, IV.B.2)."""

from collections import Counter

from oracle.ports_served import Served


class Surplus(Served):
    """Lines that have left the NIC are unpinned, the one filled longest ago first."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.mark = world.settings.get("high_water", "none")
        self.fills = [Counter() for _ in self.nodes]  # by line: when it was filled last
        self.kept = Counter()  # (node, space, page): by what has not ended
        self.scan_at = [None] * len(self.nodes)

    def keep(self, node, space, pages):
        self.kept.update((node.number, space, page) for page in pages)

    def leave(self, node, space, pages):
        self.kept.subtract((node.number, space, page) for page in pages)

    def note_filled(self, node, key):
        fills = self.fills[node.number]
        fills[key] = 1 + max(fills.values(), default=0)

    def of_node(self, node):
        """The pages that count as pinned."""
        return {key for key in self.brought if key[0] == node.number}

    def may_go(self, node):
        """Pages of lines that have left the NIC, in the order in which they go."""
        gone = {self.key_of(*key[1:]) for key in self.of_node(node)}
        gone = {key for key in gone if key not in self.lines[node.number]}
        ordered = sorted(gone, key=self.fills[node.number].get)
        every = [(node.number, key[0], page) for key in ordered for page in self.pages_of_line(key)]
        return [one for one in every if one in self.brought and not self.kept[one]]

    def has_surplus(self, node):
        if self.mark == "none":
            return False
        return len(self.of_node(node)) > self.mark and bool(self.may_go(node))

    def processor_looks(self, node):
        """The next scan is seen to as soon as there is something for it to do."""
        super().processor_looks(node)
        if self.scan_at[node.number] is None and self.has_surplus(node):
            period = self.world.scan_period
            self.scan_at[node.number] = (self.now // period + 1) * period

    def timers(self, node):
        yield from super().timers(node)
        if self.scan_at[node.number] is not None:
            yield self.scan_at[node.number]

    def before_peers(self, node):
        super().before_peers(node)
        if self.scan_at[node.number] == self.now:
            self.scan_at[node.number] = None
            self.scan(node)

    def scan(self, node):
        """It takes the CPU for each page."""
        surplus = max(0, len(self.of_node(node)) - self.mark)
        gone = self.may_go(node)[:surplus]
        for _, space, page in gone:
            self.brought.discard((node.number, space, page))
            if (node.number, space, page) in self.valid:
                self.valid.discard((node.number, space, page))
                self.unpin_frame(node, space, page)
            self.counts[node.number]["unpins"] += 1
        if gone:
            self.interrupt(node, len(gone) * node.service["unpin"])
