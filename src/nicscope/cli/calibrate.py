"""``nicscope calibrate-platform``: fit what no paper prints to what one does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.progress import progress
from nicscope.cli.tables import print_json, print_table, print_text

if TYPE_CHECKING:
    from nicscope.reports.table import Rows
    from nicscope.studies.calibrate.result import Calibration, Value

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope calibrate-platform[/bold]\n\n"
    "[bold]nicscope calibrate-platform --half all --platform p6-natoma --json[/bold]"
)


def calibrate_platform(
    platform: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Report on this one only; may be repeated. Default: all four."
        ),
    ] = None,
    half: Annotated[
        str,
        typer.Option(
            metavar="4k|all",
            help="Fit Table 1's 4 KB numbers and predict the rest, or fit all of the table.",
        ),
    ] = "4k",
    seed: Annotated[int, typer.Option(min=0, help="Of the places where the search begins.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit the constants of delivery to the Trapeze paper's numbers, and print what is left.

    The NIC is the same on all platforms, so all four are always fitted together. Takes about a
    minute, and needs scipy, which comes with the extra 'calibrate'.
    """
    from nicscope.errors import StudyError, did_you_mean
    from nicscope.studies.calibrate.result import calibrate
    from nicscope.studies.delivery_measures import PLATFORMS

    for name in platform or ():
        if name not in PLATFORMS:
            raise StudyError(f"no platform {name!r} to calibrate{did_you_mean(name, PLATFORMS)}")
    with progress("calibrating", "starts", always_say=True) as watch:
        found = calibrate(half, platform or PLATFORMS, seed=seed, progress=watch)
    if as_json:
        print_json(found.to_json())
    else:
        show(found)


def show(found: Calibration) -> None:
    """Print the values, then the numbers, then the errors' means."""
    print_table(value_rows(found))
    print_text()
    print_table(residual_rows(found))
    print_text()
    for fitted, verb in ((True, "fitted"), (False, "predicted")):
        count = sum(each.fitted == fitted for each in found.residuals)
        if count:
            print_text(
                f"{count} numbers {verb}: mean error {100 * found.mean(fitted=fitted):.2f} %, "
                f"worst {100 * found.worst(fitted=fitted):.2f} %"
            )


def value_rows(found: Calibration) -> Rows:
    """The constants: what was fitted, what the catalog holds, and the range that fits as well."""
    from nicscope.reports.table import Rows

    return Rows(
        "",
        ["constant", "fitted", "held", "from", "to", "platforms"],
        [_row(value) for value in found.values],
        left=(0, 5),
        least=("platforms", "to", "from", "held"),
    )


def residual_rows(found: Calibration) -> Rows:
    """Each published number beside the simulated one."""
    from nicscope.reports.table import Rows

    return Rows(
        "",
        ["number", "pair", "published", "simulated", "error", "how"],
        [
            [
                f"{each.name} {each.unit}",
                each.pair,
                f"{each.published:g}",
                f"{each.measured:.1f}",
                f"{100 * each.error:+.1f} %",
                "fitted" if each.fitted else "predicted",
            ]
            for each in found.residuals
        ],
        left=(0, 1, 5),
        key=2,
    )


def _row(value: Value) -> list[str]:
    by_byte = value.costs[0].endswith("per_byte")
    scale, unit = (1000, "ns/B") if by_byte else (1_000_000, "us")

    def shown(ps: int | None) -> str:
        return "-" if ps is None else f"{ps / scale:g}"

    where = "all" if len(value.platforms) > 2 else ", ".join(value.platforms)
    return [
        value.name,
        f"{shown(value.fitted_ps)} {unit}",
        shown(value.catalog_ps),
        shown(value.low_ps),
        shown(value.high_ps),
        where,
    ]
