"""``nicscope descriptors``: how many descriptors a trace becomes, and what binds its transfer."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Explain,
    OneTrace,
    Service,
    option,
    reads_services,
)

if TYPE_CHECKING:
    from nicscope.reports.descriptors import ShownDescriptors

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope descriptors bundled:redis_server[/bold]\n\n"
    "[bold]nicscope descriptors kv.parquet --engine nixl,mooncake --threads 1,4[/bold]\n\n"
    "[bold]nicscope descriptors conversation.jsonl --model llama-3-70b --tp 8 --slice whole"
    "[/bold]\n\n"
    "[bold]nicscope descriptors kv.parquet --nic efa-p5en --engine mooncake --threads 16 --json"
    "[/bold]"
)


@reads_services
def descriptors(
    trace: OneTrace,
    engine: Annotated[
        str,
        option(
            "NAME,...",
            "nixl: one for each request; mooncake: slices of 64 KiB; joined: one for requests that "
            "adjoin each other.",
        ),
    ] = "nixl,mooncake,joined",
    threads: Annotated[str, option("N,...|LOW..HIGH", "Threads that post.")] = "1",
    nics: Annotated[str, option("N,...|LOW..HIGH", "NICs that share the work.")] = "1",
    qps: Annotated[str, option("N,...|LOW..HIGH", "Queue pairs of each NIC.")] = "2",
    nic: Annotated[
        str, option("NAME|FILE", "What the NIC costs and carries.", autocompletion=arguments.nics)
    ] = "connectx-7",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json and descriptors.parquet.")
    ] = None,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show how many descriptors a trace's requests become, and what binds their transfer."""
    from nicscope.library.descriptors import descriptors as count

    def counted() -> ShownDescriptors:
        return count(
            service.opened(trace), engine=engine, threads=threads, nics=nics, qps=qps, nic=nic
        )

    answer(counted, out, as_json, explain)
