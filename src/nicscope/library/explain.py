"""Hypotheses side by side: what ``nicscope explain`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, number, word

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.reports.region_sizes import ShownRegionSizes


@in_one_line
def explain(
    mr: str | int,
    *,
    slices: Word = "1,3.5GiB",
    stack: str = "ucx",
    hypothesis: Word = "ksm,table,pool",
    page_size: str | int = "4K",
    fast: float | None = None,
    slow: float | None = None,
) -> ShownRegionSizes:
    """Set hypotheses side by side that say why a large region is slower than small ones.

    Args:
        mr: bytes of the pool, such as ``"24GiB"``.
        slices: how it is registered: a number of equal regions, or bytes of each at most; several.
        stack: the library and its version, such as ``"ucx:1.19"``; ``"verbs"`` is none.
        hypothesis: by name or a TOML file; one or several.
        page_size: what an entry of the NIC's table maps.
        fast: GB/s where it is fast, if measured; with ``slow``.
        slow: GB/s where it is slow.

    Errors: ``NicscopeError`` for what cannot be.

    """
    from nicscope.config.rdma_costs import load_hypothesis
    from nicscope.reports.region_sizes import ShownRegionSizes
    from nicscope.studies.region_sizes import explain_sizes

    cut, named = word("slices", slices) or "1", word("hypothesis", hypothesis) or ""
    library, _, version = stack.partition(":")
    if not library or not all(map(str.isdecimal, version.split(".") if version else ())):
        raise StudyError("--stack must be a library and its version, such as ucx:1.19, or verbs")
    byte_count = _bytes("--mr", mr)
    options = {
        "--mr": mr,
        "--slices": cut,
        "--stack": stack,
        "--hypothesis": named,
        "--page-size": page_size,
        "--fast": fast,
        "--slow": slow,
    }
    return ShownRegionSizes(
        explain_sizes(
            byte_count,
            [_slice(each, byte_count) for each in cut.split(",")],
            [load_hypothesis(each) for each in named.split(",")],
            page=_bytes("--page-size", page_size),
            stack=library.lower(),
            version=version,
            fast_gb_s=number("--fast", fast),
            slow_gb_s=number("--slow", slow),
            command=command_line(["explain"], options),
        )
    )


def _bytes(option: str, given: str | int) -> int:
    size = given if isinstance(given, int) else read_bytes(given)
    if not size or size < 1:
        raise StudyError(f"{option} must be bytes, {BYTE_SPELLINGS}; got {given!r}")
    return size


def _slice(text: str, byte_count: int) -> int:
    """Bytes of a region: of so many equal ones where there is no unit."""
    if text.isdecimal() and 1 <= int(text) <= byte_count:
        return -(-byte_count // int(text))
    if text.isdecimal():
        raise StudyError(f"--slices: must be from 1 to {byte_count} regions, got {text}")
    return _bytes("--slices", text)
