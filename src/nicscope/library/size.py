"""``nicscope size``: the best design of each family within a memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.errors import StudyError
from nicscope.library.command import (
    Option,
    Scheduler,
    Text,
    Workers,
    command,
    each_given,
    platform_option,
)
from nicscope.library.progress import progress
from nicscope.library.traces import Traces, all_opened
from nicscope.library.workers import check_alone, workers_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.reports.result import Report


@command(
    "nicscope size bundled:redis_server --nic-memory 128KiB --platform utlb-prototype",
    "nicscope size mine.parquet --nic-memory 64KiB --pin-memory 4MiB --platform "
    "utlb-prototype --target-us 2.5 --out results",
    "nicscope size mine.parquet --nic-memory 1M --only page-sizes --page-size 4K,2M,1G",
    "nicscope size mooncake_conversation.jsonl --model llama-3-70b --tp 8 --page 4k,2M,1G "
    "--target-miss 1%",
    out="Folder for results.json, sizes.parquet and a figure.",
)
def size(
    repeat: list[str],
    /,
    trace: Traces,
    nic_memory: Annotated[
        Text, Option("BYTES", "For translation, on each NIC, such as 128KiB.")
    ] = None,
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("The cheapest design there is best; left out: the one that misses least."),
    ] = None,
    *,
    target_miss: Annotated[
        Text,
        Option("SHARE", "Instead: tell the fewest entries that miss so little, such as 1%."),
    ] = None,
    skip: Annotated[
        int, Option("N", "With --target-miss: requests that only fill the caches.")
    ] = 0,
    pin_memory: Annotated[
        Text, Option("BYTES", "That each host may pin, such as 4MiB; default: all.")
    ] = None,
    target_us: Annotated[
        float | None, Option("US", "Tell the least NIC memory for that cost per lookup.")
    ] = None,
    page_size: Annotated[
        Text,
        Option(
            "BYTES,...",
            "Such as 4KiB,2MiB,1GiB, to be set side by side.",
            ("--page", "--page-size"),
        ),
    ] = None,
    only: Annotated[
        str | Sequence[str],
        Option(
            "page-sizes|FAMILY",
            "Nothing else; a family such as utlb; may be repeated.",
            read=each_given,
            is_repeated=True,
        ),
    ] = (),
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> Report:
    """Find the best design of each family within NIC memory, or entries enough for few misses."""
    from nicscope.studies.sizing.targets import ask, ask_target

    if target_miss is not None:
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
        target = ask_target(target_miss, page_size, skip)
        check_alone(skip, workers, scheduler)
    elif nic_memory is None:
        raise StudyError("give --nic-memory BYTES, or --target-miss SHARE such as 1%")
    elif skip:
        raise StudyError("--skip goes with --target-miss; give that, or leave it out")
    else:
        question = ask(
            nic_memory,
            pin_memory=pin_memory,
            platform=platform,
            target_us=target_us,
            page_sizes=page_size,
            only=only,
        )
    traces = all_opened(trace, as_given=True, folders=True)
    opened = [one for _, one in traces]
    with (
        workers_for(opened, workers, scheduler, alone=bool(skip)) as hired,
        progress("sizing" if target_miss is None else "measuring", "rows") as watch,
    ):
        if target_miss is None:
            from nicscope.reports.size import ShownSizes
            from nicscope.studies.sizing.sizings import report

            return ShownSizes(report(traces, question, repeat, watch, hired))
        from nicscope.reports.size_targets import ShownTargets
        from nicscope.studies.sizing.targets import targets

        return ShownTargets(targets(traces, target, repeat, watch, hired))
