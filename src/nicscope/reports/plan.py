"""Region plans of a pool: summary, tables, plans.parquet, regions.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of, tidy
from nicscope.reports.wording import byte_size, in_words, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.planning import Plan, PlanReport

_NAMES = {"region_bytes": "bytes of a region", "entries": "entries of a NIC"}


class ShownPlans(Report):
    """A pool and its region plans."""

    found: PlanReport
    topic = "plan"
    drawn: ClassVar = {"plans": "rdma.draw_plan"}

    def summary(self) -> list[str]:
        """What fits and how, what does not and why, and what would."""
        found = self.found
        told = []
        fitting = [plan for plan in found.plans if plan.fits]
        if fitting:
            told.append(self._fits(fitting[0]))
        told += [self._does_not(plan) for plan in found.plans if not plan.fits]
        if found.instead is not None:
            told.append(f"Other pages would do. {self._fits(found.instead)}")
        elif not fitting and len(found.wanted.limits) and found.plans[0].regions:
            told.append(
                f"No larger page helps: share the pool out among "
                f"{in_words(found.sharing(found.plans[0]), 'NIC')}, a part to each."
            )
        shown = fitting[0] if fitting else found.instead
        if shown is not None and not shown.is_aligned:
            told.append(
                "Its regions end between blocks but within pages, which some drivers refuse "
                "(EINVAL): a block that is a multiple of the page, or larger regions, avoid that."
            )
        rest = 0 if shown is None else found.wanted.byte_count - shown.registered
        if rest:
            told.append(
                f"The last {byte_size(rest)} stay unregistered, as no whole block ends "
                "with a page there."
            )
        return told

    def _fits(self, plan: Plan) -> str:
        most = self.found.wanted.most("entries")
        of = "" if most is None else f" of the {most:,} that it may have"
        least, largest = byte_size(plan.smallest), byte_size(plan.largest)
        sizes = f"of {largest}" if least == largest else f"of {least} to {largest}"
        return (
            f"{byte_size(self.found.wanted.byte_count)} in pages of {byte_size(plan.page)} fit as "
            f"{in_words(plan.regions, 'region')} {sizes}, with {plan.entries:,} entries at each "
            f"NIC{of}."
        )

    def _does_not(self, plan: Plan) -> str:
        [why] = plan.beyond
        most = self.found.wanted.most("entries")
        enough = ""
        if most is not None and plan.regions:
            enough = f", enough for {byte_size(most * plan.page)}"
        return f"Pages of {byte_size(plan.page)} do not do: {why}{enough}."

    def parts(self) -> Iterator[Printed]:
        """Tables: each page size, and the limits."""
        wanted = self.found.wanted
        yield heading(f"{byte_size(wanted.byte_count)} in blocks of {byte_size(wanted.block)}")
        yield plan_rows(self.found)
        if wanted.limits:
            yield limit_rows(self.found)
        most = wanted.most("entries")
        if most is not None:
            reach = [f"{byte_size(p.page)}: {byte_size(most * p.page)}" for p in self.found.plans]
            yield remark(f"{most:,} entries reach, by the page: {'; '.join(reach)}.")

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each page size, then one for each region of each."""
        found = self.found
        kinds: dict[str, Column] = {
            "page_size_bytes": ("int64", "page"),
            "fits": ("bool", "fits"),
            "pool_bytes": ("int64", lambda _: found.wanted.byte_count),
            "pool_regions": ("int64", "regions"),
            "largest_region_bytes": ("int64", "largest"),
            "smallest_region_bytes": ("int64", "smallest"),
            "page_aligned": ("bool", "is_aligned"),
            "unregistered_bytes": ("int64", lambda one: found.wanted.byte_count - one.registered),
            "page_entries": ("int64", "entries"),
            "table_bytes": ("int64", "table_bytes"),
            "nics_sharing": ("int64", found.sharing),
        }
        yield "plans", table_of(all_plans(found), kinds)
        regions = ((plan.page, *region) for plan in all_plans(found) for region in plan.each())
        names = ("page_size_bytes", "offset_bytes", "region_bytes")
        yield "regions", tidy(dict.fromkeys(names, "int64"), regions)


def all_plans(found: PlanReport) -> list[Plan]:
    """The plans asked for, and the alternative one."""
    return [*found.plans, *([] if found.instead is None else [found.instead])]


def plan_rows(found: PlanReport) -> Rows:
    """A row for each page size."""
    return rows_of(
        "By page",
        all_plans(found),
        {
            "page": lambda one: byte_size(one.page),
            "fits": lambda one: "yes" if one.fits else "no",
            "regions": lambda one: whole(one.regions) if one.regions else "",
            "largest": lambda one: byte_size(one.largest) if one.regions else "",
            "ends at": lambda one: "page" if one.is_aligned else "block",
            "entries": lambda one: whole(one.entries) if one.regions else "",
            "table": lambda one: byte_size(one.table_bytes) if one.regions else "",
            "NICs": lambda one: whole(found.sharing(one)) if one.regions else "",
        },
        words=("page", "fits", "ends at"),
        key=2,
        least=("table", "NICs", "ends at"),
    )


def limit_rows(found: PlanReport) -> Rows:
    """A row for each limit in force."""
    return rows_of(
        "Limits",
        found.wanted.limits.items(),
        {
            "at most": lambda one: _NAMES[one[0]],
            "number": lambda one: (
                byte_size(one[1].most) if one[0] == "region_bytes" else whole(one[1].most)
            ),
            "evidence": lambda one: one[1].origin.evidence.value,
            "source": lambda one: one[1].origin.source,
        },
        words=("at most", "evidence", "source"),
    )
