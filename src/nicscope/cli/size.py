"""``nicscope size``: the best design of each family within a memory budget."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Explain,
    Scheduler,
    Service,
    Traces,
    Workers,
    option,
    reads_services,
)

if TYPE_CHECKING:
    from nicscope.reports.size import ShownSizes
    from nicscope.reports.size_targets import ShownTargets
    from nicscope.traces.reader import Trace

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope size bundled:redis_server --nic-memory 128KiB "
    "--platform utlb-prototype[/bold]\n\n"
    "[bold]nicscope size mine.parquet --nic-memory 64KiB --pin-memory 4MiB "
    "--platform utlb-prototype --target-us 2.5 --out results[/bold]\n\n"
    "[bold]nicscope size mine.parquet --nic-memory 1M --only page-sizes --page-size 4K,2M,1G"
    "[/bold]\n\n"
    "[bold]nicscope size mooncake_conversation.jsonl --model llama-3-70b --tp 8 "
    "--page 4k,2M,1G --target-miss 1%[/bold]"
)


@reads_services
def size(
    traces: Traces,
    nic_memory: Annotated[
        str | None, option("BYTES", "For translation, on each NIC, such as 128KiB.")
    ] = None,
    target_miss: Annotated[
        str | None,
        option("SHARE", "Instead: tell the fewest entries that miss so little, such as 1%."),
    ] = None,
    skip: Annotated[
        int, option("N", "With --target-miss: requests that only fill the caches.")
    ] = 0,
    pin_memory: Annotated[
        str | None, option("BYTES", "That each host may pin, such as 4MiB; default: all.")
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "The cheapest design there is best; left out: the one that misses least.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    target_us: Annotated[
        float | None, option("US", "Tell the least NIC memory for that cost per lookup.")
    ] = None,
    page_size: Annotated[
        str | None,
        option(
            "BYTES,...",
            "Such as 4KiB,2MiB,1GiB, to be set side by side.",
            "--page",
            "--page-size",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        option("page-sizes|FAMILY", "Nothing else; a family such as utlb; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, sizes.parquet and a figure.")
    ] = None,
    service: Service = UNSAID,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Find the best design of each family within NIC memory, or entries enough for few misses."""
    from nicscope.errors import StudyError
    from nicscope.library.size import entries_for
    from nicscope.library.size import size as fit

    def opened() -> list[str | Trace]:
        return [service.opened(one) for one in traces]

    def aimed() -> ShownTargets:
        others = {
            "--nic-memory": nic_memory,
            "--pin-memory": pin_memory,
            "--platform": platform,
            "--target-us": target_us,
            "--only": only,
        }
        for name, given in others.items():
            if given:
                raise StudyError(f"{name} is not for --target-miss; leave one of both out")
        assert target_miss is not None
        return entries_for(
            opened(),
            target_miss,
            page_size=page_size,
            skip=skip,
            workers=workers,
            scheduler=scheduler,
        )

    def sized() -> ShownSizes:
        if nic_memory is None:
            raise StudyError("give --nic-memory BYTES, or --target-miss SHARE such as 1%")
        if skip:
            raise StudyError("--skip goes with --target-miss; give that, or leave it out")
        return fit(
            opened(),
            nic_memory,
            platform,
            pin_memory=pin_memory,
            target_us=target_us,
            page_size=page_size,
            only=only or (),
            workers=workers,
            scheduler=scheduler,
        )

    answer(sized if target_miss is None else aimed, out, as_json, explain)
