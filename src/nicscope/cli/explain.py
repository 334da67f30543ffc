"""``nicscope explain``: why a large region is slower than small ones, by several hypotheses."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, option

if TYPE_CHECKING:
    from nicscope.reports.region_sizes import ShownRegionSizes

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope explain --mr 24GiB --slices 1,3.5GiB --stack ucx:1.19 "
    "--hypothesis ksm,table,pool[/bold]\n\n"
    "[bold]nicscope explain --mr 24GiB --fast 9.24 --slow 6.00[/bold]"
)


def explain(
    mr: Annotated[str, option("BYTES", "The pool that is registered.")],
    slices: Annotated[
        str, option("N|BYTES,...", "How: so many equal regions, or regions of so many bytes.")
    ] = "1,3.5GiB",
    stack: Annotated[
        str, option("NAME[:VERSION]", "The library: ucx:1.19, or verbs for none.")
    ] = "ucx",
    hypothesis: Annotated[
        str,
        option("NAME|FILE,...", "Which are set side by side.", autocompletion=arguments.hypotheses),
    ] = "ksm,table,pool",
    page_size: Annotated[str, option("BYTES", "What an entry of the NIC's table maps.")] = "4K",
    fast: Annotated[float | None, option("GB/s", "Measured where it is fast.")] = None,
    slow: Annotated[float | None, option("GB/s", "Measured where it is slow.")] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, predictions.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain_terms: Explain = False,
) -> None:
    """Set side by side why a large memory region may be slow, and what tells that apart."""
    from nicscope.library.explain import explain as set_side_by_side

    def explained() -> ShownRegionSizes:
        return set_side_by_side(
            mr,
            slices=slices,
            stack=stack,
            hypothesis=hypothesis,
            page_size=page_size,
            fast=fast,
            slow=slow,
        )

    answer(explained, out, as_json, explain_terms)
