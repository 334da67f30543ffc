"""How pages and diffs go between domains on simulated machines: by remote memory, or as letters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.svm.layout import WORD
from nicscope.apps.svm.machines.letters import PAGE, Kind, Letter, diff_bytes
from nicscope.apps.svm.machines.waits import CarryingError

if TYPE_CHECKING:
    from nicscope.apps.svm.diffs import Diff
    from nicscope.apps.svm.domain import Domain, Elsewhere
    from nicscope.apps.svm.machines.questions import Questions
    from nicscope.apps.svm.machines.region import Region
    from nicscope.apps.svm.machines.remote_memory import RemoteMemory
    from nicscope.apps.svm.machines.waits import Waits
    from nicscope.apps.svm.records import Records
    from nicscope.apps.svm.wire import Caller

AT_ONCE = 16  # stores of a diff that nobody has waited for yet
COPY_US = 12.0  # assumed, as the logical cost of a page that lies on the same node


class MachineWire(ABC):
    """Of one domain."""

    def __init__(
        self, questions: Questions, records: Records, waits: Waits, near: dict[int, Region]
    ) -> None:
        """``near``: the regions of this node's domains, by number."""
        self.questions = questions
        self.waits = waits
        self._records = records
        self._near = near

    async def open(self, caller: Caller) -> None:
        """Nothing is left to do: the node has opened what all its domains share."""
        assert caller.domain.number in self._near

    async def claim(self, caller: Caller, page: int) -> int:
        """Ask the page's manager, which is a domain by the page's number."""
        manager = page % self.questions.domains
        with self.waits.waiting(caller, f"the home of page {page}"):
            answer = await self.questions.ask(
                caller.endpoint, manager, Kind.CLAIM, PAGE.pack(page, False), f"page {page}"
            )
        home, _ = PAGE.unpack(answer)
        return int(home)

    def settle(self, caller: Caller, page: int) -> None:  # noqa: ARG002 - its domain's are these
        """Tell the manager, who has others wait till then."""
        manager = page % self.questions.domains
        self.questions.tell(manager, Kind.SETTLED, PAGE.pack(page, False), f"page {page}")

    async def fetch(
        self, caller: Caller, page: int, home: Domain | Elsewhere, *, is_initial: bool = False
    ) -> None:
        """Have the page in the caller's region, and its program's copy."""
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

    async def deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """Have the diff's words in the region of the page's home."""
        self._records.deposit(caller, diff, home)
        what = f"node {home.node} to have a diff of page {diff.page}"
        with self.waits.waiting(caller, what):
            if home.number in self._near:
                await caller.endpoint.sleep(COPY_US)
                self._near[home.number].put_words(diff.page, diff.words, diff.values)
            else:
                await self._deposit(caller, diff, home)

    @abstractmethod
    async def _fetch(self, caller: Caller, page: int, home: Domain | Elsewhere) -> None:
        """Have the page in the caller's region, from another node."""

    @abstractmethod
    async def _deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """Have the diff's words in the home's region, on another node."""

    def publish(self, caller: Caller, page: int) -> None:
        """What the program wrote is in the machine's memory from now on."""
        self._near[caller.domain.number].agree(page)

    def accept(self, caller: Caller, page: int) -> None:
        """What came there is the program's to read from now on."""
        self._near[caller.domain.number].agree(page)

    async def spend(self, caller: Caller, microseconds: float) -> None:
        """Let time pass."""
        await caller.endpoint.sleep(microseconds)


class RemoteWire(MachineWire):
    """By remote memory: the home's host has no part in it."""

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

    async def _fetch(self, caller: Caller, page: int, home: Domain | Elsewhere) -> None:
        """Read it from its home into its own place."""
        own = self._near[caller.domain.number]
        size = own.page_bytes
        number = await self._memory.read(self._far[home.number], own.buffer, page * size, size)
        await self._check(caller, number, f"page {page} from", home)

    async def _deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """Write each run of its words to where they belong."""
        own = self._near[caller.domain.number]
        first = diff.page * own.page_bytes
        # Not from the program's copy, which may be out of date by now and hold nothing.
        own.put_words(diff.page, diff.words, diff.values)
        what = f"a diff of page {diff.page} to"
        ends = np.flatnonzero(np.diff(diff.words) != 1)
        posted: deque[int] = deque()
        for run in np.split(diff.words, ends + 1):
            if len(posted) == AT_ONCE:
                await self._check(caller, posted.popleft(), what, home)
            at, length = first + int(run[0]) * WORD, len(run) * WORD
            to = self._far[home.number]
            posted.append(await self._memory.write(to, own.buffer, at, at, length))
        for number in posted:
            await self._check(caller, number, what, home)

    async def _check(
        self, caller: Caller, number: int, what: str, home: Domain | Elsewhere
    ) -> None:
        status = await self._memory.ended(number)
        if status != "done":
            raise CarryingError(
                f"node {caller.domain.node} does not get {what} node {home.node}: {status}"
            )


class LetterWire(MachineWire):
    """By letters, which the home's host answers and applies."""

    async def _fetch(self, caller: Caller, page: int, home: Domain | Elsewhere) -> None:
        """Ask for the page; its bytes are put to its own place as they come."""
        await self.questions.ask(
            caller.endpoint, home.number, Kind.FETCH, PAGE.pack(page, False), f"page {page}", page
        )

    async def _deposit(self, caller: Caller, diff: Diff, home: Domain | Elsewhere) -> None:
        """Send it whole, and hear that it has been applied."""
        what = f"a diff of page {diff.page}"
        await self.questions.ask(caller.endpoint, home.number, Kind.DIFF, diff_bytes(diff), what)


def home_answer(page_home: int) -> bytes:
    """What a page's manager answers."""
    return PAGE.pack(page_home, False)


def answer_to(letter: Letter, body: bytes = b"") -> Letter:
    """The answer to a question."""
    return Letter(Kind.ANSWER, letter.to, letter.sender, letter.number, body)
