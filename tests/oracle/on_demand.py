"""Paging on demand for a NIC, page by page on the slow twin of the host's memory.

Written from ``docs/odp.md``.
"""

from collections import Counter

from nicscope.memory.paging import layout as code
from oracle.paging import Host


class Twin:
    def __init__(self, piece, advises, ahead, frames, pages, blocks):
        self.piece = piece  # pages, or None for the whole request
        self.advises = advises
        self.ahead = ahead
        self.host = Host(frames, 1, 1, pages, blocks, None, None)
        self.host.map(0, 0, pages, code.READ | code.WRITE)
        self.counts = Counter()
        self.faults_of = []  # requests
        self.had = set()  # pages that were ever there

    def run(self, requests):
        """``requests``: the first page in its process, and the numbers of its pages."""
        for place in range(len(requests) + self.ahead):
            if self.advises and place < len(requests):
                self.advise(*requests[place])
            if place >= self.ahead:
                self.use(*requests[place - self.ahead])

    def absent(self, page):
        return self.host.need(0, page, True) != code.READY

    def bring(self, page, whose):
        from_swap = page in self.had
        self.counts[f"{whose}{'major' if from_swap else 'minor'}_pages"] += 1
        self.had.add(page)
        assert self.host.provide(0, page, True) >= 0
        return from_swap

    def advise(self, _, pages):
        self.counts["advices"] += 1
        self.counts["advised_pages"] += len(pages)
        for page in pages:
            if self.absent(page):
                self.bring(page, "prefetched_")

    def pieces(self, first, pages):
        if self.piece is None:
            return [pages]
        found = {}
        for place, page in enumerate(pages):
            found.setdefault((first + place) // self.piece, []).append(page)
        return [*found.values()]

    def use(self, first, pages):
        faults = 0
        for piece in self.pieces(first, pages):
            absent = [page for page in piece if self.absent(page)]
            left = [*piece]
            while left and not self.absent(left[0]):
                left.pop(0)
            if not left:
                continue
            assert absent
            faults += 1
            self.counts["fault_range_pages"] += len(left)
            from_swap = [self.bring(page, "") for page in left if self.absent(page)]
            self.counts["major_faults"] += any(from_swap)
        self.counts["requests"] += 1
        self.counts["lookups"] += len(pages)
        self.counts["faults"] += faults
        self.counts["faulting_requests"] += faults > 0
        self.faults_of.append(faults)
