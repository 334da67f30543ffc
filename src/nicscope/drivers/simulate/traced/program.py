"""The rows of a program trace as the driver takes them, checked for what its machine can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.simulate.traced.state import (
    COMPUTE_ROW,
    DEPOSIT_ROW,
    FETCH_ROW,
    RECEIVE_ROW,
    SEND_ROW,
)
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROW_NAMES = ("COMPUTE", "FETCH", "DEPOSIT", "SEND", "RECEIVE", "LOCK", "UNLOCK", "BARRIER")
MOST_ADDRESS = 1 << 61  # beyond it lie the pages that the timing itself uses


class WaitedFor(NamedTuple):
    """Which rows of its process each row waits for: ``places[first[row] : first[row + 1]]``."""

    first: NDArray[np.int64]
    places: NDArray[np.uint32]


class OthersWaitedFor(NamedTuple):
    """Which rows of other processes each row waits for: ``rows[first[row] : first[row + 1]]``.

    All are counted through all processes.
    """

    first: NDArray[np.int64]
    rows: NDArray[np.int64]


class Program(NamedTuple):
    """Columns through all processes; those of process p are rows ``first[p]`` to ``first[p + 1]``.

    ``docs/program-traces.md`` says what each means.
    """

    nodes: NDArray[np.int64]  # the node of each process, rising from 0 without a gap
    first: NDArray[np.int64]  # one more than there are processes
    operation: NDArray[np.uint8]  # as ``ROW_NAMES`` has them
    peer: NDArray[np.int32]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]
    name: NDArray[np.int64]
    duration_ns: NDArray[np.uint64]
    after: WaitedFor | None  # that have to have ended; None: each row waits for the one before
    after_start: WaitedFor | None  # that have to have begun; None: there are none
    after_others: OthersWaitedFor | None = None  # other processes' that have to have ended
    after_start_others: OthersWaitedFor | None = None  # and begun

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self.nodes)

    @property
    def node_count(self) -> int:
        """How many there are."""
        return int(self.nodes[-1]) + 1

    @property
    def owners(self) -> NDArray[np.int64]:
        """The process of each row."""
        return np.repeat(np.arange(self.processes), np.diff(self.first))

    def waited_for(self, row: int) -> tuple[list[int], list[int]]:
        """The rows, counted through all processes, after whose ends and beginnings ``row`` is."""
        first = int(self.first[self.owner(row)])
        ends = [row - 1] if self.after is None and row > first else []
        begins: list[int] = []
        for found, own, others in (
            (ends, self.after, self.after_others),
            (begins, self.after_start, self.after_start_others),
        ):
            if own is not None:
                places = own.places[own.first[row] : own.first[row + 1]]
                found += [first + place for place in places.tolist()]
            if others is not None:
                found += others.rows[others.first[row] : others.first[row + 1]].tolist()
        return ends, begins

    def owner(self, row: int) -> int:
        """The process of a row, counted through all processes."""
        return int(np.searchsorted(self.first, row, "right")) - 1

    @property
    def compute_ps(self) -> int:
        """What all COMPUTE rows take together: one processor's time for the whole program."""
        return int(self.duration_ns[self.operation == COMPUTE_ROW].sum()) * 1000

    def name_row(self, row: int) -> str:
        """What a person calls a row, counted through all processes."""
        process = self.owner(row)
        place = row - int(self.first[process])
        return f"process {process}, row {place} ({self.describe(row)})"

    def describe(self, row: int) -> str:
        """What a row asks for."""
        operation, name, peer = int(self.operation[row]), int(self.name[row]), int(self.peer[row])
        word = ROW_NAMES[operation]
        if operation in (FETCH_ROW, DEPOSIT_ROW):
            return f"{word} of {int(self.length[row])} bytes, node {peer}"
        if operation == SEND_ROW:
            return f"{word} of tag {name} to process {peer}"
        if operation == RECEIVE_ROW:
            who = "any process" if peer < 0 else f"process {peer}"
            return f"{word} of tag {name} from {who}"
        return word if operation == COMPUTE_ROW else f"{word} {name}"


def check_fits_machine(program: Program) -> None:
    """Return if the machine can do what every row asks.

    Errors: ``SimulationError`` naming the first row that asks for what there is not.
    """
    remote = np.isin(program.operation, (FETCH_ROW, DEPOSIT_ROW))
    own = remote & (program.peer == program.nodes[program.owners])
    if own.any():
        row = int(np.argmax(own))
        raise SimulationError(
            f"{program.name_row(row)}: that is its own node, to which no link leads; a process "
            "reads and writes its own node's memory in COMPUTE"
        )
    moves = remote | np.isin(program.operation, (SEND_ROW, RECEIVE_ROW))
    far = moves & (program.address >= np.uint64(MOST_ADDRESS))
    if far.any():
        row = int(np.argmax(far))
        raise SimulationError(
            f"{program.name_row(row)}: address {int(program.address[row]):#x} is not below 2^61; "
            "move the program's memory there"
        )
