"""Mail: letters from a node to others, whatever carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.apps.svm.machines.letters import Letter, unpacked
from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.apps.svm.machines.region import Region
    from nicscope.interfaces.ports.buffers import Buffer

LOCAL_US = 1.0  # assumed: a letter to a process of the same node, through its memory


class Posted(NamedTuple):
    """What is to go to a node."""

    node: int
    letter: Letter
    what: str  # it is about, said when it does not get through
    page: int | None = None  # whose bytes are the letter's body, from where they lie
    region: Region | None = None  # of that page


class Mail(ABC):
    """A node's: letters are posted at once, and carried by a task."""

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
        """Have others reached, and be reached; every node does it."""

    @abstractmethod
    async def carry(self) -> None:
        """Carry what is posted until all is over: a task."""

    def allocate(self, byte_count: int) -> Buffer:
        """Memory that others' NICs, or messages, can read and write."""
        buffer: Buffer = self.endpoint.allocate(byte_count)
        return buffer

    def tasks(self) -> list[Any]:
        """What runs beside ``carry``."""
        return []

    def post(
        self,
        letter: Letter,
        what: str,
        page: int | None = None,
        region: Region | None = None,
    ) -> None:
        """Have a letter go; one to a domain of this node by its memory."""
        node = self._node_of[letter.to]
        if node == self.node:
            self._here.append(letter)
        else:
            self._outbox.append(Posted(node, letter, what, page, region))
        self.ring()

    def ring(self) -> None:
        """Have ``carry`` look what there is to do."""
        self._bell.open()

    def end(self) -> None:
        """Nothing more will be posted: ``carry`` returns when all has gone."""
        self._is_over = True
        self.ring()

    async def _deliver_here(self) -> None:
        """Have letters to this node's own domains arrive."""
        while self._here:
            await self.endpoint.sleep(LOCAL_US)
            self.on_letter(self._here.popleft())

    def _take_frame(self, node: int, content: bytes, *, more: bool) -> None:
        """A piece of a letter of ``node`` has come; ``more``: another will."""
        parts = self._parts.setdefault(node, [])
        parts.append(content)
        if not more:
            self._parts[node] = []
            self.on_letter(unpacked(b"".join(parts)))


def frames(raw: bytes, most: int) -> Iterator[tuple[bytes, bool]]:
    """``raw`` in pieces of at most so many bytes, and whether more follow."""
    for at in range(0, len(raw), most):
        yield raw[at : at + most], at + most < len(raw)
