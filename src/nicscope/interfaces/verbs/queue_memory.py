"""Where queues lie: a program may allocate those of what it makes on a parent domain."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.base import refusal
from nicscope.interfaces.verbs.pd import ParentDomain
from nicscope.interfaces.verbs.pyverbs_error import PyverbsRDMAError

if TYPE_CHECKING:
    from collections.abc import Iterator

QP, CQ, SRQ = 0, 1, 2  # kinds of resources, as the callbacks get them
ENTRY = 64  # bytes of a request or a completion in a queue


class QueueMemory:
    """The memory of one object's queues; of an ordinary domain it is nobody's business."""

    def __init__(self, pd: Any, entries: int, kind: int) -> None:
        self._pd = pd if isinstance(pd, ParentDomain) else None
        self._kind = kind
        size = max(entries, 1) * ENTRY
        self._address = None if self._pd is None else self._pd.allocate_queue(size, kind)

    @contextlib.contextmanager
    def made_with(self, failed: str) -> Iterator[None]:
        """Within the block the object is made; what is refused has no queues either."""
        try:
            with refusal(failed):
                yield
        except PyverbsRDMAError:
            self.free()
            raise

    def free(self) -> None:
        """The queues are no longer."""
        if self._pd is not None:
            self._pd.free_queue(self._address, self._kind)
            self._address = None
