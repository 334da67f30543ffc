"""UTLB Table 1: the host side, by pages of the buffer, in a running system."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.studies.reproduce.verdict import Outcome
from nicscope.studies.reproduce.vmmc_runs import KEEPER, PAGE, in_us, now_ps, run_sender

if TYPE_CHECKING:
    from nicscope.interfaces.vmmc import Endpoint
    from nicscope.studies.reproduce.verdict import Item

SIZES = (1, 2, 4, 8, 16, 32)
WORD_PAGES = 32  # of the library's bit array
LONGEST = max(SIZES)


def run(item: Item) -> Outcome:  # noqa: ARG001 - the expectations hold all that is printed
    """Time each step by the process's own clock."""
    outcome = Outcome()
    for pages, times in zip(SIZES, run_sender(_program, kept=LONGEST)[1], strict=True):
        check_min, check_max, first, second, unpin = (in_us(time) for time in times)
        outcome.point("check_min", "us", check_min, pages=pages)
        outcome.point("check_max", "us", check_max, pages=pages)
        # All that the first send does beyond the second is the call that pins.
        outcome.point("pin", "us", first - second, pages=pages)
        outcome.point("unpin", "us", unpin, pages=pages)
        if pages == LONGEST:
            outcome.shape(
                "first-use-is-dear",
                second < first / 5,
                f"{pages} pages: {first} us to post the first time, {second} the second",
            )
    return outcome


async def _program(endpoint: Endpoint) -> list[tuple[int, ...]]:
    remote = await endpoint.import_buffer(KEEPER, "inbox")
    rows: list[tuple[int, ...]] = []
    page = 0
    for pages in SIZES:
        while page % WORD_PAGES != 0:
            page += 1
            endpoint.allocate(PAGE)
        at_first_bit = endpoint.allocate(pages * PAGE)
        page += pages
        while page % WORD_PAGES != WORD_PAGES - 1:
            page += 1
            endpoint.allocate(PAGE)
        at_last_bit = endpoint.allocate(pages * PAGE)
        page += pages
        times = [now_ps(endpoint)]
        await endpoint.check(at_first_bit)
        times.append(now_ps(endpoint))
        await endpoint.check(at_last_bit)
        times.append(now_ps(endpoint))
        transfer = await endpoint.store(remote, at_first_bit)
        times.append(now_ps(endpoint))
        await endpoint.wait(transfer)
        times.append(now_ps(endpoint))
        transfer = await endpoint.store(remote, at_first_bit)
        times.append(now_ps(endpoint))
        await endpoint.wait(transfer)
        times.append(now_ps(endpoint))
        await endpoint.unpin(at_first_bit)
        times.append(now_ps(endpoint))
        spent = [end - begin for begin, end in pairwise(times)]
        rows.append((spent[0], spent[1], spent[2], spent[4], spent[6]))
    return rows
