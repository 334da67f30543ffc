"""The papers' figures of programs: UTLB's 7 and 8, and miNI's 5 to 7 and its miss penalties."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from nicscope.reports.figures.style import FAINT, INK, hatched, legend, note, slide, stacked, styled
from nicscope.reports.wording import BLUE, GREEN, GREY, KIND_COLOURS, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.reproduce.verdict import Row, StudyTable


MOST_PANELS = 8  # of a page
MOST_COLUMNS = 4
KINDS = ("compulsory", "capacity", "conflict")
HATCHES = {"compulsory": "", "capacity": "///", "conflict": ".."}  # not by colour alone
WIDTH = 0.74
PLENTY = 0.1  # from here on two decimals say enough


def by_application(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows grouped by application, in order."""
    names = dict.fromkeys(row["application"] for row in rows)
    return {name: [row for row in rows if row["application"] == name] for name in names}


def draw_breakdown(table: StudyTable) -> Iterator[tuple[str, Figure]]:
    """Yield pages of a panel for each application, with what tells their files apart."""
    programs = [*by_application(table.rows).items()]
    pages = math.ceil(len(programs) / MOST_PANELS)
    each = math.ceil(len(programs) / pages)
    for page in range(pages):
        shown = programs[page * each : (page + 1) * each]
        yield f"_{page + 1}" * (pages > 1), _draw_page(shown)


def _draw_page(programs: Sequence[tuple[str, list[Row]]]) -> Figure:
    lines = math.ceil(len(programs) / MOST_COLUMNS)
    columns = math.ceil(len(programs) / lines)
    with styled():
        figure, panels = slide("Why lookups miss on the NIC", lines, columns)
        for place, (axes, (name, rows)) in enumerate(zip(panels, programs, strict=False)):
            _breakdown_panel(axes, rows)
            axes.set_title(name, loc="left", fontsize=14, color=INK)
            if place % columns == 0:
                axes.set_ylabel("NI misses per lookup", color=INK)
            if place + columns >= len(programs):
                axes.set_xlabel("cache entries", color=INK)
        for axes in panels[len(programs) :]:
            axes.set_visible(False)
        legend(figure, panels[0], columns=3)
    return figure


def _breakdown_panel(axes: Axes, rows: list[Row]) -> None:
    series = (
        (
            [row[f"{kind}_per_lookup"] for row in rows],
            hatched(kind, KIND_COLOURS[kind], HATCHES[kind]),
        )
        for kind in KINDS
    )
    totals = stacked(axes.bar, range(len(rows)), WIDTH, series)
    for place, total in enumerate(totals):
        note(
            axes,
            f"{total:.2f}" if total >= PLENTY else f"{total:.2g}",
            (place, total),
            (0, 4),
            fontsize=10,
        )
    axes.set_xticks(range(len(rows)), [f"{row['cache_entries'] // 1024} K" for row in rows])
    axes.set_ylim(0, 1.14 * max(*totals, 1e-6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.grid(axis="y", color=FAINT, linewidth=0.8)


# Cold is pale and plain, the rest is dark and hatched; blue is sent, orange received.
PARTS = {
    "send_cold": ("send, cold", SKY, ""),
    "send_noncold": ("send, not cold", BLUE, "///"),
    "receive_cold": ("receive, cold", ORANGE, ""),
    "receive_noncold": ("receive, not cold", VERMILION, "///"),
}
GAP = 0.7  # between lines of different length
HEADROOM = 1.06
UNDER = 24  # points below the axis, of the lengths of lines


def draw_sweep(application: str, rows: Sequence[Row]) -> Figure:
    """A panel for each size of the cache, a bar for each line and associativity."""
    sizes = list(dict.fromkeys(row["cache_entries"] for row in rows))
    top = max(row["misses_percent"] for row in rows)
    with styled():
        figure, panels = slide(
            f"Misses of the handle cache: {application}", 1, len(sizes), share=True
        )
        for axes, size in zip(panels, sizes, strict=True):
            _sweep_panel(axes, [row for row in rows if row["cache_entries"] == size])
            axes.set_title(f"C: {size // 1024} K entries", loc="left", fontsize=16, color=INK)
            axes.set_ylim(0, HEADROOM * max(top, 1e-6))
        panels[0].set_ylabel("misses per 100 lookups", color=INK)
        middle = panels[len(panels) // 2]
        middle.set_xlabel("A: lines per set; L: entries per line", color=INK, labelpad=UNDER)
        legend(figure, panels[0], columns=4)
    return figure


def _sweep_panel(axes: Axes, rows: Sequence[Row]) -> None:
    lines = list(dict.fromkeys(row["line_entries"] for row in rows))
    places = [at + GAP * lines.index(row["line_entries"]) for at, row in enumerate(rows)]
    series = (
        ([row[f"{part}_percent"] for row in rows], hatched(*look)) for part, look in PARTS.items()
    )
    stacked(axes.bar, places, 0.86, series)
    axes.set_xticks(places, [str(row["ways"]) for row in rows])
    axes.tick_params(axis="x", labelsize=11)
    for line in lines:
        own = [at for at, row in zip(places, rows, strict=True) if row["line_entries"] == line]
        note(
            axes,
            f"L {line}",
            (sum(own) / len(own), 0),
            (0, -UNDER),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize=13,
        )
    axes.grid(axis="y", color=FAINT, linewidth=0.8)


GRAPHS = {
    "ni_misses_per_lookup": "NI misses per lookup",
    "cost_us_per_lookup": "cost per lookup (us)",
}
LOOKS = ((VERMILION, "o"), (ORANGE, "s"), (GREEN, "^"), (BLUE, "D"), (PURPLE, "v"))
LINES_HEADROOM = 1.08


def draw_prefetch(application: str, rows: Sequence[Row]) -> Figure:
    """Two graphs, a line for each size of the cache; both begin at 0."""
    sizes = list(dict.fromkeys(row["cache_entries"] for row in rows))
    with styled():
        figure, panels = slide(f"What fetching ahead buys: {application}", 1, len(GRAPHS))
        for axes, (measure, label) in zip(panels, GRAPHS.items(), strict=True):
            for size, (colour, marker) in zip(sizes, LOOKS, strict=True):
                shown = [
                    row for row in rows if row["cache_entries"] == size and row[measure] is not None
                ]
                axes.plot(
                    [row["entries_fetched"] for row in shown],
                    [row[measure] for row in shown],
                    color=colour,
                    marker=marker,
                    ms=8,
                    lw=2,
                    label=f"{size // 1024} K entries",
                    clip_on=False,
                )
            axes.set_title(label, loc="left", fontsize=16, color=INK)
            axes.set_xscale("log", base=2)
            widths = list(dict.fromkeys(row["entries_fetched"] for row in rows))
            axes.set_xticks(widths, [str(width) for width in widths])
            axes.minorticks_off()
            axes.set_xlabel("entries fetched per miss", color=INK)
            top = max([row[measure] for row in rows if row[measure] is not None], default=0)
            axes.set_ylim(0, LINES_HEADROOM * max(top, 1e-6))
            axes.grid(axis="y", color=FAINT, linewidth=0.8)
        legend(figure, panels[0], columns=len(sizes))
    return figure


RUNS_HEADROOM = 1.12
LINE_LOOKS = {8: ("#8FC7EA", "o"), 16: (SKY, "s"), 64: (BLUE, "^"), 128: (INK, "D")}  # by line
BETWEEN = 0.7  # places between sizes of caches
BOUND = 3.0  # percent, as printed
BEST = (16384, 64, 4)
PRINTED_US = {"delay": (0, 50), "processing": (5, 500)}
SMALLEST_US = 0.5  # so that a delay of 0 has its place on a logarithmic scale


def draw_speed_ups(rows: Sequence[Row]) -> Figure:
    """A panel for each program: speed-up by size and ways, a line for each length of lines."""
    programs = by_application(rows)
    columns = min(MOST_COLUMNS, len(programs))
    with styled():
        figure, panels = slide(
            "Speed-up on eight processors, by cache", math.ceil(len(programs) / columns), columns
        )
        for place, (axes, (name, own)) in enumerate(zip(panels, programs.items(), strict=False)):
            _speed_ups(axes, own)
            axes.set_title(name, loc="left", fontsize=14, color=INK)
            if place % columns == 0:
                axes.set_ylabel("speed-up", color=INK)
        for axes in panels[len(programs) :]:
            axes.set_visible(False)
        legend(figure, panels[0], columns=len(LINE_LOOKS) + 1)
    return figure


def _speed_ups(axes: Axes, rows: Sequence[Row]) -> None:
    static = rows[0]["static_speed_up"]
    axes.axhline(static, color=VERMILION, lw=1.5, ls="--", label="static tables")
    sizes = list(dict.fromkeys(row["cache_entries"] for row in rows))
    ways = list(dict.fromkeys(row["ways"] for row in rows))
    places = {
        (size, way): at * (len(ways) + BETWEEN) + step
        for at, size in enumerate(sizes)
        for step, way in enumerate(ways)
    }
    for line, (colour, marker) in LINE_LOOKS.items():
        label: str | None = f"lines of {line}"
        for size in sizes:
            own = [r for r in rows if (r["line_entries"], r["cache_entries"]) == (line, size)]
            axes.plot(
                [places[size, row["ways"]] for row in own],
                [row["speed_up"] for row in own],
                color=colour,
                marker=marker,
                ms=5,
                lw=1.5,
                label=label,
            )
            label = None
    axes.set_xticks([*places.values()], [str(way) for _, way in places])
    axes.tick_params(axis="x", labelsize=9)
    for size in sizes:
        note(
            axes,
            f"{size // 1024} K",
            (places[size, ways[len(ways) // 2]], 0),
            (0, -22),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize=11,
        )
    top = max([static, *(row["speed_up"] for row in rows)])
    axes.set_ylim(0, RUNS_HEADROOM * top)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)


def draw_overheads(rows: Sequence[Row]) -> Figure:
    """Of each program the time of its best cache, and of C16 L64 A4, over that of static tables."""
    programs = by_application(rows)
    with styled():
        figure, [axes] = slide("Execution time, static tables 100", 1, 1)
        bars = {
            "best of the 36 caches": (-0.2, BLUE, [_best(own) for own in programs.values()]),
            "C16 L64 A4": (0.2, ORANGE, [_at(own, BEST) for own in programs.values()]),
        }
        for label, (aside, colour, found) in bars.items():
            heights = [100 + row["longer_percent"] for row in found]
            places = [place + aside for place in range(len(found))]
            axes.bar(places, heights, 0.38, color=colour, label=label)
            for place, height in zip(places, heights, strict=True):
                note(axes, f"{height:.1f}", (place, max(height, 100 + BOUND)), (0, 3), fontsize=10)
        axes.axhline(100, color=INK, lw=1)
        axes.axhline(
            100 + BOUND, color=VERMILION, lw=1.5, ls="--", label=f"{BOUND:g} % longer, as printed"
        )
        axes.set_xticks(range(len(programs)), [*programs])
        axes.tick_params(axis="x", labelsize=12)
        axes.set_ylabel("% of the time with static tables", color=INK)
        top = max(100 + row["longer_percent"] for _, _, found in bars.values() for row in found)
        axes.set_ylim(0, RUNS_HEADROOM * top)
        axes.grid(axis="y", color=FAINT, linewidth=0.8)
        legend(figure, axes, columns=3)
    return figure


def _best(rows: Sequence[Row]) -> Row:
    return min(rows, key=lambda row: row["seconds"])


def _at(rows: Sequence[Row], cache: tuple[int, int, int]) -> Row:
    axes = ("cache_entries", "line_entries", "ways")
    return next(row for row in rows if tuple(row[axis] for axis in axes) == cache)


def draw_penalties(rows: Sequence[Row]) -> Figure:
    """Miss delay and processing of each program in C16 L64 A4, beside the printed ranges."""
    programs = {name: _at(own, BEST) for name, own in by_application(rows).items()}
    with styled():
        figure, panels = slide("What a miss takes, in C16 L64 A4", 1, len(PRINTED_US))
        for axes, (kind, (low, high)) in zip(panels, PRINTED_US.items(), strict=True):
            axes.axvspan(max(low, SMALLEST_US), high, color=FAINT, lw=0, label="printed range")
            for place, row in enumerate(programs.values()):
                _box(axes, place, kind, row, is_first=place == 0)
            axes.set_yticks(range(len(programs)), [*programs])
            axes.set_ylim(len(programs) - 0.4, -0.6)
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axes.minorticks_off()
            axes.set_xlabel(f"{kind} (us)", color=INK)
            axes.tick_params(labelsize=11)
        panels[1].set_yticklabels([])
        legend(figure, panels[0], columns=4)
    return figure


def _box(axes: Axes, place: int, kind: str, row: Row, *, is_first: bool) -> None:
    """From the least to the most, thick for the middle half, a mark at the median."""
    if row[f"{kind}_p50_us"] is None:
        axes.annotate("no misses", (SMALLEST_US, place), va="center", fontsize=11, color=INK)
        return
    ends = {share: max(row[f"{kind}_p{share}_us"], SMALLEST_US) for share in (0, 25, 50, 75, 100)}
    labels = ("least to most", "middle half", "median") if is_first else (None,) * 3
    axes.plot([ends[0], ends[100]], [place] * 2, color=GREY, lw=2, marker="|", label=labels[0])
    axes.plot(
        [ends[25], ends[75]], [place] * 2, color=BLUE, lw=9, solid_capstyle="butt", label=labels[1]
    )
    axes.plot(ends[50], place, color=ORANGE, marker="D", ms=8, lw=0, label=labels[2])


EACH = {  # a figure for each application
    ("utlb", "figure8"): draw_prefetch,
    ("mini", "figure5"): draw_sweep,
}
ONE = {  # figure of all applications
    ("mini", "figure6"): draw_speed_ups,
    ("mini", "figure7"): draw_overheads,
    ("mini", "miss_penalty_of_programs"): draw_penalties,
}
TOGETHER = {("utlb", "figure7"): draw_breakdown}  # panels of some applications on each page


def draw_study(table: StudyTable) -> Iterator[tuple[str, Figure]]:
    """Yield (what to add to the file's name, figure) of each drawing; none for a mere table."""
    key = (table.paper, table.id)
    if key in TOGETHER:
        yield from TOGETHER[key](table)
    if key in ONE:
        yield "", ONE[key](table.rows)
    if key in EACH:
        for application, rows in by_application(table.rows).items():
            yield f"_{application}", EACH[key](application, rows)
