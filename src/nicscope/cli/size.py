"""``nicscope size``: the best design of each family within a memory budget."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import completion
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, Traces, option

if TYPE_CHECKING:
    from nicscope.reports.size import ShownSizes

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope size bundled:redis_server --nic-memory 128KiB "
    "--platform utlb-prototype[/bold]\n\n"
    "[bold]nicscope size mine.parquet --nic-memory 64KiB --pin-memory 4MiB "
    "--platform utlb-prototype --target-us 2.5 --out results[/bold]\n\n"
    "[bold]nicscope size mine.parquet --nic-memory 1M --only page-sizes --page-size 4K,2M,1G[/bold]"
)


def size(
    traces: Traces,
    nic_memory: Annotated[
        str, option("BYTES", "For translation, on each NIC, such as 128KiB.", show_default=False)
    ],
    pin_memory: Annotated[
        str | None, option("BYTES", "That each host may pin, such as 4MiB; default: all.")
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "The cheapest design there is best; left out: the one that misses least.",
            autocompletion=completion.platforms,
        ),
    ] = None,
    target_us: Annotated[
        float | None, option("US", "Tell the least NIC memory for that cost per lookup.")
    ] = None,
    page_size: Annotated[
        str | None, option("BYTES,...", "Such as 4KiB,2MiB,1GiB, to be set side by side.")
    ] = None,
    only: Annotated[
        list[str] | None,
        option("page-sizes|FAMILY", "Nothing else; a family such as utlb; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, sizes.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Find the best design of each family within NIC memory, and what other memory would buy."""
    from nicscope.library.size import size as fit

    def sized() -> ShownSizes:
        return fit(
            traces,
            nic_memory,
            platform,
            pin_memory=pin_memory,
            target_us=target_us,
            page_size=page_size,
            only=only or (),
        )

    answer(sized, out, as_json, explain)
