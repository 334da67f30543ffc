"""Translations that come and go: a cache on the NIC in place of VI-MSG's own two steps.

Each page is asked for; a miss is served and takes what the design's platform says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.translation.build import CODES
from nicscope.drivers.translation.cluster import counts_of, new_translations, space_numbering
from nicscope.drivers.translation.need import translation_bytes
from nicscope.drivers.via.translation import Looked, admit_pages, ask_page, serve_page
from nicscope.errors import SimulationError
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Return, VipError
from nicscope.kernel.entering import bound
from nicscope.nic.translate.codes import ADMITTED, MISS, REJECTED
from nicscope.nic.vimsg.layout import PAGE
from nicscope.room import check_room

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.config.design import Design

    Prices = Callable[[Mapping[str, int]], Mapping[str, int]]

# What the program's side does before it posts, and what a lookup takes; the rest is of a miss.
BY_LIBRARY = ("user_check", "user_pin", "user_unpin", "registration")
LOOKUP = ("ni_check", "further_ways", "ni_hit_send", "ni_hit_receive")


class Translation(NamedTuple):
    """A design with a translation cache, and what it costs: ps by step for counts of events."""

    design: Design
    prices: Prices


class Translator:
    """The caches of all nodes."""

    def __init__(self, translation: Translation, nodes: int, pages: int, longest: int) -> None:
        """``pages``: of a process; ``longest``: of a stretch.  Errors: ``SimulationError``."""
        design = translation.design.at_page_size(PAGE)
        if design.page_size != PAGE:
            raise SimulationError(
                f"design {design.name!r} cannot translate for VIA: it must look pages of {PAGE} "
                "bytes up"
            )
        line = design.line or 1
        pages = -(-pages // line) * line
        self._prices = translation.prices
        self.lookups = 0  # of pages, on all NICs
        self.misses = 0
        self.looked = [[0, 0] for _ in range(nodes)]  # lookups to send, to receive, by node
        self.missed = [[0, 0] for _ in range(nodes)]
        self._scheme = CODES[design.scheme]
        need = nodes * translation_bytes(design, 1, pages, longest)
        check_room(need, f"design {design.name!r} on {nodes:,} nodes", "give it fewer entries")
        numbering = space_numbering(design, 1, pages)
        self._state = new_translations(
            design, [numbering] * nodes, [1] * nodes, longest, pages_per_space=pages, kinds=False
        )

        self._bound: dict[tuple[Any, int], Callable[..., int]] = {}

    def _call(self, kernel: Any, frames: NDArray[np.int64], n: int, *numbers: int) -> int:
        """What ``kernel`` says of node ``n``, whose registrations ``frames`` are."""
        key = (kernel, n)
        if key not in self._bound:
            self._bound[key] = bound(kernel, Looked(self._state, frames))
        return int(self._bound[key](self._scheme, n, *(int(number) for number in numbers)))

    def admit(
        self, n: int, frames: NDArray[np.int64], first: int, pages: int, *, receive: bool
    ) -> list[tuple[Part, int]]:
        """What the program's side spends before it posts a stretch of ``pages`` pages, in ps."""
        before = self.counts(n)
        found = self._call(admit_pages, frames, n, first, pages, receive)
        if found != ADMITTED:
            raise VipError(
                Return.VIP_ERROR_RESOURCE, f"{pages} pages are more than may be pinned at a time"
            )
        spent = self._spent(n, before)
        return [(Part.PIN, ps) for step, ps in spent.items() if step in BY_LIBRARY]

    def ask(
        self, n: int, frames: NDArray[np.int64], page: int, *, receive: bool
    ) -> list[tuple[Part, int]]:
        """What the NIC spends to have the frame of ``page``: (part, ps) one after another."""
        before = self.counts(n)
        found = self._call(ask_page, frames, n, page, receive)
        if found == REJECTED:  # nobody has asked for it on the host's side yet
            self._call(admit_pages, frames, n, page, 1, receive)
            found = self._call(ask_page, frames, n, page, receive)
        self.lookups += 1
        self.looked[n][receive] += 1
        if found == MISS:
            self.misses += 1
            self.missed[n][receive] += 1
            served = self._call(serve_page, frames, n, page)
            if served < 0:
                raise SimulationError(
                    f"node {n}'s NIC has no room for another translation; "
                    "give the design more entries"
                )
        elif found < 0 or found != frames[page]:
            raise SimulationError(f"page {page} of node {n} is not where its translation says")
        lookups = {"lookups": 1, "lookups_send": int(not receive), "lookups_receive": int(receive)}
        spent = self._spent(n, before, lookups)
        return [
            (Part.TRANSLATION if step in LOOKUP else Part.MISS, ps)
            for step, ps in sorted(spent.items(), key=lambda one: one[0] not in LOOKUP)
            if step != "user_check"
        ]

    def counts(self, n: int) -> dict[str, int]:
        """Every count of node ``n``."""
        found = counts_of(self._state, n)
        return {name: count for name, count in found.items() if count is not None}

    def _spent(
        self, n: int, before: Mapping[str, int], more: Mapping[str, int] | None = None
    ) -> Mapping[str, int]:
        after = self.counts(n)
        delta = {name: after[name] - before[name] for name in after}
        return self._prices({**delta, **(more or {})})
