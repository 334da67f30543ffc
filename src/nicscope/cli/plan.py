"""``nicscope plan``: how a pool is cut into regions that NICs and libraries allow."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, option

if TYPE_CHECKING:
    from nicscope.reports.plan import ShownPlans

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope plan --pool 789GiB --max-mr 512GiB --max-entries 24M --kv-block 2MiB "
    "--page-size 2MiB[/bold]\n\n"
    "[bold]nicscope plan --pool 1TiB --limits efa,mooncake[/bold]"
)


def plan(
    pool: Annotated[str, option("BYTES", "The memory that is to be registered.")],
    max_mr: Annotated[str | None, option("BYTES", "Of a region at most; default any.")] = None,
    max_entries: Annotated[
        str | None, option("N", "Page entries of a NIC at most, such as 24M; default any.")
    ] = None,
    limits: Annotated[
        str | None,
        option(
            "NAME|FILE,...",
            "More limits, of NICs and libraries; of all the tightest hold.",
            autocompletion=arguments.limits,
        ),
    ] = None,
    kv_block: Annotated[
        str, option("BYTES", "What must lie in one region: a block of a KV cache.")
    ] = "64KiB",
    page_size: Annotated[
        str,
        option(
            "BYTES,...",
            "Pages that back the pool, and what an entry maps.",
            "--page",
            "--page-size",
        ),
    ] = "4K,64K,2M,1G",
    out: Annotated[
        Path | None,
        option("DIR", "Folder for results.json, plans.parquet, regions.parquet and a figure."),
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Cut a pool into regions under limits of bytes, entries and alignment; say what would fit."""
    from nicscope.library.plan import plan as cut

    def planned() -> ShownPlans:
        return cut(
            pool,
            max_mr=max_mr,
            max_entries=max_entries,
            limits=limits,
            kv_block=kv_block,
            page_size=page_size,
        )

    answer(planned, out, as_json, explain)
