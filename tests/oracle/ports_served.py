"""What the kernel thread has done about a page, and how whoever missed it hears of that."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.ports_records import DONE, NO_ENTRY, NO_RIGHTS, NO_ROOM, Ready, Waiting
from oracle.ports_thread import Threads


class Served(Threads):
    """Pages are served by a thread, which may have read them from the disk."""

    def translate(self, node, space, page, path, half, then, repeated=False):
        """What the thread has found not to be there is not asked for again."""
        if half is not None and repeated:
            stream = self.stream(node, half.message.by)
            hopeless = stream.hopeless == half.message.number
            if self.is_at_hand(node, space, page, path):
                stream.hopeless = None
            elif hopeless or self.is_access_denied(node, space, page):
                self.counts[node.number]["repeated"] += 1
                stream.hopeless = None
                then(NO_ROOM if hopeless else NO_RIGHTS, None)
                return
        super().translate(node, space, page, path, half, then, repeated)

    def is_at_hand(self, node, space, page, path):
        return self.is_there(node, space, page) and self.is_fit(node, space, page, path)

    def is_access_denied(self, node, space, page):
        """Whether the thread has found that there is no such page."""
        return False

    def serve_event(self, node, event):
        if event.port is None:
            self.yield_reservation(node, event.peer)
        else:
            self.thread_is_done_for(event)
        if event.what[0] != "page":
            self.serve_handle(node, event)
            return
        _, space, page = event.what
        status = NO_RIGHTS
        if self.place_of(node, space, page, event.path) is not None:
            status = self.bring_page(node, event, space, page)
        if event.port is None:
            self.tell_packet(node, event, status, space, page)
        elif not event.port.open:
            return  # its requests have ended, and it is let go when all else of it has
        elif event.ahead:
            self.tell_buffer(node, event.port, status, space, page)
        else:
            self.tell_port(node, event.port, status, space, page)

    def thread_is_done_for(self, event):
        event.port.waiting.for_thread = False

    def serve_handle(self, node, event):
        """The record of a buffer or of a process is on the NIC from now on."""
        raise NotImplementedError

    def bring_page(self, node, event, space, page):
        """Have the page pinned and on the NIC, or say why not."""
        raise NotImplementedError

    def tell_packet(self, node, event, status, space, page):
        stream = self.stream(node, event.peer)
        others = self.threads[node.number].reserved_for is not None
        if status == DONE:
            self.promise_page(node, event.peer, space, page)
        elif status == NO_ROOM or (
            status == NO_ENTRY and not others and not self.may_come_again(stream, event)
        ):
            stream.hopeless = event.number

    def promise_page(self, node, peer, space, page):
        """What was brought for a packet stays, where a rule says so."""

    def tell_buffer(self, node, port, status, space, page):
        if status == DONE:
            port.ready.append(Ready(port.free.popleft(), space))
            self.hold_buffer(node, port.ready[-1], page)
        elif status == NO_ENTRY:
            port.ahead.for_entry = not self.withdraw(node)
        elif self.has_place(port):
            self.give_back(node, port, port.free.popleft(), status)
        else:
            port.ahead.for_reader = True

    def tell_port(self, node, port, status, space, page):
        """The descriptor finds what was brought, or asks again when a promise is out of its way."""
        descriptor = port.current
        if status == DONE:
            self.counts[node.number]["repeated"] += 1
            port.waiting = Waiting()
            descriptor.page, descriptor.source = page, space
            self.hold_for(node, descriptor, space, page)
        elif status != NO_ENTRY:
            self.give_up_request(port, status)
        elif not self.make_way(node, space, page) and (
            port.waiting.until is None or not self.withdraw(node)
        ):
            self.await_entry(port)

    def make_way(self, node, space, page):
        """Whether something that is not used has been in the way of the page."""
        return False
