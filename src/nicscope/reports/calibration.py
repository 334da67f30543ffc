"""What a calibration has found: the constants, the numbers that they give, the errors' means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.printing import Note
from nicscope.reports.result import Report
from nicscope.reports.table import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.reports.table import Rows
    from nicscope.studies.calibrate.fit import Calibration, Value


class ShownCalibration(Report):
    """Constants that were fitted, and how far they meet the published numbers."""

    found: Calibration
    topic = "calibration"

    def parts(self) -> Iterator[Printed]:
        """The values, then the numbers, then the errors' means."""
        found = self.found
        yield value_rows(found)
        yield Note()
        yield residual_rows(found)
        yield Note()
        for fitted, verb in ((True, "fitted"), (False, "predicted")):
            count = sum(each.fitted == fitted for each in found.residuals)
            if count:
                yield Note(
                    f"{count} numbers {verb}: mean error {100 * found.mean(fitted=fitted):.2f} %, "
                    f"worst {100 * found.worst(fitted=fitted):.2f} %"
                )


def value_rows(found: Calibration) -> Rows:
    """The constants: what was fitted, what the catalog holds, and the range that fits as well."""

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
