"""Figures of RDMA NICs: rates, paths, plans, registration, caches, paging on demand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from nicscope.config.costs import BYTES, Hypothesis
from nicscope.reports.figures.style import (
    BEHIND,
    INK,
    NAME_SIZE,
    beside,
    doubling,
    draw_lines,
    draw_range,
    dressed,
    first_rows,
    hatched,
    legend,
    line_legend,
    logarithmic,
    note,
    parted,
    row_sheet,
    say,
    sheet,
    stacked,
    styled,
    tick_seconds,
    titled,
)
from nicscope.reports.fit import shape_name
from nicscope.reports.odp import way_name
from nicscope.reports.printing import wrapped
from nicscope.reports.rates import AXES, host_name
from nicscope.reports.registration import all_plans, setting_name, spelt_seconds
from nicscope.reports.wording import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    between,
    byte_size,
    in_words,
    whole,
)
from nicscope.studies.curves import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.fitting import Explained, FitReport
    from nicscope.studies.paging_on_demand import Demand, DemandReport
    from nicscope.studies.rates import ConnectionReport, Found, PathReport
    from nicscope.studies.registering import (
        CacheReport,
        Plan,
        PlanReport,
        Pool,
        RegionSizes,
        RegisterReport,
        Registration,
        Setting,
        Used,
    )


def draw_connections(report: ConnectionReport) -> Figure:
    """A line for each way to post that differs in something else, up to six, between its ends."""
    axis, lines = parted(
        report.found,
        lambda one: one.asked._asdict(),
        [*AXES],
        lambda one: f"{one.asked.operation}s",
    )

    def at(one: Found) -> int:
        return int(getattr(one.asked, axis))

    with styled():
        title = f"Operations of {report.nic.name} by {AXES[axis]}"
        figure, [axes] = sheet(titled(title, lines))
        draw_lines(axes, lines, at, lambda one: (one.low.millions, one.high.millions))
        doubling(axes, [at(one) for one in report.found], whole)
        axes.set_ylim(bottom=0)
        dressed(axes, "million operations a second", AXES[axis])
        line_legend(figure, axes)
    return figure


PATH_LOOKS = {
    "PCIe": (BLUE, "o"),
    "IOMMU": (ORANGE, "s"),
    "ordering": (VERMILION, "D"),
    "window": (GREEN, "^"),
}
APART = 0.26  # of a row, between one part and the next
PATH_ROOM = 4.0  # times the most, for words


def draw_paths(report: PathReport) -> Figure:
    """A row for each path with the range of each component; beside it the lowest."""
    name = Path(report.trace["file"]).stem
    title, shown = first_rows(f"What paths to memory allow: {name}", report.found)
    labelled: set[str] = set()
    with styled():
        figure, [axes] = row_sheet(
            title, [host_name(one.host) for one in shown], fontsize=NAME_SIZE
        )
        axes.set_xscale("log")
        for row, one in enumerate(shown):
            for place, (part, span) in enumerate(one.allows.items()):
                colour, marker = PATH_LOOKS[part]
                height = row + APART * (place - (len(one.allows) - 1) / 2)
                label = "" if part in labelled else part
                draw_range(axes, height, span, colour, marker, label)
                labelled.add(part)
            most = max(span.high for span in one.allows.values())
            say(axes, row, (most,), f"{one.bound} bounds: {between(*one.gbits)}")
        ends = [end for one in shown for span in one.allows.values() for end in span]
        axes.set_xlim(min(ends) / 1.5, max(ends) * PATH_ROOM)
        logarithmic(axes.xaxis, axes.get_xlim(), lambda rate: f"{rate:,.9g}")
        axes.set_xlabel("Gb/s, from the highest to the lowest costs")
        legend(figure, axes, columns=3)
    return figure


PLAN_ROOM = 3.0  # times the ends of an axis


def draw_plan(report: PlanReport) -> Figure:
    """Two panels over the page size: entries of a NIC, and the largest region."""
    wanted = report.wanted
    title = f"{byte_size(wanted.byte_count)} in blocks of {byte_size(wanted.block)}"
    with styled():
        figure, (entries, regions) = sheet(f"{title}, cut into regions", 1, 2)
        _draw(entries, report, "entries", "entries at each NIC", lambda one: one.entries, whole, 10)
        _draw(
            regions, report, "region_bytes", "largest region", lambda one: one.largest, byte_size, 2
        )
        legend(figure, entries, columns=4)
    return figure


def _draw(
    axes: Axes,
    report: PlanReport,
    name: str,
    what: str,
    value: Callable[[Plan], int],
    spell: Callable[[int], str],
    base: int,
) -> None:
    plans = sorted(all_plans(report), key=lambda one: one.page)
    cut = [one for one in plans if one.regions]
    most = report.wanted.most(name)
    dressed(axes, what if most is None else f"{what}, at most {spell(most)}", "page size")
    doubling(axes, [one.page for one in plans], byte_size)
    axes.set_yscale("log", base=base)
    for fits, colour, marker, told in (
        (True, BLUE, "o", "fits"),
        (False, VERMILION, "X", "does not fit"),
    ):
        some = [one for one in cut if one.fits == fits]
        axes.plot(
            [one.page for one in some],
            [value(one) for one in some],
            ls="",
            color=colour,
            marker=marker,
            ms=13,
            label=told,
        )
    axes.plot([one.page for one in cut], [value(one) for one in cut], color=INK, lw=1, zorder=1)
    for one in cut:
        note(axes, spell(value(one)), (one.page, value(one)), (0, 13), bbox=BEHIND)
    if most is not None:
        axes.axhline(most, color=INK, lw=1.5, ls=(0, (4, 3)), label="limit")
    heights = [*(value(one) for one in cut), *([] if most is None else [most])]
    if heights:
        axes.set_ylim(min(heights) / PLAN_ROOM, max(heights) * PLAN_ROOM)
    axes.set_xlim(plans[0].page / PLAN_ROOM, plans[-1].page * PLAN_ROOM)
    axes.yaxis.set_major_locator(LogLocator(base, numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: spell(round(number))))
    axes.yaxis.minorticks_off()


TICKS = 5  # of a panel, at most
EDGE = 0.5  # of the distance between ticks
CACHE_HEADROOM = 1.08
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def draw_caches(report: CacheReport) -> Figure:
    """Three panels: requests that find their buffer, memory kept, time.

    A line for each policy over the limits, or a mark for each policy if there is one limit.
    """
    limits = sorted({one.library.entries for one in report.used}, key=_order)
    names = ["any" if limit is None else whole(limit) for limit in limits]
    lines: dict[str, list[Used]] = {}
    for one in report.used:
        lines.setdefault(one.library.policy, []).append(one)
    label = "regions kept at most"
    if len(limits) == 1:
        label, names = f"policy; {label}: {names[0]}", [*lines]

    def at(one: Used) -> int:
        if len(limits) == 1:
            return names.index(one.library.policy)
        return limits.index(one.library.entries)

    most = max(one.counts["most_bytes"] for one in report.used)
    size, unit = next((each for each in UNITS if most >= each[0]), UNITS[-1])
    with styled():
        title = f"Registration caches over {Path(report.trace['file']).stem}"
        figure, panels = sheet(title, 1, 3)
        found, kept, takes = panels
        draw_lines(found, lines, at, lambda one: (one.hit_percent,) * 2)
        draw_lines(kept, lines, at, lambda one: (one.counts["most_bytes"] / size,) * 2)
        draw_lines(takes, lines, at, lambda one: (one.us_low, one.us_high))
        found.yaxis.set_major_formatter(PercentFormatter(100))
        found.set_ylim(0, 100 * CACHE_HEADROOM)
        kept.set_ylim(0, CACHE_HEADROOM * max(most / size, 1e-3))
        takes.set_ylim(0, CACHE_HEADROOM * max(*(one.us_high for one in report.used), 1e-3))
        shown = range(0, len(names), -(-len(names) // TICKS))
        told = ("find their buffer registered", f"{unit} kept registered", "us per request")
        for axes, what in zip(panels, told, strict=True):
            axes.set_xticks([*shown], [names[place] for place in shown])
            axes.set_xlim(-EDGE, len(names) - EDGE)
            dressed(axes, what, label)
            axes.xaxis.label.set_fontsize(13)
        legend(figure, found, columns=3)
    return figure


def _order(limit: int | None) -> tuple[bool, int]:
    """Sort key of limits: None, unlimited, comes last."""
    return limit is None, limit or 0


MOST_HYPOTHESES = 4
REGION_LOOKS = ((False, "fast", BLUE, ""), (True, "slow", VERMILION, "//"))
CHARACTERS = 84  # of a line over all panels
ABOVE: Any = {"loc": "left", "fontsize": 13, "color": INK}
BELOW: Any = {  # of a panel: the counter that shows it
    "xy": (0, 0),
    "xycoords": "axes fraction",
    "xytext": (0, -52),
    "textcoords": "offset points",
    "va": "top",
    "fontsize": 10,
    "color": INK,
}
LINE = 0.17  # inches of a line of that
MR_ROOM = 30.0  # times the longest bar, for words


def draw_hypotheses(found: RegionSizes) -> Figure:
    """A panel for each hypothesis: each way's largest region, and the threshold."""
    shown = found.hypotheses[:MOST_HYPOTHESES]
    title = f"{byte_size(found.byte_count)} registered, by {len(shown)} hypotheses"
    if len(shown) < len(found.hypotheses):
        title += f" of {len(found.hypotheses)}"
    title, settings = first_rows(title, [*found.asked, *found.tests])
    with styled():
        names = [setting_name(one) for one in settings]
        width = CHARACTERS // len(shown)
        counters = ["\n".join(wrapped(f"look at: {one.counter}", width)) for one in shown]
        below = LINE * max(told.count("\n") + 1 for told in counters)
        figure, panels = row_sheet(title, names, len(shown), below, fontsize=NAME_SIZE)
        for axes, hypothesis, counter in zip(panels, shown, counters, strict=True):
            _region_sizes_draw(axes, hypothesis, settings)
            axes.set_title(
                "\n".join(wrapped(f"{hypothesis.name}: {hypothesis.title}", width)), **ABOVE
            )
            axes.annotate(counter, **BELOW)
        fullest = max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[0]))
        legend(figure, fullest, columns=3)
    return figure


def _region_sizes_draw(axes: Axes, hypothesis: Hypothesis, settings: Sequence[Setting]) -> None:
    by_bytes = hypothesis.of == BYTES
    spell = byte_size if by_bytes else whole
    sizes = [one.slice_bytes if by_bytes else -(-one.slice_bytes // one.page) for one in settings]
    axes.set_xscale("log", base=2)
    for slow, label, colour, hatch in REGION_LOOKS:
        rows = [row for row, one in enumerate(settings) if one.predicted(hypothesis) is slow]
        if rows:
            widths = [sizes[row] for row in rows]
            axes.barh(rows, widths, 0.7, **hatched(label, colour, hatch))
        for row in rows:
            say(axes, row, (sizes[row],), label)
    axes.axvline(hypothesis.least, color=INK, lw=1.5, ls=(0, (4, 3)), label="slow from")
    axes.set_xlim(min([*sizes, hypothesis.least]) / 4, max([*sizes, hypothesis.least]) * MR_ROOM)
    axes.xaxis.set_major_locator(LogLocator(2, numticks=3))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: spell(round(size))))
    axes.tick_params(axis="x", labelsize=11)
    what = "bytes" if by_bytes else "entries"
    axes.set_xlabel(f"{what} of the largest region", fontsize=12)


LEAST_REGISTERED = 1e-9  # seconds
REGISTER_ROOM = 1.5  # times the ends
REGISTER_AXES = {"page": "page size", "threads": "threads", "NICs": "NICs"}
PARTS = {  # as tables call them; hatches tell apart what colour does not
    "regions": ("calls", GREY, ""),
    "touching": ("touching", SKY, ""),
    "pinning": ("pinning", ORANGE, "//"),
    "NICs": ("entering", BLUE, ""),
    "backlog": ("backlog", VERMILION, ".."),
}


def draw_times(report: RegisterReport) -> Figure:
    """A line for each way that differs in something else, up to six, between its ends."""
    axis, lines = parted(report.found, _asked, [*REGISTER_AXES], lambda _: "in all")
    with styled():
        figure, [axes] = sheet(titled(f"Time to register {_what(report)}", lines))
        draw_lines(
            axes,
            lines,
            lambda one: _at(one.pool, axis),
            lambda one: [max(end, LEAST_REGISTERED) for end in one.total],
        )
        places = [_at(one.pool, axis) for one in report.found]
        doubling(axes, places, byte_size if axis == "page" else whole)
        axes.set_yscale("log")
        ends = [max(end, LEAST_REGISTERED) for one in report.found for end in one.total]
        axes.set_ylim(min(ends) / REGISTER_ROOM, max(ends) * REGISTER_ROOM)
        logarithmic(axes.yaxis, ends, tick_seconds)
        dressed(axes, "time, from the lowest to the highest costs", REGISTER_AXES[axis])
        line_legend(figure, axes)
    return figure


def draw_parts(report: RegisterReport) -> Figure:
    """A bar for each way: the shares of its parts, at the upper ends of their ranges."""
    title, shown = first_rows(f"Where the time goes: {_what(report)}", report.found)
    totals = [max(one.total.high, LEAST_REGISTERED) for one in shown]
    with styled():
        figure, [axes] = row_sheet(title, _names(shown), fontsize=NAME_SIZE)
        series = (
            (
                [one.parts[part].high / total for one, total in zip(shown, totals, strict=True)],
                hatched(name, colour, hatch),
            )
            for part, (name, colour, hatch) in PARTS.items()
        )
        stacked(axes.barh, range(len(shown)), 0.7, (each for each in series if any(each[0])))
        for row, one in enumerate(shown):
            beside(axes, (1.0, row), spelt_seconds(one.total))
        axes.set_xlim(0, 1.3)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel("share of the time at the highest costs; beside it the time")
        legend(figure, axes, columns=5)
    return figure


def _what(report: RegisterReport) -> str:
    pool = report.found[0].pool
    many = {one.pool.nics for one in report.found}
    at = f" at {in_words(pool.nics, 'NIC')}" if len(many) == 1 else ""
    return f"{byte_size(pool.byte_count)}{at}, costs {report.costs.name}"


def _asked(one: Registration) -> dict[str, str]:
    """The options that distinguish one way from others, in words."""
    pool = one.pool
    return {
        "page": byte_size(pool.page),
        "threads": whole(pool.threads),
        "NICs": whole(pool.nics),
        "NICs at once": "yes" if pool.at_once else "no",
        "touched": "yes" if pool.touched else "no",
        "cache": pool.cache,
    }


def _at(pool: Pool, axis: str) -> int:
    return {"page": pool.page, "threads": pool.threads, "NICs": pool.nics}[axis]


def _names(shown: Sequence[Registration]) -> list[str]:
    """Rows by what tells them apart."""
    asked = [_asked(one) for one in shown]
    differing = [name for name in asked[0] if len({one[name] for one in asked}) > 1] or ["page"]
    return [
        ", ".join(one[name] if name == "page" else f"{name} {one[name]}" for name in differing)
        for one in asked
    ]


LEAST_WAIT = 1e-7  # seconds; what is less is drawn here
ODP_ROOM = 12.0  # times the longest, for words
AHEAD = "registering ahead"


def draw_waits(report: DemandReport) -> Figure:
    """Waiting time: a row for registering ahead, and one for each on-demand configuration."""
    name = Path(report.trace["file"]).stem
    title, shown = first_rows(f"Registered ahead, or paged on demand: {name}", report.demand)
    spans = [report.ahead.seconds, *(one.waits for one in shown)]
    with styled():
        rows = [AHEAD, *(way_name(one) for one in shown)]
        figure, [axes] = row_sheet(title, rows, fontsize=NAME_SIZE)
        axes.set_xscale("log")
        longest = max(LEAST_WAIT, *(span.high for span in spans))
        shortest = min((end for span in spans for end in span if end), default=LEAST_WAIT)
        axes.set_xlim(max(LEAST_WAIT, shortest / 3), longest * ODP_ROOM)
        left = axes.get_xlim()[0]
        axes.axvspan(*(max(end, left) for end in spans[0]), color=ORANGE, alpha=0.2, lw=0)
        for row, span in enumerate(spans):
            ends = [max(end, left) for end in span]
            draw_range(axes, row, ends, BLUE if row else ORANGE, "|", _named(row))
            say(axes, row, ends, spelt_seconds(span) if span.high else "nothing")
        logarithmic(axes.xaxis, axes.get_xlim(), tick_seconds)
        axes.set_xlabel("time, from the lowest to the highest costs")
        legend(figure, axes, columns=2)
    return figure


def _named(row: int) -> str:
    """The legend's words, which the first two rows bear for all."""
    return {0: f"{AHEAD}, once", 1: "what requests wait in all"}.get(row, "")


def draw_resident(report: DemandReport) -> Figure | None:
    """Waiting time over the share of the touched memory that may be resident; one limit: none."""
    if len({one.way.resident_bytes for one in report.demand}) == 1:
        return None
    touched = report.ahead.pages * report.page
    lines: dict[str, list[Demand]] = {}
    for one in report.demand:
        lines.setdefault(way_name(one, limited=False), []).append(one)
    with styled():
        title = f"Paged on demand within less memory: {Path(report.trace['file']).stem}"
        figure, [axes] = sheet(titled(title, lines))
        draw_lines(
            axes,
            lines,
            lambda one: _share(one, touched),
            lambda one: (max(one.waits.low, LEAST_WAIT), max(one.waits.high, LEAST_WAIT)),
        )
        axes.set_yscale("log")
        _mark(axes, report)
        axes.set_xlim(left=0)
        logarithmic(axes.yaxis, axes.get_ylim(), tick_seconds)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        dressed(
            axes,
            "what requests wait in all, from the lowest to the highest costs",
            f"share of {byte_size(touched)} that may be resident",
        )
        line_legend(figure, axes)
    return figure


def _share(one: Demand, touched: int) -> float:
    """Of the memory of all nodes that requests touch; all of it where there is no limit."""
    kept = one.way.resident_bytes
    return 1.0 if kept is None else min(1.0, kept / max(touched, 1))


def _mark(axes: Axes, report: DemandReport) -> None:
    low, high = report.ahead.seconds
    axes.axhspan(low, high, color=ORANGE, alpha=0.2, lw=0, label=f"{AHEAD}, once")
    axes.axhline(high, color=INK, lw=0.8, ls=(0, (4, 3)))


MOST_COUNTS = 3
FIT_LOOKS = ((True, BLUE, "o", "explains"), (False, VERMILION, "X", "does not explain"))
FIT_HEADROOM = 1.12


def draw_fit(report: FitReport) -> Figure:
    """A row for each shape of cache: its misses count by count, then entries that explain them."""
    counts = min(len(report.counted), MOST_COUNTS)
    title = f"Caches beside what was counted: {Path(report.trace).stem}"
    if counts < len(report.counted):
        title += f" ({counts} of {len(report.counted)} counts)"
    title, shown = first_rows(title, report.shapes)
    with styled():
        names = [shape_name(one) for one in shown]
        figure, panels = row_sheet(title, names, counts + 1, fontsize=NAME_SIZE)
        for place, axes in enumerate(panels[:counts]):
            _draw_ratios(axes, report, shown, place)
        _draw_entries(panels[-1], shown)
        legend(figure, panels[0], columns=4)
    return figure


def _draw_ratios(axes: Axes, report: FitReport, shown: Sequence[Explained], place: int) -> None:
    counted = report.counted[place]
    left_open = counted.open(report.tolerance)
    low, high = counted.ratio - left_open, counted.ratio + left_open
    axes.axvspan(low, high, color=SKY, alpha=0.4, lw=0, label="counted, and what that leaves open")
    axes.axvline(counted.ratio, color=INK, lw=1)
    for explains, colour, marker, label in FIT_LOOKS:
        rows = [row for row, one in enumerate(shown) if one.explains is explains]
        ratios = [shown[row].ratios[place] for row in rows]
        axes.plot(ratios, rows, ls="", color=colour, marker=marker, ms=9, label=label)
    most = max(high, *(one.ratios[place] for one in shown))
    axes.set_xlim(0, FIT_HEADROOM * max(most, 1e-9))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.tick_params(axis="x", labelsize=12)
    axes.set_xlabel(f"lookups that miss\npages of {byte_size(report.page_sizes[place])}")


def _draw_entries(axes: Axes, shown: Sequence[Explained]) -> None:
    axes.set_xscale("log", base=2)
    for row, one in enumerate(shown):
        [(_, colour, marker, _)] = [look for look in FIT_LOOKS if look[0] is one.explains]
        ends = (one.low, one.best if one.high == MOST_ENTRIES else one.high)
        draw_range(axes, row, ends, colour, "|")
        axes.plot([one.best], [row], color=colour, marker=marker, ms=9)
        if one.high == MOST_ENTRIES and one.low < one.high:
            note(axes, "or more", (max(ends), row), (9, 0), va="center", fontsize=11, ha="left")
    sizes = [size for one in shown for size in (one.low, one.best)]
    axes.set_xlim(min(sizes) / 2, 4 * max(sizes))
    axes.xaxis.set_major_locator(LogLocator(2, numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: whole(round(size))))
    axes.tick_params(axis="x", labelsize=11)
    axes.set_xlabel("entries; the mark is the best")
