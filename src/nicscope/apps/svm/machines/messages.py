"""Letters between processes on simulated machines, and shared pages at their homes.

A letter has a wire, a process its seat; regions are read and written by remote memory operations
where the interface has them, else by messages.
"""

from __future__ import annotations

import contextlib
import enum
import struct
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.svm.coherence import Caller, Records, Wire
from nicscope.apps.svm.memory import POISON, WORD, Diff, Domain, RemoteDomain
from nicscope.errors import SimulationError
from nicscope.interfaces.active_messages import FIRST_FREE, HEADER, PIECE, SLOT, ActiveMessages
from nicscope.interfaces.programs import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces import mini, vmmc
    from nicscope.interfaces.ports.memory import Buffer

HEAD = struct.Struct("<BHHI")
PAGE = struct.Struct("<I?")


class Kind(enum.IntEnum):
    """The type of a protocol message."""

    ANSWER = 0  # to a question
    CLAIM = 1  # a question: who is the home of a page, and may I be it
    SETTLED = 2  # its home has a page by now
    FETCH = 3  # a question: a page as it is at its home
    DIFF = 4  # a question: have these words in a page
    LOCK = 5  # whoever has a lock shall pass it on to me; to its manager
    PASS = 6  # the same, from the manager to whoever asked before
    GRANT = 7  # a lock, and what who has it must know
    ARRIVE = 8  # at a barrier, with what I wrote
    LEAVE = 9  # it, with what others wrote


class Letter(NamedTuple):
    """A protocol message from one domain to another."""

    kind: Kind
    sender: int
    to: int
    number: int  # of the question that it is or answers; 0 of others
    body: bytes = b""

    def packed(self) -> bytes:
        """The message encoded."""
        return HEAD.pack(self.kind, self.sender, self.to, self.number) + self.body


def unpacked(raw: bytes) -> Letter:
    """Decode a message."""
    kind, sender, to, number = HEAD.unpack_from(raw)
    return Letter(Kind(kind), sender, to, number, raw[HEAD.size :])


def diff_bytes(diff: Diff) -> bytes:
    """Encode a diff: page, number of words, their indices, and their values."""
    words = diff.words.astype("<u4").tobytes()
    return struct.pack("<II", diff.page, len(diff.words)) + words + diff.values.tobytes()


def diff_of_bytes(raw: bytes) -> Diff:
    """Decode a diff."""
    page, many = struct.unpack_from("<II", raw)
    words = np.frombuffer(raw, "<u4", many, 8).astype(np.int64)
    return Diff(page, words, np.frombuffer(raw, np.uint32, many, 8 + 4 * many))


SHOWN = 3  # of those who wait


class UnreachableError(SimulationError):
    """Another node cannot be reached."""


class Wait(NamedTuple):
    """A process that waits, for what, and since when."""

    node: int
    process: int  # on its node
    what: str
    since_us: float


class Waits:
    """The processes of one run that wait."""

    def __init__(self) -> None:
        self._now: list[Wait] = []

    @contextlib.contextmanager
    def waiting(self, caller: Caller, what: str) -> Iterator[None]:
        """Register that the caller waits for ``what`` within the block; kept if the block fails."""
        wait = Wait(caller.domain.node, caller.pid, what, caller.endpoint.now_us)
        self._now.append(wait)
        yield
        self._now.remove(wait)  # by identity or value: equal ones are alike

    def text(self, dead: Collection[int] = ()) -> str:
        """The processes that wait and for what, except on nodes that are ``dead``."""
        alive = [wait for wait in self._now if wait.node not in dead]
        first = [
            f"process {wait.process} of node {wait.node} has waited for {wait.what} since "
            f"{wait.since_us:,.1f} us"
            for wait in sorted(alive, key=lambda wait: wait.since_us)[:SHOWN]
        ]
        more = len(alive) - len(first)
        return "; ".join([*first, *([f"{more} more wait"] if more else [])])


LOCAL_US = 1.0  # assumed: a letter to a process of the same node, through its memory


class Posted(NamedTuple):
    """An outgoing message to a node."""

    node: int
    letter: Letter
    what: str  # it is about, said when it does not get through
    page: int | None = None  # whose bytes are the letter's body, from where they lie
    region: Region | None = None  # of that page


class Mail(ABC):
    """A node's message queue: posting returns at once, and a task sends."""

    def __init__(self, node: int, node_of: Sequence[int]) -> None:
        """``node_of``: of each domain."""
        self.node = node
        self.nodes = max(node_of) + 1
        self.endpoint: Any = None
        self.on_letter: Callable[[Letter], None]
        self.on_page: Callable[[Letter], Buffer]  # where the page that it answers with goes
        self._node_of = node_of
        self._outbox: deque[Posted] = deque()
        self._here: deque[Letter] = deque()
        self._bell = Gate()
        self._is_over = False
        self._parts: dict[int, list[bytes]] = {}  # of letters that are not whole, by sender

    @abstractmethod
    async def open(self) -> None:
        """Connect with all other nodes; every node calls it."""

    @abstractmethod
    async def carry(self) -> None:
        """The task that sends posted messages until ``end``."""

    def allocate(self, byte_count: int) -> Buffer:
        """Allocate memory that others' NICs, or messages, can read and write."""
        buffer: Buffer = self.endpoint.allocate(byte_count)
        return buffer

    def tasks(self) -> list[Any]:
        """Further tasks beside ``carry``."""
        return []

    def post(
        self,
        letter: Letter,
        what: str,
        page: int | None = None,
        region: Region | None = None,
    ) -> None:
        """Queue a message; one to a domain of this node is delivered directly."""
        node = self._node_of[letter.to]
        if node == self.node:
            self._here.append(letter)
        else:
            self._outbox.append(Posted(node, letter, what, page, region))
        self.ring()

    def ring(self) -> None:
        """Wake ``carry``."""
        self._bell.open()

    def end(self) -> None:
        """Announce that nothing more is posted: ``carry`` returns when all is sent."""
        self._is_over = True
        self.ring()

    async def _deliver_here(self) -> None:
        """Deliver messages to this node's own domains."""
        while self._here:
            await self.endpoint.sleep(LOCAL_US)
            self.on_letter(self._here.popleft())

    def _take_frame(self, node: int, content: bytes, *, more: bool) -> None:
        """Receive a fragment of a message of ``node``; ``more``: another follows."""
        parts = self._parts.setdefault(node, [])
        parts.append(content)
        if not more:
            self._parts[node] = []
            self.on_letter(unpacked(b"".join(parts)))


class MessageMail(Mail, ABC):
    """A message queue over an interface of messages: the task that sends also receives."""

    async def carry(self) -> None:
        """Send posted messages, and receive others."""
        try:
            while True:
                self._bell = Gate()
                await self._deliver_here()
                if self._outbox:
                    await self._send(self._outbox.popleft())
                elif self._is_over and not self._here:
                    await self._close()
                    return
                elif not self._here:
                    await self._take_until(self._bell)
        except SimulationError as error:
            raise UnreachableError(str(error)) from error

    @abstractmethod
    async def _send(self, posted: Posted) -> None:
        """Send a message whole."""

    @abstractmethod
    async def _take_until(self, wakeup: Gate) -> None:
        """Receive messages until another task opens ``wakeup``."""

    @abstractmethod
    async def _close(self) -> None:
        """Stay for what peers may still send again."""


def frames(raw: bytes, most: int) -> Iterator[tuple[bytes, bool]]:
    """Split ``raw`` into fragments, each with whether more follow."""
    for at in range(0, len(raw), most):
        yield raw[at : at + most], at + most < len(raw)


class Question:
    """A request without a reply so far."""

    def __init__(self, page: int | None) -> None:
        self.page = page  # that was asked for, whose bytes go to its own place
        self.gate = Gate()
        self.answer = b""


class Questions:
    """One domain's outstanding requests."""

    def __init__(self, own: int, domains: int, mail: Mail) -> None:
        self.own = own
        self.domains = domains
        self._mail = mail
        self._open: dict[int, Question] = {}
        self._asked = 0

    async def ask(
        self,
        endpoint: Any,
        to: int,
        kind: Kind,
        body: bytes,
        what: str,
        page: int | None = None,
    ) -> bytes:
        """Ask domain ``to``; its reply.  ``page``: its bytes are the answer's body."""
        self._asked += 1
        number = self._asked
        question = self._open[number] = Question(page)
        self._mail.post(Letter(kind, self.own, to, number, body), what)
        await question.gate.wait(endpoint)
        return question.answer

    def tell(self, to: int, kind: Kind, body: bytes, what: str) -> None:
        """Send domain ``to`` a message that needs no reply."""
        self._mail.post(Letter(kind, self.own, to, 0, body), what)

    def page_asked(self, number: int) -> int:
        """The page that a request asks for."""
        page = self._open[number].page
        assert page is not None, "an answer with a page to a question for none"
        return page

    def answered(self, letter: Letter) -> None:
        """Handle a reply."""
        question = self._open.pop(letter.number)
        question.answer = letter.body
        question.gate.open()


AT_ONCE = 16  # stores of a diff that nobody has waited for yet
COPY_US = 12.0  # assumed, as the logical cost of a page that lies on the same node


class MachineWire(Wire, ABC):
    """The wire of one domain."""

    def __init__(
        self, questions: Questions, records: Records, waits: Waits, near: dict[int, Region]
    ) -> None:
        """``near``: the regions of this node's domains, by number."""
        self.questions = questions
        self.waits = waits
        self._records = records
        self._near = near

    async def claim(self, caller: Caller, page: int) -> int:
        """Ask the page's manager, the domain that the page's number selects."""
        manager = page % self.questions.domains
        with self.waits.waiting(caller, f"the home of page {page}"):
            answer = await self.questions.ask(
                caller.endpoint, manager, Kind.CLAIM, PAGE.pack(page, False), f"page {page}"
            )
        home, _ = PAGE.unpack(answer)
        return int(home)

    def settle(self, caller: Caller, page: int) -> None:  # noqa: ARG002 - its domain's are these
        """Tell the manager, which defers other domains' claims until then."""
        manager = page % self.questions.domains
        self.questions.tell(manager, Kind.SETTLED, PAGE.pack(page, False), f"page {page}")

    async def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool = False
    ) -> None:
        """Copy the page into the caller's region and its program's copy."""
        self._records.fetch(caller, page, home, is_initial=is_initial)
        own = self._near[caller.domain.number]
        own.spoil(page)
        with self.waits.waiting(caller, f"page {page} of node {home.node}"):
            if home.number in self._near:
                await caller.endpoint.sleep(COPY_US)
                own.copy_page(page, self._near[home.number])
            else:
                await self._fetch(caller, page, home)
        own.take(page)

    async def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Write the diff's words to the region of the page's home."""
        self._records.deposit(caller, diff, home)
        what = f"node {home.node} to have a diff of page {diff.page}"
        with self.waits.waiting(caller, what):
            if home.number in self._near:
                await caller.endpoint.sleep(COPY_US)
                self._near[home.number].put_words(diff.page, diff.words, diff.values)
            else:
                await self._deposit(caller, diff, home)

    @abstractmethod
    async def _fetch(self, caller: Caller, page: int, home: Domain | RemoteDomain) -> None:
        """Copy the page into the caller's region from another node."""

    @abstractmethod
    async def _deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Write the diff's words to the home's region on another node."""

    def agree(self, caller: Caller, page: int) -> None:
        """Copy the program's writes into the simulated memory, and what arrived there back."""
        self._near[caller.domain.number].agree(page)


class RemoteWire(MachineWire):
    """A wire over remote memory operations, without the home's host."""

    def __init__(
        self,
        questions: Questions,
        records: Records,
        waits: Waits,
        near: dict[int, Region],
        memory: RemoteMemory,
        far: dict[int, Any],
    ) -> None:
        """``far``: what ``memory`` calls the regions of other nodes' domains."""
        super().__init__(questions, records, waits, near)
        self._memory = memory
        self._far = far

    async def _fetch(self, caller: Caller, page: int, home: Domain | RemoteDomain) -> None:
        """Read the page remotely from its home."""
        own = self._near[caller.domain.number]
        size = own.page_bytes
        number = await self._memory.read(self._far[home.number], own.buffer, page * size, size)
        await self._check(caller, number, f"page {page} from", home)

    async def _deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Write each run of the diff's words remotely."""
        own = self._near[caller.domain.number]
        first = diff.page * own.page_bytes
        # Not from the program's copy, which may be out of date by now and hold nothing.
        own.put_words(diff.page, diff.words, diff.values)
        what = f"a diff of page {diff.page} to"
        posted: deque[int] = deque()
        for run in diff.runs:
            if len(posted) == AT_ONCE:
                await self._check(caller, posted.popleft(), what, home)
            at, length = first + int(run[0]) * WORD, len(run) * WORD
            to = self._far[home.number]
            posted.append(await self._memory.write(to, own.buffer, at, at, length))
        for number in posted:
            await self._check(caller, number, what, home)

    async def _check(
        self, caller: Caller, number: int, what: str, home: Domain | RemoteDomain
    ) -> None:
        status = await self._memory.ended(number)
        if status != "done":
            raise UnreachableError(
                f"node {caller.domain.node} does not get {what} node {home.node}: {status}"
            )


class MessageWire(MachineWire):
    """A wire over messages, which the home's host answers and applies."""

    async def _fetch(self, caller: Caller, page: int, home: Domain | RemoteDomain) -> None:
        """Request the page; its bytes are placed as they arrive."""
        await self.questions.ask(
            caller.endpoint, home.number, Kind.FETCH, PAGE.pack(page, False), f"page {page}", page
        )

    async def _deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Send the whole diff, and wait until it is applied."""
        what = f"a diff of page {diff.page}"
        await self.questions.ask(caller.endpoint, home.number, Kind.DIFF, diff_bytes(diff), what)


def answer_to(letter: Letter, body: bytes = b"") -> Letter:
    """The reply to a request."""
    return Letter(Kind.ANSWER, letter.to, letter.sender, letter.number, body)


LETTER, PAGE_BYTES = FIRST_FREE, FIRST_FREE + 1  # handlers
SMALL = SLOT - HEADER.size
PAGES = 16  # that letters leave from, before all of them have to have arrived
BUFFERS = 56  # that messages fill; a queue has 64 places
ANSWERS = 1  # of the layer's own, which nobody asks for


class UNetMail(MessageMail):
    """A node's message queue over Active Messages."""

    def __init__(self, node: int, node_of: Sequence[int]) -> None:
        super().__init__(node, node_of)
        self._layer: ActiveMessages
        self._pages: Buffer
        self._used = 0
        self._come: dict[tuple[int, int], int] = {}  # bytes of pages, by sender and question

    async def open(self) -> None:
        """Open the layer of Active Messages, as all nodes do."""
        self._layer = ActiveMessages(self.endpoint, self.nodes, BUFFERS, ANSWERS)
        self._layer.on(LETTER, self._take_letter)
        self._layer.on(PAGE_BYTES, self._take_page)
        await self._layer.open()
        self._pages = self._layer.endpoint.allocate(PAGES * PIECE)

    def allocate(self, byte_count: int) -> Buffer:
        """Memory that messages can be sent from."""
        return self._layer.endpoint.allocate(byte_count)

    async def _take_until(self, wakeup: Gate) -> None:
        await self._layer.take_until(wakeup)

    async def _close(self) -> None:
        await self._layer.linger()

    async def _send(self, posted: Posted) -> None:
        letter, node = posted.letter, posted.node
        if posted.region is not None:
            assert posted.page is not None
            page = posted.region.part(posted.page)
            await self._layer.store(node, PAGE_BYTES, 0, page, letter.to << 32 | letter.number)
            return
        for piece, more in frames(letter.packed(), PIECE):
            if len(piece) <= SMALL:
                await self._layer.request(node, LETTER, 0, int(more), piece)
                continue
            if self._used == PAGES:
                await self._layer.flush()
                self._used = 0
            room = self._pages.part(self._used * PIECE, len(piece))
            self._used += 1
            await room.write(piece)
            await self._layer.store(node, LETTER, 0, room, int(more))

    async def _take_letter(self, node: int, first: int, second: int, content: bytes) -> None:
        del first
        self._take_frame(node, content, more=bool(second))

    async def _take_page(self, node: int, first: int, second: int, content: bytes) -> None:
        letter = Letter(Kind.ANSWER, 0, second >> 32, second & 0xFFFFFFFF)
        part = self.on_page(letter)
        await part.part(first, len(content)).write(content)
        come = self._come[node, second] = self._come.get((node, second), 0) + len(content)
        if come == len(part):
            del self._come[node, second]
            self.on_letter(letter)


class Region:
    """The simulated memory of one domain's pages."""

    def __init__(self, domain: Domain, buffer: Buffer) -> None:
        self.buffer = buffer
        self.page_bytes = domain.memory.shape[1]
        self._domain = domain
        self._agreed = np.zeros_like(domain.memory)  # what both held when they last agreed
        for page in np.flatnonzero(domain.memory.any(axis=1)).tolist():
            self.give(page)

    def agree(self, page: int) -> None:
        """Synchronize ``page``: the program's writes and what arrived, both ways."""
        there = self._array(page)
        came, wrote = np.asarray(there).view(np.uint32), self._domain.memory[page].view(np.uint32)
        agreed = self._agreed[page].view(np.uint32)
        has_come = came != agreed
        wrote[has_come] = came[has_come]
        agreed[:] = wrote
        there[:] = self._domain.memory[page]

    def spoil(self, page: int) -> None:
        """Fill the page with a marker, so that missing deliveries show."""
        self._array(page)[:] = np.full(self.page_bytes, POISON, np.uint8)

    def take(self, page: int) -> None:
        """Copy the whole page from the machine to the program."""
        self._domain.memory[page] = np.asarray(self._array(page))
        self._agreed[page] = self._domain.memory[page]

    def give(self, page: int) -> None:
        """Copy the whole page from the program to the machine."""
        self._array(page)[:] = self._domain.memory[page]
        self._agreed[page] = self._domain.memory[page]

    def put_words(self, page: int, words: NDArray[np.int64], values: NDArray[np.uint32]) -> None:
        """Store ``values`` into words of a page, as a diff states."""
        whole = np.asarray(self._array(page)).view(np.uint32)
        whole[words] = values
        self._array(page)[:] = whole.view(np.uint8)

    def copy_page(self, page: int, source: Region) -> None:
        """Copy a page from another region of the same node's memory."""
        self._array(page)[:] = np.asarray(source._array(page))

    def part(self, page: int) -> Buffer:
        """The page's range of simulated memory."""
        return self.buffer.part(page * self.page_bytes, self.page_bytes)

    def _array(self, page: int) -> Any:
        return self.part(page).array()


class Heard(NamedTuple):
    """A remote write with notification, where the interface has no such record of its own."""

    node: int
    offset: int
    length: int


class RemoteMemory(ABC):
    """Remote memory operations of one process."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self._statuses: dict[int, str] = {}
        self._is_heard = False  # a task is told of the next end
        self._next_end = Gate()

    @abstractmethod
    async def export(self, buffer: Buffer, name: str) -> None:
        """Let others write and read ``buffer``."""

    @abstractmethod
    async def find(self, node: int, name: str) -> Any:
        """Import what ``node`` exports as ``name``, waiting for it."""

    @abstractmethod
    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Begin to write ``buffer[at:at + length]`` to ``offset`` there; the operation's number."""

    @abstractmethod
    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Begin to read what lies ``at`` there into the same place of ``buffer``; its number."""

    @abstractmethod
    async def heard(self) -> vmmc.Notification | mini.Stored | Heard:
        """Wait for the next remote write with notification."""

    async def open(self, nodes: int) -> None:
        """Connect with the others of ``nodes``, where the interface has connections."""
        del nodes

    async def ended(self, number: int) -> str:
        """Wait for an operation's end and return its status.  Tasks may wait for several at a time.

        One of them is told of the next end, whoever's it is, and has the others look.
        """
        while number not in self._statuses:
            await self.hear_next_end()
        return self._statuses.pop(number)

    async def hear_next_end(self) -> None:
        """Wait until one more operation, anyone's, has ended."""
        if self._is_heard:
            await self._next_end.wait(self.endpoint)
            return
        self._is_heard = True
        try:
            number, status = await self._end()
        finally:
            self._is_heard = False
        self._statuses[number] = status
        told, self._next_end = self._next_end, Gate()
        told.open()

    async def _end(self) -> tuple[int, str]:
        """Wait for the next operation that ends: its number and status."""
        done = await self.endpoint.done()
        return done.request, done.status


class VmmcMemory(RemoteMemory):
    """Remote memory by VMMC's export, import, remote store and remote fetch."""

    endpoint: vmmc.Endpoint

    async def export(self, buffer: Buffer, name: str) -> None:
        """Export it to all."""
        await self.endpoint.export(buffer, name)

    async def find(self, node: int, name: str) -> vmmc.Imported:
        """Import it."""
        return await self.endpoint.import_buffer(node, name)

    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post a remote store, with a notification if it is to be heard of."""
        transfer = await self.endpoint.store(to, buffer, offset, at=at, length=length, notify=heard)
        return transfer.number

    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Post a remote fetch."""
        return (await self.endpoint.fetch(of, buffer, at, at=at, length=length)).number

    async def heard(self) -> vmmc.Notification:
        """The next notification."""
        return await self.endpoint.notification("block")


class MiniMemory(RemoteMemory):
    """Remote memory by miNI's registered buffers, remote write and remote read."""

    endpoint: mini.Endpoint

    async def export(self, buffer: Buffer, name: str) -> None:
        """Register it under a name that says whose it is."""
        await self.endpoint.register(buffer, name=_of_node(self.endpoint.node, name))

    async def find(self, node: int, name: str) -> mini.Remote:
        """Find and open it."""
        return await self.endpoint.open(await self.endpoint.find(_of_node(node, name)))

    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post an RDMA write."""
        return await self.endpoint.write(to, buffer, length, offset=offset, at=at, notify=heard)

    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Post an RDMA read."""
        return await self.endpoint.read(of, buffer, length, offset=at, at=at)

    async def heard(self) -> mini.Stored:
        """The next write that has come to a buffer of this process."""
        return await self.endpoint.stored("block")


def _of_node(node: int, name: str) -> str:
    return f"{name} of node {node}"


class HomeDirectory:
    """Those whose number names this domain.  The first who asks for one is its home."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._homes: dict[int, int] = {}
        self._asking: dict[int, list[Letter]] = {}  # by page whose home does not have it yet

    def claim(self, letter: Letter, page: int) -> None:
        """Answer with the page's home: the claimant, if there is none."""
        if page not in self._homes:
            self._homes[page] = letter.sender
            self._asking[page] = []
            self._answer(letter, page)
        elif page in self._asking:
            self._asking[page].append(letter)
        else:
            self._answer(letter, page)

    def settled(self, page: int) -> None:
        """Note that the home has the page: others may fetch it."""
        for letter in self._asking.pop(page):
            self._answer(letter, page)

    def _answer(self, letter: Letter, page: int) -> None:
        home = PAGE.pack(self._homes[page], False)
        self._mail.post(answer_to(letter, home), f"page {page}")


MAIL_SLOT = 4096  # bytes
# Which piece of a sender's it is, and whether another is to follow.
PIECE_HEAD = struct.Struct("<I?xxx")
COUNT = struct.Struct("<Q")
MAILBOX = "mailbox"
MOST_SLOTS = 8
REPORTS = 48  # that all slots together may make at a time; a queue has 64 places
WRITES_AT_ONCE = 8  # writes that nobody has waited for yet


class RemoteMail(Mail):
    """A node's message queue over remote memory operations."""

    def __init__(self, node: int, node_of: Sequence[int]) -> None:
        super().__init__(node, node_of)
        self._slots = max(2, min(MOST_SLOTS, REPORTS // max(1, self.nodes - 1)))
        self._counts_at = self.nodes * self._slots * MAIL_SLOT
        self._sent = [0] * self.nodes  # pieces ever, to each node
        self._read_there = [0] * self.nodes  # of these, as far as is known
        self._read = [0] * self.nodes  # pieces ever, of each node
        self._said = [0] * self.nodes  # of these, to their sender
        self._posted: deque[tuple[int, int, str]] = deque()  # not waited for: number, node, what
        self._mailboxes: dict[int, Any] = {}
        self._box: Buffer
        self._leaving: Buffer  # what is written to others, as it lies in their mailboxes
        self.memory: RemoteMemory

    async def open(self) -> None:
        """Export a mailbox, and import all others."""
        size = self._counts_at + self.nodes * COUNT.size
        self._box = self.endpoint.allocate(size)
        self._leaving = self.endpoint.allocate(size)
        await self.memory.export(self._box, MAILBOX)
        for node in range(self.nodes):
            if node != self.node:
                self._mailboxes[node] = await self.memory.find(node, MAILBOX)

    def tasks(self) -> list[Any]:
        """The task that receives notifications."""
        return [self._serve()]

    async def carry(self) -> None:
        """Send posted messages, and return credits for messages read."""
        while True:
            self._bell = Gate()
            await self._deliver_here()
            await self._say_what_was_read()
            if self._outbox:
                posted = self._outbox.popleft()
                for piece, more in frames(posted.letter.packed(), MAIL_SLOT - PIECE_HEAD.size):
                    await self._send(posted.node, piece, posted.what, more=more)
            elif self._posted:
                await self._check_oldest()
            elif self._is_over and not self._here:
                return
            elif not self._here:
                await self._bell.wait(self.endpoint)

    async def _send(self, node: int, piece: bytes, what: str, *, more: bool) -> None:
        """Write a fragment to a free slot of ``node``'s mailbox."""
        while self._sent[node] - self._read_there[node] >= self._slots:
            self._bell = Gate()
            await self._say_what_was_read()
            if self._posted:
                await self._check_oldest()
            elif self._sent[node] - self._read_there[node] >= self._slots:
                await self._bell.wait(self.endpoint)
        number = self._sent[node]
        self._sent[node] += 1
        slot = node * self._slots + number % self._slots
        raw = PIECE_HEAD.pack(number & 0xFFFFFFFF, more) + piece
        await self._leaving.write(raw, slot * MAIL_SLOT)
        there = (self.node * self._slots + number % self._slots) * MAIL_SLOT
        await self._write(node, slot * MAIL_SLOT, there, len(raw), what)

    async def _say_what_was_read(self) -> None:
        for node, read in enumerate(self._read):
            if read - self._said[node] >= max(1, self._slots // 2) and not self._is_over:
                self._said[node] = read
                at = self._counts_at + node * COUNT.size
                await self._leaving.write(COUNT.pack(read), at)
                there = self._counts_at + self.node * COUNT.size
                await self._write(node, at, there, COUNT.size, "what was read")

    async def _write(self, node: int, at: int, there: int, length: int, what: str) -> None:
        to = self._mailboxes[node]
        number = await self.memory.write(to, self._leaving, at, there, length, heard=True)
        self._posted.append((number, node, what))
        if len(self._posted) > WRITES_AT_ONCE:
            await self._check_oldest()

    async def _check_oldest(self) -> None:
        number, node, what = self._posted.popleft()
        status = await self.memory.ended(number)
        if status != "done":
            raise UnreachableError(
                f"node {self.node} does not get {what} through to node {node}: {status}"
            )

    async def _serve(self) -> None:
        """Receive messages."""
        while True:
            came = await self.memory.heard()
            if came.offset >= self._counts_at:
                raw = await self._box.read(COUNT.size, came.offset)
                [count] = COUNT.unpack(raw)
                self._read_there[came.node] = max(self._read_there[came.node], count)
                self.ring()
                continue
            raw = await self._box.read(came.length, came.offset)
            number, more = PIECE_HEAD.unpack_from(raw)
            if number != self._read[came.node] & 0xFFFFFFFF:
                raise UnreachableError(
                    f"node {self.node} got piece {number} of node {came.node}'s letters for piece "
                    f"{self._read[came.node]}"
                )
            self._read[came.node] += 1
            if self._read[came.node] - self._said[came.node] >= max(1, self._slots // 2):
                self.ring()
            self._take_frame(came.node, raw[PIECE_HEAD.size :], more=more)
