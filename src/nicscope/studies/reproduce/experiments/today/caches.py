"""What keys of a registration cache are worth: bytes, or pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.registration import RegistrationReplay, Rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.studies.reproduce.verdict import Item, Outcome

BASE = 1 << 40  # address of the first operation's bytes
PAGE = 4096


class _Operations(NamedTuple):
    """Requests of one process, as a replay wants them."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]


def _strided(many: int, byte_count: int, stride: int) -> _Operations:
    return _Operations(
        np.zeros(many, np.int32),
        np.zeros(many, np.int32),
        np.zeros(many, np.uint8),
        (BASE + np.arange(many) * stride).astype(np.uint64),
        np.full(many, byte_count, np.uint32),
    )


def t10(outcome: Outcome, item: Item) -> None:
    """An issue of libfabric: 262,144 operations of 4 bytes with a stride of 8, by keys.

    Take them through a cache with keys of bytes and one with keys of pages, twice each.
    """
    printed = item.printed
    operations = _strided(
        printed["operations"], printed["operation_bytes"], printed["stride_bytes"]
    )
    most = printed["regions"]
    replay = RegistrationReplay(
        [Rules(1, merges=False, most_regions=most), Rules(PAGE, merges=False, most_regions=most)]
    )
    misses = []
    for _ in range(2):
        before = [counts["registrations"] for counts in replay.counts()]
        replay.feed(operations)
        after = [counts["registrations"] for counts in replay.counts()]
        misses.append([now - then for now, then in zip(after, before, strict=True)])
    many = int(printed["operations"])
    registering, found = float(printed["exact_us"]), float(printed["page_later_us"])

    def each(registrations: int) -> float:
        return found + (registering - found) * registrations / many

    outcome.point("exact", "us", each(misses[0][0]))
    outcome.point("page_first", "us", found + registering * misses[0][1] / many)
    outcome.point("page_later", "us", each(misses[1][1]))
    outcome.shape(
        "exact-never-hits",
        misses[0][0] == misses[1][0] == many,
        f"{misses[0][0]:,} of {many:,} register, and {misses[1][0]:,} the second time; with keys "
        f"of pages {misses[0][1]:,}, and then {misses[1][1]}",
    )
