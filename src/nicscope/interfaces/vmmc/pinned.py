"""What the user library knows of its pinned pages, and whom it asks which of them to give up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.host.pages import is_away, swap_table
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.lookup import key_of
from nicscope.nic.translate.state import translation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.drivers.simulate.machine import Machine

FREE = 0
IDLE = 1  # pinned, and no transfer needs it
BUSY = 2  # pinned, and to stay so


@kernel
def _pin_state(machine: Any, n: int, space: int, page: int) -> Any:
    key = key_of(machine, n, space, page)
    _, host, _ = translation_of(machine.ports.translations, n)
    if key < 0 or host.pinning.state[key] & PINNED == 0:
        return FREE
    return IDLE if host.pinning.held[key] == 0 else BUSY


@kernel
def _is_table_away(machine: Any, n: int, space: int, number: int) -> Any:
    return is_away(machine, n, space, number * 1024)


class PinnedPage(NamedTuple):
    """A page that an application's own replacement policy may choose to unpin."""

    page: int  # its number in the process's address space
    uses: int  # transfers that used it since it was pinned
    last_use_us: float


class PinBook:
    """One process's pinned pages: their states, which the compiled library keeps, and their use."""

    def __init__(self, machine: Machine, node: int, space: int) -> None:
        self._state = bound(_pin_state, machine)
        self._swap = bound(swap_table, machine)
        self._away = bound(_is_table_away, machine)
        self._node = node
        self._space = space
        self._uses: dict[int, tuple[int, float]] = {}

    def state(self, page: int) -> int:
        """``FREE``, ``IDLE`` or ``BUSY``."""
        return int(self._state(self._node, self._space, page))

    def note_use(self, pages: range, now_us: float) -> None:
        """A transfer uses these pages."""
        for page in pages:
            self._uses[page] = self._uses.get(page, (0, 0.0))[0] + 1, now_us

    def forget(self, page: int) -> None:
        """The page is unpinned: what comes counts anew."""
        self._uses.pop(page, None)

    def described(self, pages: Sequence[int]) -> list[PinnedPage]:
        """The pages with their use so far."""
        return [PinnedPage(page, *self._uses.get(page, (0, 0.0))) for page in pages]

    def swap(self, number: int) -> bool:
        """Have the host write a second-level table to the disk; whether it did."""
        return bool(self._swap(self._node, self._space, number))

    def is_away(self, number: int) -> bool:
        """Whether that table is on the disk."""
        return bool(self._away(self._node, self._space, number))
