"""What a program on shared memory works with: views of shared arrays, locks and barriers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.apps.svm.domain import READABLE, WRITABLE
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.apps.svm.coherence import Caller, Coherence, Costs
    from nicscope.apps.svm.domain import SharedArray
    from nicscope.apps.svm.records import ProgramRecord
    from nicscope.apps.svm.synchronization import Synchronization


class Process:
    """One of a program's processes.

    A view that it gets stands until it waits for anything: after that, what it reads or writes has
    to be asked for again, as another may have changed it.
    """

    def __init__(
        self,
        number: int,
        processes: int,
        caller: Caller,
        coherence: Coherence,
        costs: Costs,
        record: ProgramRecord,
        synchronization: Synchronization,
    ) -> None:
        self.number = number
        self.processes = processes
        self._caller = caller
        self._coherence = coherence
        self._costs = costs
        self._record = record
        self._synchronization = synchronization
        self._place = caller.domain.local[number]
        self._mapped = caller.domain.mapped[self._place]
        self._written = caller.domain.written
        self._accesses = 0  # that have taken no time yet

    async def read(self, array: SharedArray, begin: int = 0, end: int | None = None) -> Any:
        """Elements ``begin`` to ``end`` of an array, counted through all its axes, to read."""
        begin, end = self._range(array, begin, end)
        await self._touch(array.pages(begin, end), READABLE, end - begin)
        return self._elements(array, begin, end, writable=False)

    async def write(self, array: SharedArray, begin: int = 0, end: int | None = None) -> Any:
        """The same, to read and write.  Only what it changes is another's to see."""
        begin, end = self._range(array, begin, end)
        await self._touch(array.pages(begin, end), WRITABLE, end - begin)
        size = array.dtype.itemsize
        self._written.add_bytes(self._place, array.first + begin * size, array.first + end * size)
        return self._elements(array, begin, end, writable=True)

    async def read_block(self, array: SharedArray, rows: range, columns: range) -> Any:
        """A block of a matrix, to read; its pages are touched row by row."""
        return await self._block(array, rows, columns, READABLE)

    async def write_block(self, array: SharedArray, rows: range, columns: range) -> Any:
        """The same, to read and write."""
        return await self._block(array, rows, columns, WRITABLE)

    async def write_row(self, array: SharedArray, row: int) -> Any:
        """One of an array's rows, to read and write."""
        width = array.row_elements
        return await self.write(array, row * width, (row + 1) * width)

    async def gather_rows(self, array: SharedArray, rows: NDArray[np.int64]) -> Any:
        """Copies of some rows of an array, touched in that order."""
        width = array.row_elements
        await self._touch(array.pages_of_each_row(rows), READABLE, len(rows) * width)
        return self._caller.domain.array(array)[rows]

    async def write_rows(self, array: SharedArray, rows: NDArray[np.int64]) -> Any:
        """A whole array, of which ``rows`` may be read and written; touched in that order."""
        width = array.row_elements
        await self._touch(array.pages_of_each_row(rows), WRITABLE, len(rows) * width)
        self._wrote_items(array, rows, width)
        return self._caller.domain.array(array)

    async def read_elements(self, array: SharedArray, elements: NDArray[np.int64]) -> Any:
        """A whole array of one axis, of which ``elements`` may be read; touched in that order."""
        return await self._elements_of(array, elements, READABLE)

    async def write_elements(self, array: SharedArray, elements: NDArray[np.int64]) -> Any:
        """The same, to read and write."""
        return await self._elements_of(array, elements, WRITABLE)

    async def gather(self, array: SharedArray, elements: NDArray[np.int64]) -> Any:
        """Copies of some elements of an array of one axis, touched in that order."""
        await self._touch(array.pages_of_elements(elements), READABLE, len(elements))
        return self._caller.domain.array(array)[elements]

    async def scatter(
        self, array: SharedArray, elements: NDArray[np.int64], values: NDArray[Any]
    ) -> None:
        """Write ``values`` to some elements of an array of one axis, in that order."""
        await self._touch(array.pages_of_elements(elements), WRITABLE, len(elements))
        self._wrote_items(array, elements)
        self._caller.domain.array(array)[elements] = values

    def work(self, accesses: int) -> None:
        """So many further accesses to shared elements take their time before the next wait."""
        self._accesses += accesses

    async def compute(self, accesses: int = 0) -> None:
        """Have the time pass of what was computed since the last wait."""
        accesses += self._accesses
        self._accesses = 0
        if accesses:
            self._record.compute(self._caller, accesses * self._costs.access)
            await self._caller.endpoint.sleep(accesses * self._costs.access)

    async def acquire(self, name: object) -> None:
        """Hold a lock, which is made when it is first named; in the order of asking."""
        await self.compute()
        await self._synchronization.acquire(self._caller, self.number, name)

    async def release(self, name: object) -> None:
        """Let go of a lock: who has it next sees what was written till now."""
        await self.compute()
        await self._synchronization.release(self._caller, self.number, name)

    async def barrier(self) -> None:
        """Wait until every process has come here; then each sees what any has written."""
        await self.compute()
        await self._coherence.flush(self._caller, [self.number])
        await self._synchronization.meet(self._caller, self.number)

    async def _block(self, array: SharedArray, rows: range, columns: range, least: int) -> Any:
        pages = array.pages_of_rows(rows, columns)
        await self._touch(pages, least, len(rows) * len(columns))
        if least == WRITABLE:
            begins = np.arange(rows.start, rows.stop) * array.row_elements + columns.start
            self._wrote_items(array, begins, 1, len(columns))
        whole = self._caller.domain.array(array).view()
        view = whole[rows.start : rows.stop, columns.start : columns.stop]
        view.flags.writeable = least == WRITABLE
        return view

    async def _elements_of(
        self, array: SharedArray, elements: NDArray[np.int64], least: int
    ) -> Any:
        await self._touch(array.pages_of_elements(elements), least, len(elements))
        if least == WRITABLE:
            self._wrote_items(array, elements)
        whole = self._caller.domain.array(array).view()
        whole.flags.writeable = least == WRITABLE
        return whole

    def _wrote_items(
        self, array: SharedArray, items: NDArray[np.int64], width: int = 1, many: int = 1
    ) -> None:
        """Each of ``items``, numbers of ``width`` elements each, may change, and ``many`` of it."""
        size = array.dtype.itemsize
        begins = array.first + items * (width * size)
        self._written.add_items(self._place, begins, width * size * many)

    async def _touch(self, pages: NDArray[np.int64], least: int, accesses: int) -> None:
        """Have all of ``pages`` at once; one that is lost while others come is had again.

        One that is named more than once has its first place.
        """
        self._accesses += accesses
        while True:
            missing = pages[self._mapped[pages] < least]
            if not len(missing):
                return
            await self.compute()
            if least == WRITABLE:
                await self._coherence.have_at_home(self._caller, self.number, missing)
                missing = missing[self._mapped[missing] < least]
            for page in dict.fromkeys(missing.tolist()):
                await self._coherence.have(self._caller, self.number, page, least)

    def _range(self, array: SharedArray, begin: int, end: int | None) -> tuple[int, int]:
        many = math.prod(array.shape)
        end = many if end is None else end
        if not 0 <= begin < end <= many:
            raise SimulationError(
                f"elements {begin} to {end} of shared array {array.name!r}, which has {many}"
            )
        return begin, end

    def _elements(self, array: SharedArray, begin: int, end: int, *, writable: bool) -> Any:
        view = self._caller.domain.array(array).reshape(-1)[begin:end]
        view.flags.writeable = writable
        return view
