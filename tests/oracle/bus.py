"""A snooping bus as one would first write it: a list of requests, scanned for whose turn it is.

Bytes are where a plain memory would have them: a read takes them there when it is ordered, a write
puts them there, so whoever agrees with this is coherent.  Caches are lists of names, oldest first.
Whoever acts is a generator: it yields when it goes on, what it asks the bus for, or what it awaits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

AGENT, REPORT, OUT, IN, OTHER, CACHE, CPU = range(7)
# Of what is due at the same time: the bus, the CPU, the engines; then whoever watches from outside.
ORDER = {"bus": 0, CPU: 3, OUT: 4, IN: 9, REPORT: 10, "outside": 99}
INVALID, SHARED, EXCLUSIVE, MODIFIED, VALID = range(5)
FAR = 1 << 62


class Until(NamedTuple):
    time: int


class Ask(NamedTuple):
    at: int
    act: Any  # of the present: (how, time), how being "made", "void" or "again"


class Await(NamedTuple):
    homes: list[int]


class Level:
    """Names of one level of a cache with their states, least recently used first in each set."""

    def __init__(self, size, line, ways):
        self.ways, self.sets = ways, [[] for _ in range(size // line // ways)]

    def find(self, name):
        return next((entry for entry in self._set(name) if entry[0] == name), None)

    def _set(self, name):
        return self.sets[name % len(self.sets)]

    def state(self, name):
        entry = self.find(name)
        return INVALID if entry is None else entry[1]

    def use(self, name):
        entry = self.find(name)
        self._set(name).remove(entry)
        self._set(name).append(entry)

    def victim(self, name):
        """Who has to go before ``name`` can come, or None."""
        return self._set(name)[0] if len(self._set(name)) == self.ways else None

    def put(self, name, state):
        if self.find(name) is None:
            if self.victim(name):
                self._set(name).pop(0)
            self._set(name).append([name, state])
        self.find(name)[1] = state

    def drop(self, name):
        if self.find(name):
            self._set(name).remove(self.find(name))


class Bus:
    """One node.  ``c``: the constants, as docs/coherence.md names them."""

    def __init__(self, c, memory_bytes, nic_bytes):
        self.c, self.now, self.at = c, 0, 0  # ``at``: since when the one that is granted asked
        self.truth, self.nic = bytearray(memory_bytes), bytearray(nic_bytes)
        self.other = bytearray(nic_bytes)
        self.l1 = Level(c["l1_bytes"], c["l1_line"], c["l1_ways"])
        self.l2 = Level(c["l2_bytes"], c["l2_line"], c["l2_ways"])
        self.block = c["l2_line"]
        self.address_free = self.data_free = 0
        self.counts = {}
        self.asks = {}
        self.home = {}  # block: the agent's block
        self.copy = {}  # the agent's block: [block, state, due or None, arrived]
        self.pending, self.read_ends = [], []
        self.written_back = (None, 0)
        self.actors, self.wakes, self.awaiting, self.ended = {}, {}, {}, {}
        self.ends = {OUT: [], IN: [], REPORT: []}
        self.operations = {OUT: 0, IN: 0}

    # The bus.

    def edge(self, time):
        return -(-time // self.c["bus_cycle"]) * self.c["bus_cycle"]

    def ordered(self, at):
        start = max(self.edge(at + self.c["arbitration"] * self.c["bus_cycle"]), self.address_free)
        return start + (self.c["address_phase"] + self.c["snoop"]) * self.c["bus_cycle"]

    def take(self, who, kind):
        self.address_free = self.now - self.c["snoop"] * self.c["bus_cycle"]
        self.counts[who, kind] = self.counts.get((who, kind), 0) + 1

    def data(self, ready, count, rate=0):
        taken = -(-count // self.c["bus_bytes"]) * self.c["bus_cycle"]
        if rate:
            taken = max(taken, self.edge(-(-count * 1_000_000 // rate)))
        self.data_free = max(self.edge(ready), self.data_free) + taken
        return self.data_free

    def won(self, engine):
        """When an engine that begins an operation now may ask: no burst is under way then.

        The background's cycle is at the middle of one of its eighths, each eight in another order.
        """
        number = self.operations[engine]
        self.operations[engine] += 1
        if not self.c["background_percent"]:
            return self.now
        order = [0, 5, 2, 7, 4, 1, 6, 3]
        turned = order[number // 8 % 8 :] + order[: number // 8 % 8]
        burst = -(-self.c["background_bytes"] // self.c["bus_bytes"]) * self.c["bus_cycle"]
        cycle = burst * 100 // self.c["background_percent"]
        return self.now + max(0, burst - cycle * (2 * turned[number % 8] + 1) // 16)

    def first(self):
        """The request that is ordered next: (when, master), found by scanning them all."""
        self.asks.pop(AGENT, None)
        if self.pending:
            window = self.c["read_window"]
            before = self.read_ends[-window] if len(self.read_ends) >= window else 0
            at = max(self.copy[self.pending[0]][2], before)
            self.asks[AGENT] = Ask(at, lambda: self.agent_read())
        if not self.asks:
            return FAR, None
        master = min(self.asks, key=lambda each: (self.asks[each].at, each))
        return self.ordered(self.asks[master].at), master

    def grant(self, master):
        ask = self.asks.pop(master)
        self.at = ask.at
        how, time = ask.act()
        if how == "again":
            self.asks[master] = Ask(time, ask.act)
        elif master == CPU:
            self.wakes[CPU] = time
        elif master not in (AGENT, CACHE):
            self.resume(master, (how, time))
        if master == AGENT:
            for engine in [*self.awaiting]:
                self.note(engine)

    # Whoever acts.

    def start(self, who, actor):
        self.actors[who] = actor
        self.resume(who, None)

    def resume(self, who, answer):
        try:
            wanted = self.actors[who].send(answer)
        except StopIteration:
            del self.actors[who]
            self.ended[who] = self.now
            if who == CPU:
                self.wakes["outside"] = self.now
            return
        if isinstance(wanted, Until):
            self.wakes[who] = wanted.time
        elif isinstance(wanted, Ask):
            self.asks[who] = wanted
        else:
            for home in wanted.homes:
                if self.copy[home][1] == INVALID:
                    self.agent_asks(home, self.now)
            self.awaiting[who] = (list(wanted.homes), self.now)
            self.note(who)

    def note(self, who):
        """What was awaited and has come is awaited no more."""
        homes, arrived = self.awaiting[who]
        while homes:
            if self.copy[homes[0]][1] == INVALID:
                self.agent_asks(homes[0], self.now)
            if self.copy[homes[0]][2] is not None:
                self.awaiting[who] = (homes, arrived)
                return
            arrived = max(arrived, self.copy[homes.pop(0)][3])
        del self.awaiting[who]
        self.wakes[who] = arrived

    def run(self):
        """Until nothing is due, or the CPU has done what it was given."""
        while True:
            when, master = self.first()
            due = [(when, ORDER["bus"], "bus")]
            due += [(time, ORDER[who], who) for who, time in self.wakes.items()]
            time, _, who = min(due)
            if time == FAR:
                return
            self.now = time
            if who == "bus":
                self.grant(master)
                continue
            del self.wakes[who]
            if who == "outside":
                return
            self.resume(who, None)

    # The agent.

    def agent_asks(self, home, when):
        if self.copy[home][2] is None:
            self.copy[home][2] = when
            self.pending.append(home)

    def lose(self, block, when):
        if block in self.home:
            copy = self.copy[self.home[block]]
            copy[1] = INVALID
            if self.c["reaction"] is not None:
                self.agent_asks(self.home[block], when + self.c["reaction"])

    def agent_read(self):
        home = self.pending.pop(0)
        copy = self.copy[home]
        copy[2] = None
        if copy[1] != INVALID:
            if self.pending:
                behind = self.copy[self.pending[0]]
                behind[2] = max(behind[2], self.now)
            return "void", self.now
        self.take("device", "read")
        start = copy[0] * self.block
        ready = self.snoop_read(copy[0])
        self.nic[home * self.block : (home + 1) * self.block] = self.truth[
            start : start + self.block
        ]
        copy[1] = SHARED
        copy[3] = self.data(ready, self.block, self.c["dma_mbytes_s"])
        self.read_ends.append(copy[3])
        return "made", copy[3]

    # What the host's caches do for others.

    def lines(self, block):
        each = self.block // self.c["l1_line"]
        return range(block * each, (block + 1) * each)

    def clean(self, block):
        """The block stays, SHARED, in both levels."""
        if self.l2.find(block):
            self.l2.find(block)[1] = SHARED
            for line in self.lines(block):
                if self.l1.find(line):
                    self.l1.find(line)[1] = SHARED

    def discard(self, block):
        self.l2.drop(block)
        for line in self.lines(block):
            self.l1.drop(line)

    def snoop_read(self, block):
        ready = self.now + self.c["memory_latency"]
        if self.l2.state(block) == MODIFIED:
            self.counts["device", "intervention"] = (
                self.counts.get(("device", "intervention"), 0) + 1
            )
            ready = self.now + self.c["cache_supply"]
        self.clean(block)
        return ready

    def write_copy_back(self, home, count_as="write-back"):
        block = self.copy[home][0]
        self.take("device", count_as)
        self.discard(block)
        self.copy[home][1] = SHARED
        return self.data(self.now, self.block, self.c["dma_mbytes_s"])
