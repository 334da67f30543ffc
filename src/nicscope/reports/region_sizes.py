"""Why large regions are slow: summary, table of predictions, predictions.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading
from nicscope.reports.result import Report
from nicscope.reports.wording import byte_size, in_words, listed, significant, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.region_sizes import RegionSizes, Setting


class ShownRegionSizes(Report):
    """Hypotheses side by side."""

    found: RegionSizes
    topic = "explain"
    drawn: ClassVar = {"predictions": "rdma.draw_hypotheses"}

    def summary(self) -> list[str]:
        """Which hypotheses say what was seen, and what tells them apart."""
        found = self.found
        explaining = [one for one in found.hypotheses if found.explains(one)]
        likeliest = found.likeliest()
        if len(found.asked) < 2:
            slow = [one.title for one in found.hypotheses if found.asked[0].predicted(one)]
            told = [f"Slow by {listed(slow)}." if slow else "Fast by all of them."]
        elif not explaining:
            told = ["None of them says that these ways differ."]
        else:
            names = listed([f"{one.title} ({one.name})" for one in explaining])
            verb = "say" if len(explaining) > 1 else "says"
            told = [f"{names[0].upper()}{names[1:]} {verb} that these ways differ."]
            if likeliest is not None:
                alone = ", which alone is more than assumed" if len(explaining) > 1 else ""
                most = f"Most likely it is {likeliest.title} ({likeliest.name}){alone}"
                told.insert(0, f"{most}. What cures that: {likeliest.cure}.")
        if found.tests and len(explaining) > 1:
            tests = listed([f"{one.told} ({_said(found, one)})" for one in found.tests])
            told.append(f"What tells them apart: {tests}.")
        if found.lost_us is not None:
            told.append(f"What is measured is {significant(found.lost_us)} us more for each 4 KiB.")
        return told

    def parts(self) -> Iterator[Printed]:
        """Tables: predictions, and each hypothesis with its counter."""
        yield heading(f"{byte_size(self.found.byte_count)} registered")
        yield prediction_rows(self.found)
        yield hypothesis_rows(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way of registering and each hypothesis."""
        import pyarrow as pa

        rows = [
            {
                "is_test": number >= len(self.found.asked),
                "largest_region_bytes": setting.slice_bytes,
                "pool_regions": setting.regions,
                "page_size_bytes": setting.page,
                "stack": f"{setting.stack}:{setting.version}".rstrip(":"),
                "hypothesis": one.name,
                "is_slow": setting.predicted(one),
            }
            for number, setting in enumerate([*self.found.asked, *self.found.tests])
            for one in self.found.hypotheses
        ]
        yield "predictions", pa.Table.from_pylist(rows)


def _said(found: RegionSizes, setting: Setting) -> str:
    slow = [one.name for one in found.hypotheses if setting.predicted(one)]
    return f"still slow if {' or '.join(slow)}" if slow else "fast by all"


def setting_name(setting: Setting) -> str:
    """A short name: number of regions, and the changed options."""
    cut = in_words(setting.regions, "region")
    return f"{cut}, {setting.told}" if setting.told else cut


def prediction_rows(found: RegionSizes) -> Rows:
    """A row for each way of registering, a column for each hypothesis."""
    headings = ["way", "largest", "pages", *(one.name for one in found.hypotheses)]
    cells = [
        [
            setting_name(setting),
            byte_size(setting.slice_bytes),
            byte_size(setting.page),
            *("slow" if setting.predicted(one) else "fast" for one in found.hypotheses),
        ]
        for setting in [*found.asked, *found.tests]
    ]
    words = (0, *range(3, len(headings)))
    return Rows("Predicted", headings, cells, words, gaps=(len(found.asked),))


def hypothesis_rows(found: RegionSizes) -> Rows:
    """A row for each hypothesis: threshold, evidence, counter to check."""
    cells = [
        [
            one.name,
            f"{byte_size(one.least) if one.of == 'bytes' else f'{whole(one.least)} entries'}",
            one.origin.evidence.value,
            one.slows.evidence.value,
            one.says,
            one.counter,
            one.cure,
            one.origin.source,
        ]
        for one in found.hypotheses
    ]
    headings = [
        "hypothesis",
        "slow from",
        "evidence",
        "that it slows",
        "it says",
        "look at",
        "cure",
        "source",
    ]
    return Rows(
        "Hypotheses",
        headings,
        cells,
        tuple(range(8)),
        groups=(("", 3), ("", 1), ("", 1), ("", 1), ("", 1)),
    )
