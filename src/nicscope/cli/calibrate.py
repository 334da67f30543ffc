"""``nicscope calibrate-platform``: fit what no paper prints to what one does."""

from __future__ import annotations

from typing import Annotated

import typer

from nicscope.cli.answer import tell
from nicscope.cli.arguments import AsJson, option
from nicscope.library.progress import progress

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
