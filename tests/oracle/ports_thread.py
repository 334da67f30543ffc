"""The kernel thread that serves misses one after another: its queue, its turns, its promise."""

from __future__ import annotations

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from dataclasses import dataclass
from typing import Any

from oracle.ports_translation import Translating


@dataclass(eq=False)
class Event:
    """Something that is not on the NIC, and who missed it."""

    what: Any
    port: Any  # or None: a packet
    peer: int = -1
    number: int = -1
    path: str = ""
    ahead: bool = False
    raised: int = 0
    forgotten: bool = False  # the port has closed; it takes its time all the same


@dataclass(eq=False)
class Thread:
    """That of one node."""

    queue: list[Event]
    state: str = "asleep"
    at: int | None = None
    reserved_for: int | None = None
    reserved_until: int = 0
    promised: Any = None  # places that stay, by their kind


class Threads(Translating):
    """Misses that are served by a thread, of whatever kind they are."""

    def __init__(self, world, network):
        super().__init__(world, network)
        self.threads = [Thread([], promised={}) for _ in self.nodes]

    # --- the queue -------------------------------------------------------------------------------

    def raise_event(self, node, event, handled=None):
        """The handler of an interrupt appends the miss to the queue and wakes the thread.

        ``handled``: when it has, if the host was interrupted already.
        """
        thread, service = self.threads[node.number], node.service
        if handled is None:
            self.counts[node.number]["interrupts"] += 1
            self.interrupt(node, service["interrupt"])
            handled = self.now + service["interrupt"]
        if event.port is None and any(other.what == event.what for other in thread.queue):
            return
        places = self.world.events - (event.port is not None and self.world.events > 1)
        if len(thread.queue) >= places:
            if event.port is not None:
                event.port.waiting.for_queue = True
            return
        thread.queue.append(event)
        event.raised = handled
        if event.port is not None:
            self.await_thread(node, event)
        if thread.state == "asleep":
            thread.state = "runnable"
            thread.at = handled + service["thread_delay"]

    def await_thread(self, node, event):
        event.port.waiting.for_thread = True

    def timers(self, node):
        yield from super().timers(node)
        thread = self.threads[node.number]
        if thread.at is not None:
            yield thread.at
        if thread.reserved_for is not None:
            yield thread.reserved_until

    def before_peers(self, node):
        """The thread's turn comes behind processes that sleep."""
        thread = self.threads[node.number]
        if thread.at != self.now:
            return
        thread.at, event = None, thread.queue[0]
        if thread.state == "working":
            if not event.forgotten:
                self.serve_event(node, event)
            self.turn_to_next(node, thread)
            return
        if thread.state == "reading":
            self.bring(node, *event.what[1:], event.path)
        elif event.what[0] == "page" and self.is_out(node, *event.what[1:]):
            thread.state, thread.at = "reading", self.now + node.service["page_in"]
            return
        thread.state = "working"
        work = node.service["thread_work"] + self.pinning_time(node, event)
        self.interrupt(node, work)
        thread.at = self.now + work

    def pinning_time(self, node, event):
        """What the pages take that will be pinned, if that is not in the thread's work."""
        return 0

    def turn_to_next(self, node, thread):
        thread.queue.pop(0)
        for port in node.ports:
            port.waiting.for_queue = False
        thread.state = "asleep"
        if thread.queue:
            thread.state, thread.at = "runnable", max(self.now, thread.queue[0].raised)

    def forget_misses(self, node, port):
        for event in self.threads[node.number].queue:
            event.forgotten |= event.port is port

    def serve_event(self, node, event):
        """What the thread has brought is on the NIC now, or cannot be."""
        raise NotImplementedError

    # --- the promise to the packet that was dropped first ----------------------------------------

    def note_drop_time(self, node, packet):
        stream = self.stream(node, packet.by)
        if stream.waits != packet.number:
            stream.waits, stream.since = packet.number, self.now

    def yield_reservation(self, node, peer):
        """End the promise to a packet that was dropped behind that of ``peer``."""
        thread = self.threads[node.number]
        if thread.reserved_for is not None:
            holder = self.stream(node, thread.reserved_for)
            if self.stream(node, peer).since < holder.since:
                self.withdraw(node)

    def promise(self, node, peer, kind, what):
        """What was brought for the packet stays until it is in."""
        thread = self.threads[node.number]
        if not self.world.reliable or thread.reserved_for not in (None, peer):
            return
        thread.reserved_for = peer
        thread.reserved_until = self.now + self.longest_silence()
        thread.promised[kind] = what

    def withdraw(self, node):
        """Whether there was a promise; whoever waits for its places may have them."""
        thread = self.threads[node.number]
        if thread.reserved_for is None:
            return False
        thread.reserved_for, thread.promised = None, {}
        self.wake(node)
        return True

    def wake(self, node):
        for port in node.ports:
            port.waiting.for_entry = port.ahead.for_entry = False

    def confirmed(self, node, packet):
        """The packet is in: a promise to it has been kept."""
        thread = self.threads[node.number]
        waits = self.stream(node, packet.by).waits == packet.number
        if thread.reserved_for == packet.by and waits:
            self.withdraw(node)

    def after_peers(self, node):
        thread = self.threads[node.number]
        if thread.reserved_for is not None and thread.reserved_until <= self.now:
            self.withdraw(node)
        super().after_peers(node)
