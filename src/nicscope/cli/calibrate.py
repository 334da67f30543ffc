"""``nicscope calibrate-platform`` fits what no paper prints; ``calibrate-host`` measures."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer, tell
from nicscope.cli.arguments import AsJson, Explain, option
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.host import ShownHost

HOST_EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope calibrate-host[/bold]\n\n"
    "[bold]nicscope calibrate-host --out mine[/bold]\n\n"
    "and then: nicscope register 1TiB --nics 8 --costs mine/registration.toml"
)
EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope calibrate-platform[/bold]\n\n"
    "[bold]nicscope calibrate-platform --half all --platform p6-natoma --json[/bold]"
)


def calibrate_platform(
    platform: Annotated[
        list[str] | None,
        option("NAME", "Report on this one only; may be repeated. Default: all four."),
    ] = None,
    half: Annotated[
        str,
        option(
            "4k|all", "Fit Table 1's 4 KB numbers and predict the rest, or fit all of the table."
        ),
    ] = "4k",
    seed: Annotated[int, typer.Option(min=0, help="Of the places where the search begins.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Fit the constants of delivery to the Trapeze paper's numbers, and print what is left.

    The NIC is the same on all platforms, so all four are always fitted together. Takes about a
    minute, and needs scipy, which comes with the extra 'calibrate'.
    """
    from nicscope.errors import StudyError, did_you_mean
    from nicscope.reports.calibration import ShownCalibration
    from nicscope.studies.calibrate.fit import calibrate
    from nicscope.studies.delivery_measures import PLATFORMS

    for name in platform or ():
        if name not in PLATFORMS:
            raise StudyError(f"no platform {name!r} to calibrate{did_you_mean(name, PLATFORMS)}")
    with progress("calibrating", "starts", always_say=True) as watch:
        found = calibrate(half, platform or PLATFORMS, seed=seed, progress=watch)
    tell(ShownCalibration(found), [], as_json)


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
