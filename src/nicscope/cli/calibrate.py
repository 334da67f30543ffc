"""``nicscope calibrate-platform``: fit what no paper prints to what one does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.answer import print_json, print_table, print_text
from nicscope.cli.arguments import AsJson  # noqa: TC001 - Typer reads the annotations
from nicscope.cli.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.table import Rows
    from nicscope.studies.calibrate.fit import Calibration, Value

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
    as_json: AsJson = False,
) -> None:
    """Fit the constants of delivery to the Trapeze paper's numbers, and print what is left.

    The NIC is the same on all platforms, so all four are always fitted together. Takes about a
    minute, and needs scipy, which comes with the extra 'calibrate'.
    """
    from nicscope.errors import StudyError, did_you_mean
    from nicscope.studies.calibrate.fit import calibrate
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
    from nicscope.reports.table import rows_of

    def spelt(value: Value, ps: int | None) -> str:
        return "-" if ps is None else f"{ps / _unit(value)[0]:g}"

    return rows_of(
        "",
        found.values,
        {
            "constant": lambda one: one.name,
            "fitted": lambda one: f"{spelt(one, one.fitted_ps)} {_unit(one)[1]}",
            "held": lambda one: spelt(one, one.catalog_ps),
            "from": lambda one: spelt(one, one.low_ps),
            "to": lambda one: spelt(one, one.high_ps),
            "platforms": lambda one: "all" if len(one.platforms) > 2 else ", ".join(one.platforms),
        },
        words=("constant", "platforms"),
        least=("platforms", "to", "from", "held"),
    )


def _unit(value: Value) -> tuple[int, str]:
    """Picoseconds in the unit that a constant is told in, and its name."""
    return (1000, "ns/B") if value.costs[0].endswith("per_byte") else (1_000_000, "us")


def residual_rows(found: Calibration) -> Rows:
    """Each published number beside the simulated one."""
    from nicscope.reports.table import rows_of

    return rows_of(
        "",
        found.residuals,
        {
            "number": lambda one: f"{one.name} {one.unit}",
            "pair": lambda one: one.pair,
            "published": lambda one: f"{one.published:g}",
            "simulated": lambda one: f"{one.measured:.1f}",
            "error": lambda one: f"{100 * one.error:+.1f} %",
            "how": lambda one: "fitted" if one.fitted else "predicted",
        },
        words=("number", "pair", "how"),
        key=2,
    )
