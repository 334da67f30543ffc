"""``nicscope calibrate-host``: what memory takes on this machine."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, option

if TYPE_CHECKING:
    from nicscope.reports.host import ShownHost

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope calibrate-host[/bold]\n\n"
    "[bold]nicscope calibrate-host --out mine[/bold]\n\n"
    "and then: nicscope register 1TiB --nics 8 --costs mine/registration.toml"
)


def calibrate_host(
    memory: Annotated[
        str, option("BYTES", "Over which each round measures; more than may be locked is not.")
    ] = "16MiB",
    seconds: Annotated[float, option("S", "That it takes, about.")] = 2.0,
    nic: Annotated[
        str,
        option(
            "NAME|FILE",
            "Costs whose part of the NIC is taken, as no NIC is asked.",
            autocompletion=arguments.registrations,
        ),
    ] = "connectx",
    out: Annotated[
        Path | None,
        option("DIR", "Folder for registration.toml, which register takes, and the numbers."),
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Measure what touching, pinning, mapping and copying memory take on this machine.

    Pins no more than the process may lock (ulimit -l), and leaves nothing behind.
    """
    from nicscope.library.calibrate_host import calibrate_host as measure

    def measured() -> ShownHost:
        return measure(memory=memory, seconds=seconds, nic=nic)

    answer(measured, out, as_json, explain)
