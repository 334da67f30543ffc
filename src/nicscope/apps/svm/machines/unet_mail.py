"""Mail by U-Net's Active Messages; a page goes from where it lies and is put to its own place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.apps.svm.machines.mail import CarryingError, Kind, Letter, Mail, Posted, frames
from nicscope.errors import SimulationError
from nicscope.interfaces.tasks import Gate
from nicscope.interfaces.unet.active_messages import FIRST_FREE, HEADER, PIECE, SLOT, ActiveMessages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.ports.memory import Buffer

LETTER, PAGE = FIRST_FREE, FIRST_FREE + 1  # handlers
SMALL = SLOT - HEADER.size
PAGES = 16  # that letters leave from, before all of them have to have arrived
BUFFERS = 56  # that messages fill; a queue has 64 places
ANSWERS = 1  # of the layer's own, which nobody asks for


class UNetMail(Mail):
    """A node's."""

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
        self._layer.on(PAGE, self._take_page)
        await self._layer.open()
        self._pages = self._layer.endpoint.allocate(PAGES * PIECE)

    def allocate(self, byte_count: int) -> Buffer:
        """Memory that messages can be sent from."""
        return self._layer.endpoint.allocate(byte_count)

    async def carry(self) -> None:
        """Send what is posted, and take what comes."""
        try:
            while True:
                self._bell = Gate()
                await self._deliver_here()
                if self._outbox:
                    await self._send(self._outbox.popleft())
                elif self._is_over and not self._here:
                    await self._layer.linger()
                    return
                elif not self._here:
                    await self._layer.take_until(self._bell)
        except SimulationError as error:
            raise CarryingError(str(error)) from error

    async def _send(self, posted: Posted) -> None:
        letter, node = posted.letter, posted.node
        if posted.region is not None:
            assert posted.page is not None
            page = posted.region.part(posted.page)
            await self._layer.store(node, PAGE, 0, page, letter.to << 32 | letter.number)
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
