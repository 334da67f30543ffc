"""Contexts and work requests of a replayed trace, with lists: the twin of ``drivers.replay``.

Written from docs/rnic.md, "Contexts and work requests", alone.
"""

from collections import Counter

from oracle.connections import Kept


class ConnectionsOracle:
    """One NIC; requests are (connection, whether its own process posts it), in their order."""

    def __init__(self, contexts, work_requests, outstanding, draw=None):
        self.contexts, self.work_requests = Kept(contexts, draw), Kept(work_requests, draw)
        self.outstanding = outstanding
        self.posted = []  # (connection, its number) of all outstanding, the oldest first
        self.counts = Counter()
        self.known = set()

    def replay(self, requests):
        for number, (connection, is_posted) in enumerate(requests):
            self.known.add(connection)
            self.counts["requests"] += 1
            if not is_posted:
                self.need("context", self.contexts, connection)
                continue
            own = [each for each in self.posted if each[0] == connection]
            if len(own) == self.outstanding:
                self.answer(own[0])
            self.counts["posted"] += 1
            request = (connection, number)
            self.posted.append(request)
            self.work_requests.bring(request)
            self.execute(request)
        while self.posted:
            self.answer(self.posted[0])
        return {**self.counts, "connections": len(self.known)}

    def execute(self, request):
        self.need("context", self.contexts, request[0])
        self.need("work_request", self.work_requests, request)

    def answer(self, request):
        self.execute(request)
        self.work_requests.leave(request)
        self.posted.remove(request)

    def need(self, what, kept, key):
        self.counts[f"{what}_lookups"] += 1
        if not kept.use(key):
            kept.bring(key)
            self.counts[f"{what}_misses"] += 1
