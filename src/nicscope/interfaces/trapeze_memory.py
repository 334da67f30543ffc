"""Trapeze: hosts' memories, messages, shared frames, and what a NIC knows of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.design import CONTROL_BYTES, PAYLOAD_ALIGNMENT
from nicscope.drivers.simulate.store import UNMAPPED, Store
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, whole
from nicscope.interfaces.ownership import Owned, Owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Ended
    from nicscope.interfaces.trapeze_endpoint import Endpoint, HostBuffer, Payloads


_MOST_ALIGNED = 1 << 30


class HostMemories:
    """What of each host's memory is taken, and whose the entries of its payload table are."""

    def __init__(self, nodes: int, host_bytes: int, tags: int, max_payload: int) -> None:
        self._host_bytes = host_bytes
        self._tags = tags
        self._max_payload = max_payload
        self._used = [0] * nodes
        self._free: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]  # given back, rising
        self.mapped: dict[tuple[int, int], Owner] = {}  # by node and tag
        self.store: Store | None = None  # of the run that goes on

    def allocate(
        self, node: int, byte_count: int, align: int = PAYLOAD_ALIGNMENT
    ) -> tuple[int, int]:
        """Address and length of fresh memory of ``node``, from a multiple of ``align`` on."""
        step = whole(align, "an alignment", 1, _MOST_ALIGNED)
        if step & (step - 1):
            raise SimulationError(f"an alignment must be a power of two, got {step}")
        begin = -(-self._used[node] // step) * step
        left = max(0, self._host_bytes - begin)
        count = whole(byte_count, "a number of bytes", LEAST)
        again = self._again(node, count, step) if count > 0 else None
        if again is not None:
            return again, count
        if not 1 <= count <= left:
            raise SimulationError(
                f"node {node} has {left} bytes of memory left, {count} were asked for; give the "
                "cluster more host_bytes"
            )
        self._used[node] = begin + count
        return begin, count

    def _again(self, node: int, count: int, step: int) -> int | None:
        """Where ``count`` bytes of what was given back begin, if so many are."""
        free = self._free[node]
        for place, (begin, end) in enumerate(free):
            first = -(-begin // step) * step
            if first + count <= end:
                free[place : place + 1] = [
                    each for each in ((begin, first), (first + count, end)) if each[0] < each[1]
                ]
                return first
        return None

    def give_back(self, node: int, address: int, count: int) -> None:
        """Frees that memory.  Errors: if a tag leads there."""
        assert self.store is not None
        for tag, begin in enumerate(self.store.payload_table[node].tolist()):
            if (
                begin != UNMAPPED
                and begin < address + count
                and address < begin + self._max_payload
            ):
                raise SimulationError(
                    f"a buffer is not freed while tag {tag} leads there; unmap_payload gives "
                    "it back"
                )
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([*self._free[node], (address, address + count)]):
            if merged and merged[-1][1] == begin:
                begin = merged.pop()[0]
            merged.append((begin, end))
        self._free[node] = merged

    def map_payload(self, owner: Owner, node: int, tag: object, address: int, count: int) -> None:
        """Enter ``owner``'s buffer under ``tag`` in the incoming payload table of ``node``."""
        entry = self._entry(owner, node, tag)
        if count < self._max_payload:
            raise SimulationError(
                f"a mapped buffer must hold the largest payload, {self._max_payload} bytes, "
                f"got {count}"
            )
        check_aligned(address, "a mapped buffer")
        assert self.store is not None
        self.mapped[node, entry] = owner
        self.store.payload_table[node, entry] = address

    def unmap_payload(self, owner: Owner, node: int, tag: object) -> None:
        """Frees the table entry of ``tag``."""
        entry = self._entry(owner, node, tag)
        if (node, entry) not in self.mapped:
            raise SimulationError(f"tag {entry} of node {node} is not mapped; map_payload maps it")
        assert self.store is not None
        del self.mapped[node, entry]
        self.store.payload_table[node, entry] = UNMAPPED

    def check_free(self, node: int, address: int, count: int) -> None:
        """Refuse, for the receive ring, what is too small or where a tag sends payloads."""
        if count < self._max_payload:
            raise SimulationError(
                f"a buffer for the ring must hold the largest payload, {self._max_payload} bytes, "
                f"got {count}"
            )
        check_aligned(address, "a buffer for the ring")
        assert self.store is not None
        for tag, begin in enumerate(self.store.payload_table[node].tolist()):
            if begin != UNMAPPED and begin < address + count and address < begin + count:
                raise SimulationError(
                    f"a buffer for the ring must not be mapped, and tag {tag} leads there; "
                    "unmap_payload gives it back"
                )

    def _entry(self, owner: Owner, node: int, tag: object) -> int:
        number = whole(tag, "a tag", LEAST)
        if not 0 <= number < self._tags:
            raise SimulationError(f"tag must be from 0 to {self._tags - 1}, got {number}")
        holder = self.mapped.get((node, number), owner)
        if holder is not owner:
            raise SimulationError(
                f"tag {number} of node {node} is {holder.name}'s, not {owner.name}'s; take another"
            )
        return number


def check_aligned(address: int, what: str) -> None:
    """Refuse a buffer that DMA cannot begin at: ``SimulationError``."""
    past = address % PAYLOAD_ALIGNMENT
    if past:
        raise SimulationError(
            f"{what} must begin at a multiple of {PAYLOAD_ALIGNMENT} bytes, where DMA can; this "
            f"one begins {past} past one: allocate() gives aligned memory, so take a part of it "
            "at another offset, or write() what is to be sent into one"
        )


class Message(Owned):
    """What ``receive`` gives."""

    what = "a message"
    origin = "receive()"

    def __init__(self, ended: Ended, control: bytes, payloads: Payloads) -> None:
        self.sender = ended.peer
        self.number = ended.packet  # counts from 0 per sender
        self.tag = ended.tag
        self.control = control
        self.address = ended.address  # of the payload in the host's memory
        self.byte_count = ended.payload
        self.own = bool(ended.own)  # whether that is a buffer off the receive ring
        self.scanned = 0  # bytes of the control message that ``scan`` has given
        self._payloads = payloads

    def __repr__(self) -> str:
        tag = "" if self.tag < 0 else f", tag {self.tag}"
        return f"<Message {self.number} from node {self.sender}{tag}, {self.byte_count} bytes>"

    @property
    def payload(self) -> NDArray[Any]:
        """uint8, a view of the host's memory, to be read; of no length without a payload.

        Errors: ``SimulationError`` once it is released, or another has overwritten it under its
        tag: what is there now is not this message's.
        """
        if self._gone and self.byte_count:
            raise SimulationError(
                f"the payload of a message that is {self._gone} already: its buffer may hold "
                "another's by now; read it before release(), or copy it"
            )
        if not self.own and self.byte_count:
            self._payloads.check_not_overwritten(self)
        return self._payloads.view(self.address, self.byte_count)

    def scan(self, byte_count: int) -> bytes:
        """The next ``byte_count`` bytes of the control message (``tpz_scan``)."""
        begin, end = self.scanned, self.scanned + whole(byte_count, "a number of bytes")
        if end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are scanned, "
                f"{byte_count} more are not there"
            )
        self.scanned = end
        return self.control[begin:end]


class PagePool:
    """A host's free page frames, each of which holds the largest payload."""

    def __init__(self, endpoint: Endpoint, frames: int, page_bytes: int) -> None:
        """Allocate ``frames`` of ``page_bytes``, a power of two, at multiples of it."""
        count = whole(frames, "a number of frames", 1)
        self.page_bytes = page_bytes
        self.endpoint = endpoint
        self._free = [endpoint.allocate(page_bytes, align=page_bytes) for _ in range(count)]

    def __len__(self) -> int:
        """Frames that are free."""
        return len(self._free)

    def take(self) -> HostBuffer:
        """A free frame.  Errors: ``SimulationError`` when there is none."""
        if not self._free:
            raise SimulationError("the page pool has no free frame; give one back, or make more")
        return self._free.pop()

    def give_back(self, frame: HostBuffer) -> None:
        """``frame`` is free again."""
        if len(frame) != self.page_bytes or any(frame is each for each in self._free):
            raise SimulationError("what is given back is a whole frame, and not free already")
        self._free.append(frame)

    def keep(self, message: Message) -> HostBuffer:
        """The frame in which the payload lies; a free one takes its place in the receive ring."""
        instead = self.take()
        try:
            return self.endpoint.keep(message, instead)
        except SimulationError:
            self._free.append(instead)
            raise


class PageMap:
    """A process's buffer of whole pages, into which what has come is mapped or copied.

    Mapping takes no time of its own: the paper prints none.
    """

    def __init__(self, pool: PagePool, pages: int) -> None:
        self._pool = pool
        self._frames = [pool.take() for _ in range(whole(pages, "a number of pages", 1))]
        self.mapped = 0  # payloads
        self.copied = 0

    def content(self) -> bytes:
        """What the process reads, page after page."""
        return b"".join(frame.bytes.tobytes() for frame in self._frames)

    def close(self) -> None:
        """Give all frames to the pool: there are no pages any more."""
        while self._frames:
            self._pool.give_back(self._frames.pop())

    async def put(self, message: Message, offset: int) -> bool:
        """Have the payload at byte ``offset``; whether it could be mapped.

        It can if it is a whole page and goes to a whole page: the frame in which it lies takes the
        place of the one that was there, which goes to the pool.  Else the CPU copies it, and its
        frame goes back to the ring.  Errors: what is not within the pages.
        """
        page_bytes = self._pool.page_bytes
        count, begin = message.byte_count, whole(offset, "an offset")
        if begin + count > page_bytes * len(self._frames):
            raise SimulationError(
                f"bytes {begin} to {begin + count} are not in {len(self._frames)} pages of "
                f"{page_bytes}"
            )
        if message.own and count == page_bytes and begin % page_bytes == 0:
            page = begin // page_bytes
            before, self._frames[page] = self._frames[page], self._pool.keep(message)
            self._pool.give_back(before)
            self.mapped += 1
            return True
        await self._copy(message, begin)
        self.copied += 1
        return False

    async def _copy(self, message: Message, begin: int) -> None:
        content = message.payload.tobytes()
        if content:
            await self._pool.endpoint.copy(len(content))
        page_bytes = self._pool.page_bytes
        done = 0
        while done < len(content):
            page, at = divmod(begin + done, page_bytes)
            count = min(len(content) - done, page_bytes - at)
            await self._frames[page].write(content[done : done + count], at)
            done += count
        self._pool.endpoint.release(message)


def unclaimed_messages(machine: Machine, running: Callable[[int], bool]) -> list[str]:
    """Messages that have come to nodes on which no program goes on, which is what ``running`` says.

    Each line says of how many, and why nobody receives them.
    """
    said = []
    for node, endpoint in enumerate(machine.endpoints):
        record = machine.nodes[node]
        has_any = int(record["last_process"]) > int(record["first_process"])
        # A host without programs empties its ring all the same.
        unread = int(endpoint["shown"]) - (int(endpoint["read"]) if has_any else 0)
        if unread and not running(node):
            why = "its program has ended" if has_any else "no program runs there"
            messages = "1 message was" if unread == 1 else f"{unread:,} messages were"
            said.append(f"node {node}: {messages} not received: {why}")
    return said


def describe_rings(machine: Machine, node: int) -> list[str]:
    """Of the rings of ``node``, and of packets that its network gave up."""
    endpoint, record = machine.endpoints[node], machine.nodes[node]
    said = []
    if endpoint["attached"] == 0:
        said.append(
            "its receive ring has no buffer left: release() or keep() what was received gives it "
            "some"
        )
    if int(endpoint["written"]) - int(endpoint["finished"]) == int(endpoint["send_ring"]):
        said.append("its send ring is full")
    unsent = int(endpoint["written"]) - int(endpoint["sent"])
    if unsent:
        said.append(
            f"{unsent:,} of its messages {'has' if unsent == 1 else 'have'} not left: their "
            "receivers take no more"
        )
    if number := int(record["aborted"]):
        was = "message was" if number == 1 else "messages were"
        said.append(f"{number:,} {was} taken off the network by its watchdog")
    return said
