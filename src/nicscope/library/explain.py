"""``nicscope explain``: why a large region is slower than small ones, by several hypotheses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.errors import StudyError
from nicscope.library.command import Option, Text, command, some_bytes

if TYPE_CHECKING:
    from nicscope.reports.region_sizes import ShownRegionSizes


@command(
    "nicscope explain --mr 24GiB --slices 1,3.5GiB --stack ucx:1.19 --hypothesis ksm,table,pool",
    "nicscope explain --mr 24GiB --fast 9.24 --slow 6.00",
    out="Folder for results.json, predictions.parquet and a figure.",
)
def explain(
    repeat: list[str],
    /,
    mr: Annotated[Text, Option("BYTES", "The pool that is registered.")],
    *,
    slices: Annotated[
        Text, Option("N|BYTES,...", "How: so many equal regions, or regions of so many bytes.")
    ] = "1,3.5GiB",
    stack: Annotated[
        Text, Option("NAME[:VERSION]", "The library: ucx:1.19, or verbs for none.")
    ] = "ucx",
    hypothesis: Annotated[
        Text, Option("NAME|FILE,...", "Which are set side by side.", offers="hypotheses")
    ] = "ksm,table,pool",
    page_size: Annotated[Text, Option("BYTES", "What an entry of the NIC's table maps.")] = "4K",
    fast: Annotated[float | None, Option("GB/s", "Measured where it is fast.")] = None,
    slow: Annotated[float | None, Option("GB/s", "Measured where it is slow.")] = None,
) -> ShownRegionSizes:
    """Set side by side why a large memory region may be slow, and what tells that apart."""
    from nicscope.config.rdma_costs import load_hypothesis
    from nicscope.reports.region_sizes import ShownRegionSizes
    from nicscope.studies.region_sizes import explain_sizes

    library, _, version = stack.partition(":")
    if not library or not all(map(str.isdecimal, version.split(".") if version else ())):
        raise StudyError("--stack must be a library and its version, such as ucx:1.19, or verbs")
    byte_count = some_bytes("--mr", mr)
    return ShownRegionSizes(
        explain_sizes(
            byte_count,
            [_slice(each, byte_count) for each in slices.split(",")],
            [load_hypothesis(each) for each in hypothesis.split(",")],
            page=some_bytes("--page-size", page_size),
            stack=library.lower(),
            version=version,
            fast_gb_s=fast,
            slow_gb_s=slow,
            command=repeat,
        )
    )



def _slice(text: str, byte_count: int) -> int:
    """Bytes of a region: of so many equal ones where there is no unit."""
    if text.isdecimal() and 1 <= int(text) <= byte_count:
        return -(-byte_count // int(text))
    if text.isdecimal():
        raise StudyError(f"--slices: must be from 1 to {byte_count} regions, got {text}")
    return some_bytes("--slices", text)
