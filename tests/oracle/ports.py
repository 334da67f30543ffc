"""Programs on ports in virtual time as one would first write them: deques, a scan for the next.

Written from ``docs/programs.md``; engines, links and order are those of ``delivery``.  This file
has the hosts: processes, their CPU, queues and reports.
"""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.delivery import Simulation
from oracle.delivery_records import CPU, Action
from oracle.ports_records import (
    BACK,
    CLOSED,
    DONE,
    INTERRUPTED,
    NO_NAME,
    REFUSED,
    TIMER,
    WORKS,
    Host,
    Port,
    Received,
    Sent,
)


class Hosts(Simulation):
    """CPUs and their processes."""

    def __init__(self, world):
        network, delivery = world.network, world.delivery
        # What a node sends to itself holds the link by which others' packets come to it.
        ways = {(n, n): (network.nodes + n,) for n in range(network.nodes)}
        super().__init__(
            [world.costs] * network.nodes, delivery, network.paths | ways,
            network.hops | dict.fromkeys(ways, 0), network.links, [],
        )  # fmt: skip
        self.world = world
        self.nodes = [Host(number, dict(world.costs), [], []) for number in range(network.nodes)]
        for node in self.nodes:
            node.service = world.service
            node.last_task = 7
            node.ports.append(Port(node.number, 0, 0, dict.fromkeys(range(world.ring))))

    # --- programs -------------------------------------------------------------------------------

    def after_event(self):
        """Programs whose operation has ended go on, when all else of this moment has happened."""
        for node in self.nodes:
            for process in node.processes:
                if process.resume:
                    process.resume = False
                    self.go_on_with(node, process)
                    self.cpu_looks(node)
                    self.processor_looks(node)  # there may be work without an operation

    def lives(self, node):
        """Whether the node has not died."""
        raise NotImplementedError

    def longest_silence(self):
        """After which a peer is dead, and nothing that one waits for comes any more."""
        return (self.world.most_retries + 1) * self.world.time_out

    def all_ended(self):
        """The run is over with the last program, whatever is still on its way."""
        every = [one for node in self.nodes if self.lives(node) for one in node.processes]
        return all(not (one.plan or one.resume or one.asked) and one.wakes is None for one in every)

    def go_on_with(self, node, process):
        """The program runs up to its next operation, which is asked for now."""
        while process.plan:
            step = process.plan.popleft()
            if step[0] == "drain":
                if node.ports[process.port].received:
                    process.plan.appendleft(step)
                    self.ask(process, ("arrival", "poll", step[1]))
                    return
                continue
            if step[0] == "sleep":
                process.wakes = self.now + step[1]
                return
            if step[0] in ("load", "store"):
                found, spent = self.touch(node, process, *step)
                if spent:
                    self.ask(process, ("compute", spent, found))
                    return
                process.results.append((self.now, found))
                continue
            if step[0] == "swap":
                self.swap_out(node, step[1])
                continue
            if step[0] == "close":
                if not self.go_on_to_close(node, process, *step[1:]):
                    return
                continue
            self.ask(process, step)
            return

    def touch(self, node, process, what, address, count):
        """The process's own load or store: what it loaded, and what its page faults take."""
        raise NotImplementedError

    def swap_out(self, node, frames):
        """The operating system has so many frames free, if it can."""
        raise NotImplementedError

    def go_on_to_close(self, node, process, pause):
        """Whether the process's port has closed; else the process sleeps."""
        raise NotImplementedError

    def asks_in_vain(self, port, step):
        """Whether it waits for a report that a closed port has not."""
        reports = {"done": port.sent, "arrival": port.received}
        return not port.open and step[0] in reports and not reports[step[0]]

    def ask(self, process, step):
        if step[0] in ("post", "done"):
            process.pinned.append((self.now, self.pinned_of(process)))
        process.asked, process.since = step, self.now
        port = self.nodes[process.node].ports[process.port]
        nothing = {"done": not port.sent, "arrival": not port.received}
        process.slept = nothing.get(step[0], False)

    def pinned_of(self, process):
        """How many pages of the process are pinned."""
        here = process.node, process.number
        return sum(where[:2] == here for where in self.pinned_at_last())

    def end_operation(self, process, *result):
        process.results.append((self.now, *result))
        process.resume = True

    def interrupt(self, node, duration):
        """Take so much time of the CPU: of what it does, if it does not idle."""
        if node.cpu is None:
            node.cpu = Action("interrupt", self.now, self.now + duration)
        else:
            node.stolen += duration

    # --- the CPU --------------------------------------------------------------------------------

    def cpu_looks(self, node):
        if node.cpu is not None:
            return
        waiting = sorted(
            (one for one in node.processes if one.asked is not None),
            key=lambda one: (one.since, one.number),
        )
        for process in waiting:
            duration = self.begins(node, process)
            if duration is not None:
                node.busy = process
                node.cpu = Action("program", self.now, self.now + duration)
                return

    def begins(self, node, process):
        """Begin the operation: what it takes; None if it cannot begin yet."""
        step, service = process.asked, node.service
        port = node.ports[process.port]
        if step[0] == "compute":
            return step[1]
        if step[0] in ("done", "arrival"):
            if self.asks_in_vain(port, step):
                return service["poll"]
            if not (port.sent if step[0] == "done" else port.received):
                return None
            extra = {"poll": 0, "block": service["wake"], "signal": service["signal"]}[step[1]]
            return service["poll"] + (extra if process.slept else 0)
        if step[0] == "provide":
            if not port.open:
                return service["post"]
            if len(port.free) >= self.world.ring:
                return None
            pages = self.pages_of(step[1], 1)
            cost, _ = self.have_pinned(node, process.number, pages)
            self.keep(node, process.number, pages)
            return cost + service["post"]
        if step[0] == "register":
            return self.begin_to_register(node, port, self.pages_of(*step[1:]))
        assert step[0] == "post"
        return self.begin_to_post(node, port, step[1])

    def begin_to_register(self, node, port, pages):
        """All of it stays pinned, or nothing is kept."""
        if not self.could_pin(node, port, pages):
            return None
        cost, port.registered = self.have_pinned(node, port.space, pages)
        if port.registered == DONE:
            self.keep(node, port.space, pages)
        return cost + node.service["system_call"]

    def begin_to_post(self, node, port, descriptor):
        """Pages are looked up and pinned now, segment by segment, until one cannot be."""
        before = port.places[port.posted % self.world.ring]  # places are used in turn
        unread = port.posted + port.refused - port.reaped
        if unread >= self.world.ring or (before and before.status is None):
            return None
        if not port.open:
            return node.service["post"]
        pieces = [self.pages_of(*segment) for segment in descriptor.segments]
        if not all(self.could_pin(node, port, pages) for pages in pieces):
            return None
        cost = node.service["post"]
        for pages in pieces:
            spent, status = self.have_pinned(node, port.space, pages)
            cost += spent
            if status != DONE:
                descriptor.refused_here = status
                break
            self.keep(node, port.space, pages)
            descriptor.kept.append(pages)
        return cost

    def pages_of(self, address, length):
        return range(address // self.world.page, (address + length - 1) // self.world.page + 1)

    def is_under_way(self, port):
        """Whether something of the port's will yet end, so that pages may be unpinned."""
        descriptors = any(one is not None and one.status is None for one in port.places.values())
        return descriptors or bool(port.free or port.ready or port.filling)

    def happen(self, node, kind):
        if kind == CPU:
            self.operation_ends(node)
        elif kind == TIMER:
            self.timer(node)
        else:
            super().happen(node, kind)

    def pending_of(self, node):
        yield from super().pending_of(node)
        timers = list(self.timers(node))
        if timers:
            yield TIMER, min(timers)

    def timers(self, node):
        for process in node.processes:
            if process.wakes is not None:
                yield process.wakes

    def timer(self, node):
        for process in node.processes:
            if process.wakes == self.now:
                process.wakes = None
                process.resume = True
        self.before_peers(node)
        self.mind_peers(node)
        self.after_peers(node)

    def before_peers(self, node):
        """What is due before what the transport does."""

    def mind_peers(self, node):
        """What is due of the transport."""

    def after_peers(self, node):
        """What is due behind that."""

    def operation_ends(self, node):
        action, process = node.cpu, node.busy
        if action.what == "interrupt":
            self.work(node, INTERRUPTED, action.start)
        else:
            place = process.number + sum(len(one.processes) for one in self.nodes[: node.number])
            self.work(node, WORKS[process.asked[0]], action.start, place)
        if node.stolen:
            node.cpu, node.stolen = Action("interrupt", self.now, self.now + node.stolen), 0
            return
        node.cpu = node.busy = None
        if process is None:
            return
        step, process.asked = process.asked, None
        port = node.ports[process.port]
        if step[0] == "post":
            self.post(node, port, step[1])
            self.end_operation(process, step[1].number)
        elif step[0] == "provide":
            if port.open:
                port.free.append(step[1])
            self.end_operation(process, None)
        elif self.asks_in_vain(port, step):
            self.end_operation(process, REFUSED)
        elif step[0] == "done":
            report = port.sent.popleft()
            port.reaped += 1
            self.end_operation(process, report)
        elif step[0] == "arrival":
            report = port.received.popleft()
            port.ahead.for_reader = False
            if len(step) > 2 and step[2]:
                for buffer in reversed(report.buffers):
                    if report.status == DONE:
                        process.plan.appendleft(("provide", buffer))
            self.end_operation(process, report)
        elif step[0] == "register":
            self.end_operation(process, port.registered)
        elif step[0] == "compute":
            self.end_operation(process, *(step[2:] or (None,)))
        else:
            self.end_operation(process, None)

    def post(self, node, port, descriptor):
        """The descriptor is the NIC's, or never reaches it."""
        descriptor.space = port.space
        if not port.open:
            descriptor.refused_here = CLOSED
        if descriptor.refused_here is not None:
            port.refused += 1
            self.end_descriptor(port, descriptor, descriptor.refused_here)
            return
        port.places[port.posted % self.world.ring] = descriptor
        port.posted += 1
        port.requests.append(descriptor)

    # --- reports --------------------------------------------------------------------------------

    def end_descriptor(self, port, descriptor, status):
        descriptor.status = status
        for pages in descriptor.kept:
            self.leave(self.nodes[port.node], port.space, pages)
        port.sent.append(Sent(descriptor.number, status))

    def has_place(self, port):
        return len(port.received) + port.reserved < self.world.ring

    def give_back(self, node, port, address, status):
        self.leave(node, port.space, self.pages_of(address, 1))
        report = Received(BACK, NO_NAME, node.number, 0, None, (address,), 0, status)
        port.received.append(report)
