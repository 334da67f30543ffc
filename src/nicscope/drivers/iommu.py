"""Requests of a trace through the IOMMUs of their hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.replay import columns
from nicscope.host.iommu import COUNTS, NUMBERINGS, new_iommu, translate
from nicscope.memory.numbering import BLOCK, grown
from nicscope.memory_limit import check_memory

if TYPE_CHECKING:
    from collections.abc import Sequence


PIECE_BITS = 12  # of what one access of a device moves at most
BYTES_OF_A_PAGE = 8


class Translating(NamedTuple):
    """How an IOMMU is set up."""

    page: int  # bytes of a mapping's page: 4 KiB, 2 MiB or 1 GiB
    iotlb: int  # entries, a power of two
    walk_cache: int  # entries of each level, a power of two
    device: int = 0  # entries of the device's own cache, a power of two; 0: it has none


class IommuReplay:
    """Every node's IOMMU, under each of several set-ups."""

    def __init__(self, setups: Sequence[Translating]) -> None:
        self._setups = setups
        self._parter = columns.TracePartitioner()
        self._stream = columns.new_stream(columns.ROWS)
        self._nodes: list[list[_Host]] = []

    def feed(self, batch: columns.RequestColumns) -> None:
        """Translate what a batch of requests touches, in the order of issue."""
        for piece in columns.pieces(len(batch.node)):
            self._parter.owners(batch, piece)
            for share in self._parter.shares(PIECE_BITS, self._stream):
                if share.place == len(self._nodes):
                    self._nodes.append([_Host(setup) for setup in self._setups])
                for host in self._nodes[share.place]:
                    host.translate(self._stream, share.begin, share.end)

    def counts(self) -> list[dict[str, int]]:
        """Of each set-up, the sums of ``COUNTS`` over nodes."""
        return [
            {
                name: sum(int(hosts[place].state.counts[0][name]) for hosts in self._nodes)
                for name in COUNTS.names or ()
            }
            for place in range(len(self._setups))
        ]


class _Host:
    def __init__(self, setup: Translating) -> None:
        bits = setup.page.bit_length() - 1 - PIECE_BITS
        self.state = new_iommu(bits, setup.iotlb, setup.walk_cache, setup.device)

    def translate(self, stream: columns.Stream, begin: int, end: int) -> None:
        while (begin := int(translate(self.state, stream, begin, end))) < end:
            self._grow(int(stream.pages[begin]))

    def _grow(self, pages: int) -> None:
        """Grows each table of numbers that may lack room for one more request."""
        more: dict[str, Any] = {}
        for name in NUMBERINGS:
            numbering = getattr(self.state, name)
            blocks = len(numbering.owners)
            if int(numbering.used[0]) + pages // BLOCK + 2 > blocks:
                check_memory(
                    2 * blocks * BLOCK * BYTES_OF_A_PAGE,
                    f"keeping {2 * blocks * BLOCK:,} pages apart",
                    "take larger pages, or a trace that touches fewer",
                )
                more[name] = grown(numbering, 2 * blocks)
        self.state = self.state._replace(**more)
