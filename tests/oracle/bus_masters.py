"""What the masters of the oracle's bus do: a CPU word by word, engines block by block."""

from oracle.bus import CACHE, EXCLUSIVE, IN, INVALID, MODIFIED, SHARED, VALID, Ask, Await, Until


def device(bus, kind, address, count, memory, place, rate, retried):
    """The act of a device's read or write of bytes within one block."""
    block, whole = address // bus.block, count == bus.block

    def act():
        home = bus.home.get(block)
        if home is not None and bus.copy[home][1] == MODIFIED:
            return "again", bus.write_copy_back(home)
        if retried and not (kind == "write" and whole):
            dirty = bus.l2.state(block) == MODIFIED
            written, until = bus.written_back
            if dirty or (written == block and bus.at < until):
                bus.take("device", "retry")
                if dirty and CACHE not in bus.asks:
                    bus.asks[CACHE] = Ask(bus.now, write_back_for(bus, block))
                return "again", bus.now + bus.c["retry_delay"] * bus.c["bus_cycle"]
        bus.take("device", kind)
        if kind == "read":
            ready = bus.snoop_read(block)
            memory[place : place + count] = bus.truth[address : address + count]
            return "made", bus.data(ready, count, rate)
        ready = bus.now
        if bus.l2.state(block) == MODIFIED and not whole:
            bus.counts["device", "intervention"] = bus.counts.get(("device", "intervention"), 0) + 1
            ready = bus.data(bus.now + bus.c["cache_supply"], bus.block)
        bus.discard(block)
        bus.truth[address : address + count] = memory[place : place + count]
        end = bus.data(ready, count, rate)
        if home is not None:
            bus.copy[home][1] = INVALID
            bus.agent_asks(home, end)
        return "made", end

    return act


def write_back_for(bus, block):
    def act():
        if bus.l2.state(block) != MODIFIED:
            return "void", bus.now
        bus.take("cpu", "write-back")
        bus.clean(block)
        bus.written_back = (block, bus.data(bus.now, bus.block))
        return "made", bus.written_back[1]

    return act


def pieces(bus, address, count):
    """(offset, bytes) of the parts of a range in its blocks."""
    done = 0
    while done < count:
        size = min(bus.block - (address + done) % bus.block, count - done)
        yield done, size
        done += size


def asked(bus, engine, since, window, act):
    """One transaction of an engine: it asks when the one ``window`` before it has ended."""
    ends = bus.ends[engine]
    at = max(since, ends[-window] if len(ends) >= window else 0)
    how, end = yield Ask(at, act)
    if how == "made":
        ends.append(end)
    return how, end


def dma(bus, engine, kind, address, count, place, when, retried):
    """An engine moves a range: it is set up, takes block after block, and interrupts."""
    yield Until(when)
    yield from moved(bus, engine, kind, address, count, place, retried)


def moved(bus, engine, kind, address, count, place, retried):
    yield Until(bus.now + bus.c["dma_init"])
    since, end = bus.won(engine), bus.now
    rate = bus.c["dma_mbytes_s"]
    for done, size in pieces(bus, address, count):
        act = device(bus, kind, address + done, size, bus.nic, place + done, rate, retried)
        _, end = yield from asked(bus, engine, since, bus.c["dma_window"], act)
    yield Until(end + bus.c["dma_interrupt"])


def report(bus, engine, address, count, place, when):
    yield Until(when)
    rate = bus.c["dma_mbytes_s"]
    act = device(bus, "write", address, count, bus.nic, place, rate, False)
    _, end = yield from asked(bus, engine, bus.now, 1, act)
    yield Until(end)


def other(bus, rows):
    """A device that is no interface: each next transaction asks when the last is ordered."""
    for kind, at, address, count, place, retried in rows:
        act = device(bus, kind, address, count, bus.other, place, 0, retried)
        yield Ask(max(at, bus.now), act)


def is_registered(bus, address, count):
    return all(
        address // bus.block + b in bus.home
        for b in range((address % bus.block + count - 1) // bus.block + 1)
    )


def place_of(bus, address):
    return bus.home[address // bus.block] * bus.block + address % bus.block


def edt_fetch(bus, engine, address, count, place, when):
    yield Until(when)
    if not is_registered(bus, address, count):
        yield from moved(bus, engine, "read", address, count, place, False)
        return
    last = (address + count - 1) // bus.block
    yield Await([bus.home[b] for b in range(address // bus.block, last + 1)])


def edt_deliver(bus, address, count, place, when):
    yield Until(when)
    if not is_registered(bus, address, count):
        yield from moved(bus, IN, "write", address, count, place, False)
    elif bus.c["receive_method"] == 1:
        yield from deliver_coherently(bus, address, count, place)
    else:
        yield from deliver_by_writing_back(bus, address, count, place)


def put(bus, address, size, source):
    to = place_of(bus, address)
    bus.nic[to : to + size] = bus.nic[source : source + size]


def deliver_coherently(bus, address, count, place):
    begun = False
    for done, size in pieces(bus, address, count):
        block = (address + done) // bus.block
        home = bus.home[block]

        def act(block=block, home=home, size=size):
            if bus.copy[home][1] == INVALID and size < bus.block:
                return "void", bus.now
            bus.take("device", "upgrade")
            bus.discard(block)
            bus.copy[home][1], bus.copy[home][3] = MODIFIED, bus.now
            return "made", bus.now

        waited = size == bus.block
        while bus.copy[home][1] != MODIFIED:
            if not waited or (size < bus.block and bus.copy[home][1] == INVALID):
                yield Await([home])
                waited = True
                continue
            since = bus.now if begun else bus.won(IN)
            begun = True
            yield from asked(bus, IN, since, 1, act)
        put(bus, address + done, size, place + done)
        start = address + done
        bus.truth[start : start + size] = bus.nic[place + done : place + done + size]


def deliver_by_writing_back(bus, address, count, place):
    for done, size in pieces(bus, address, count):
        home = bus.home[(address + done) // bus.block]
        waited = size == bus.block
        while not waited or (size < bus.block and bus.copy[home][1] == INVALID):
            yield Await([home])
            waited = True
        put(bus, address + done, size, place + done)
        bus.copy[home][1], bus.copy[home][3] = VALID, 0
    since, end = bus.won(IN), bus.now
    for done, size in pieces(bus, address, count):
        start = address + done
        home = bus.home[start // bus.block]

        def act(home=home, start=start // bus.block * bus.block):
            if bus.copy[home][1] in (INVALID, SHARED):
                return "void", bus.now
            mine = bus.nic[home * bus.block : (home + 1) * bus.block]
            bus.truth[start : start + bus.block] = mine
            return "made", bus.write_copy_back(home)

        how = "void"
        if bus.copy[home][1] == VALID:
            how, end = yield from asked(bus, IN, since, bus.c["dma_window"], act)
            since = bus.now if how == "void" else since
        if how == "void":  # the host has taken the block: only what came is written
            rate = bus.c["dma_mbytes_s"]
            merge = device(bus, "write", start, size, bus.nic, place + done, rate, False)
            _, end = yield from asked(bus, IN, since, bus.c["dma_window"], merge)
    yield Until(end)


class Cpu:
    """The CPU, in order, a word at a time."""

    def __init__(self, bus):
        self.bus, self.c = bus, bus.c

    def words(self, address, count):
        while count:
            size = min(self.c["word"] - address % self.c["word"], count)
            yield address, size
            address, count = address + size, count - size

    def wait(self, time):
        yield Until(self.bus.now + time)

    def has(self, level, name, write, right):
        state = level.state(name)
        return state != INVALID and not (write and state < right)

    def touch(self, address, size, raw):
        """Load ``size`` bytes, or store ``raw``; what was loaded."""
        bus, write = self.bus, raw is not None
        line, block = address // self.c["l1_line"], address // bus.block
        if not self.has(bus.l1, line, write, MODIFIED):
            yield from self.wait(self.c["l2_latency"])
            if not self.has(bus.l2, block, write, EXCLUSIVE):
                found = []
                yield Ask(bus.now, self.miss(address, size, raw, bus.now, found))
                yield from self.wait(self.c["l1_latency"])
                return found[0]
            self.give(line, block, write)
        found = self.use(address, size, raw)
        yield from self.wait(self.c["l1_latency"])
        return found

    def give(self, line, block, write):
        if write:
            self.bus.l2.put(block, MODIFIED)
        self.bus.l2.use(block)
        self.bus.l1.put(line, MODIFIED if write else SHARED)

    def use(self, address, size, raw):
        self.bus.l1.use(address // self.c["l1_line"])
        if raw is not None:
            self.bus.truth[address : address + size] = raw
        return bytes(self.bus.truth[address : address + size])

    def miss(self, address, size, raw, at, found):
        bus, write, block = self.bus, raw is not None, address // self.bus.block

        def act():
            end, victim = bus.now, bus.l2.victim(block)
            if bus.l2.state(block) == INVALID:
                if victim:
                    bus.discard(victim[0])
                    if victim[1] == MODIFIED:
                        bus.take("cpu", "write-back")
                        bus.data(bus.now, bus.block)
                        return "again", at
                end = self.read(block, write)
                if write and bus.l2.state(block) == SHARED:
                    return "again", end
            elif write:
                bus.take("cpu", "upgrade")
                bus.lose(block, bus.now)
            self.give(address // self.c["l1_line"], block, write)
            found.append(self.use(address, size, raw))
            return "made", end

        return act

    def read(self, block, write):
        bus = self.bus
        exclusive = write and not self.c["fill_then_invalidate"]
        bus.take("cpu", "read-exclusive" if exclusive else "read")
        home, ready = bus.home.get(block), bus.now + self.c["memory_latency"]
        if home is not None and bus.copy[home][1] == MODIFIED:
            bus.counts["cpu", "intervention"] = bus.counts.get(("cpu", "intervention"), 0) + 1
            ready = bus.now + self.c["device_latency"]
            bus.copy[home][1] = SHARED
        end = bus.data(ready, bus.block)
        bus.l2.put(block, EXCLUSIVE if home is None or exclusive else SHARED)
        if exclusive:
            bus.lose(block, end)
        return end

    def load(self, address, count):
        found = b""
        for where, size in self.words(address, count):
            found += yield from self.touch(where, size, None)
        return found

    def store(self, address, raw):
        for where, size in self.words(address, len(raw)):
            yield from self.touch(where, size, raw[where - address : where - address + size])

    def copy(self, address, to, count):
        for done in range(0, count, self.bus.block):
            size = min(self.bus.block, count - done)
            raw = yield from self.load(address + done, size)
            yield from self.store(to + done, raw)

    def flush(self, address, count):
        bus = self.bus
        for block in range(address // bus.block, (address + count - 1) // bus.block + 1):
            yield from self.wait(self.c["flush_instruction"] + self.c["l2_latency"])

            def act(block=block):
                how, end = "void", bus.now
                if bus.l2.state(block) == MODIFIED:
                    bus.take("cpu", "write-back")
                    how, end = "made", bus.data(bus.now, bus.block)
                bus.discard(block)
                return how, end

            if bus.l2.state(block) == MODIFIED:
                yield Ask(bus.now, act)
            else:
                bus.discard(block)

    def uncached(self, kind, place, raw):
        """At most eight bytes of the device; a register of it has no place."""
        found = []

        def act():
            bus = self.bus
            bus.take("cpu", f"uncached-{kind}")
            if kind == "read":
                found.append(bytes(bus.nic[place : place + len(raw)]))
                return "made", bus.data(bus.now + self.c["device_latency"], len(raw))
            if place is not None:
                bus.nic[place : place + len(raw)] = raw
            return "made", bus.data(bus.now, len(raw))

        yield Ask(self.bus.now, act)
        return found[0] if found else b""

    def eights(self, place, count):
        done = 0
        while done < count:
            size = min(8 - (place + done) % 8, count - done)
            yield done, size
            done += size

    def to_device(self, address, place, count):
        for done, size in self.eights(place, count):
            raw = yield from self.load(address + done, size)
            yield from self.uncached("write", place + done, raw)

    def from_device(self, place, address, count):
        for done, size in self.eights(place, count):
            raw = yield from self.uncached("read", place + done, bytes(size))
            yield from self.store(address + done, raw)
