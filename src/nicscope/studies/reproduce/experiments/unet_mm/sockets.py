"""Sockets over four ways of posting pages (U-Net/MM, Figure 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.config.design import load_design
from nicscope.drivers.replay import replay
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.verdict import Item, Outcome


PATHS = ("send", "receive")


class MissesInFour(msgspec.Struct, frozen=True):
    """What a workload's lookups found in a table of so many entries."""

    workload: str
    entries: int
    counts: dict[str, int]  # sums over nodes
    pages: int  # that messages used, on the node that used most

    def misses(self, path: str, compulsory: bool) -> int:
        """One of the four ways to miss."""
        first = self.counts[f"ni_misses_{path}_compulsory"]
        return first if compulsory else self.counts[f"ni_misses_{path}"] - first

    def percent(self, path: str, compulsory: bool) -> float:
        """The same in percent of all lookups."""
        return 100 * self.misses(path, compulsory) / self.counts["lookups"]

    @property
    def noncompulsory(self) -> tuple[int, ...]:
        """Misses that are not compulsory, when sending and when receiving."""
        return tuple(self.misses(path, compulsory=False) for path in PATHS)

    def in_four(self) -> str:
        """One line: misses in percent of lookups, not compulsory and compulsory, on each path."""
        parts = []
        for path in PATHS:
            others, first = (self.percent(path, compulsory) for compulsory in (False, True))
            parts.append(f"{path} {others:.2f}+{first:.2f}")
        return f"{self.workload} (entries={self.entries}, pages={self.pages}) {', '.join(parts)} %"


TRACE = "sockets_interactive"
USERS_NODE = 0  # the other one has their servers
LARGE, SMALL, VICTIMS = 1024, 256, 16
AT_ONCE = (16, 8, 4, 2, 1)  # users, besides all of them


def users() -> Requests:
    """What the programs in use asked of their network, in the order in which they did."""
    every = open_trace(bundled_traces()[TRACE]).read()
    return _chosen(every, np.flatnonzero(every.node == USERS_NODE))


def moved(requests: Requests, at_once: int) -> Requests:
    """The same programs in use by ``at_once`` people at a time.

    The next come when the last of those before them has left; each does what was recorded of them,
    at the same pace.
    """
    times = requests.time_ns.copy()
    begin = 0
    pids = np.unique(requests.pid)
    for first in range(0, pids.size, at_once):
        end = begin
        for pid in pids[first : first + at_once]:
            mine = requests.pid == pid
            times[mine] += begin - times[mine].min()
            end = max(end, int(times[mine].max()) + 1)
        begin = end
    return _chosen(requests._replace(time_ns=times), np.argsort(times, kind="stable"))


def _chosen(requests: Requests, rows: NDArray[np.intp]) -> Requests:
    return Requests._make(column[rows] for column in requests)


def measure(requests: Requests, sizes: Sequence[int]) -> list[MissesInFour]:
    """What U-Net/MM's table makes of ``requests``, for each of ``sizes`` in entries."""
    design = load_design("unet-mm-pca200")
    designs = [
        msgspec.structs.replace(design, entries=size, victim_entries=VICTIMS) for size in sizes
    ]
    found = []
    for size, result in zip(sizes, replay([requests], designs, kinds=False), strict=True):
        counts = {name: count or 0 for name, count in result.total.items()}
        pages = counts["ni_misses_compulsory"]
        found.append(MissesInFour("Linux", size, counts, pages))
    return found


def figure3_sockets(outcome: Outcome, item: Item) -> None:
    """U-Net/MM, Figure 3: misses in four of its interactive users, by a large and a small TLB."""
    del item
    requests = users()
    large, small = measure(requests, (LARGE, SMALL))
    for found in (large, small):
        first = found.misses("receive", compulsory=True)
        outcome.point("receive_compulsory_misses", "misses", first, entries=found.entries)
    fewer = [(many, measure(moved(requests, many), (LARGE,))[0]) for many in AT_ONCE]
    outcome.shape(
        "none-but-compulsory-at-1024",
        not any(large.noncompulsory),
        f"{large.in_four()}; and with fewer users at once, not compulsory when sending and "
        f"receiving: {', '.join(_others(many, found) for many, found in fewer)}",
    )
    outcome.shape("misses-again-at-256", all(small.noncompulsory), small.in_four())
    compulsory = {path: large.misses(path, compulsory=True) for path in PATHS}
    outcome.shape(
        "compulsory-are-receives",
        compulsory["receive"] > compulsory["send"],
        ", ".join(f"{path} {count:,}" for path, count in compulsory.items()),
    )


def _others(at_once: int, found: MissesInFour) -> str:
    sent, received = found.noncompulsory
    return f"{at_once} {sent:,}+{received:,}"
