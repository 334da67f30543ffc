"""What the UTLB paper's text says of its tables of programs, held against rows of programs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Row, Shown
    from nicscope.studies.reproduce.verdict import Item, Outcome

SMALLEST, MIDDLE, LARGEST = 1024, 4096, 16384  # entries
# fmt: off
FREE_CHECKS = "check_misses_without_limit_per_lookup"
CHECKS, UNPINS = "check_misses_utlb_per_lookup", "unpins_utlb_per_lookup"
NI, INTR, INTR_UNPINS = (
    "ni_misses_utlb_per_lookup", "ni_misses_intr_per_lookup", "unpins_intr_per_lookup",
)
# fmt: on
FACTOR = 10**0.5  # half an order of magnitude
SHARE = 0.15  # by which a lookup may cost more with the smallest cache
CLOSE = 0.09  # misses per lookup
AS_PRINTED = 0.10  # the same of sorted rows
SELDOM = 0.25  # of the places of a table


def _apps(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["application"] for row in rows))


def _at(rows: Iterable[Row], application: str, **place: int) -> Row:
    [row] = [
        row
        for row in rows
        if row["application"] == application and all(row[key] == place[key] for key in place)
    ]
    return row


def _told(by_app: Mapping[str, Any]) -> str:
    """Evidence: each program with its numbers."""

    def words(value: Any) -> str:
        if isinstance(value, (tuple, list)):
            return " ".join(map(words, value))
        return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"

    return "; ".join(f"{app} {words(value)}" for app, value in by_app.items())


def _all(
    outcome: Outcome,
    name: str,
    by_app: Mapping[str, tuple[float, ...]],
    holds: Callable[..., bool],
) -> None:
    """The statement holds if it does for the numbers of every program."""
    outcome.shape(name, all(holds(*numbers) for numbers in by_app.values()), _told(by_app))


def state_table3(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 3's statements."""
    lookups = {row["application"]: row["communication_lookups"] for row in shown.rows}
    most = max(lookups, key=lambda app: lookups[app])
    outcome.shape("fft-communicates-most", most == "FFT", _told(lookups))
    if not shown.are_the_papers:
        return
    printed = shown.items["table3"].printed
    ratios = {
        app: (
            _at(shown.rows, app)["footprint_by_process_pages"] / pages,
            _at(shown.rows, app)["communication_lookups"] / many,
        )
        for app, pages, many in zip(
            printed["app"], printed["footprint_pages"], printed["lookups"], strict=True
        )
        if app in ("Raytrace", "Volrend", "Water")
    }
    _all(
        outcome,
        "order-of-magnitude",
        ratios,
        lambda *both: all(1 / FACTOR <= ratio <= FACTOR for ratio in both),
    )


class _Costs:
    """Section 6.2's two formulas, with the paper's constants (us)."""

    def __init__(self, items: Mapping[str, Item]) -> None:
        told, derived = items["table6"].printed, items["table6"].derived
        self._check = float(told["user_check_us"] + told["ni_check_us"])
        self._ni_check = float(told["ni_check_us"])
        self._pin, self._unpin = float(told["user_pin_us"]), float(told["user_unpin_us"])
        self._miss = float(items["table2"].printed["miss_us"][0])
        self._interrupt = float(told["interrupt_us"] + derived["kernel_pin_us"])
        self._kernel_unpin = float(derived["kernel_unpin_us"])

    def pinning(self, row: Row) -> float:
        """What pinning and unpinning cost by lookup."""
        return float(self._pin * row[CHECKS] + self._unpin * row[UNPINS])

    def utlb(self, row: Row) -> float:
        """A lookup by UTLB."""
        return self._check + self.pinning(row) + float(self._miss * row[NI])

    def intr(self, row: Row) -> float:
        """A lookup by interrupts."""
        misses, unpins = row[INTR], row[INTR_UNPINS]
        return self._ni_check + float(self._interrupt * misses + self._kernel_unpin * unpins)


def state_table4(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 4's statements."""
    costs, rows = _Costs(shown.items), shown.rows
    small = {app: _at(rows, app, cache_entries=SMALLEST) for app in _apps(rows)}
    large = {app: _at(rows, app, cache_entries=LARGEST) for app in small}
    pins = {app: (row[CHECKS], row[INTR]) for app, row in small.items()}
    fewer = all(utlb < intr for utlb, intr in pins.values())
    never_more = all(row[CHECKS] <= row[INTR] for row in rows)
    outcome.shape("fewer-pins", fewer and never_more, _told(pins))
    unpins = {app: (row[UNPINS], row[INTR_UNPINS]) for app, row in small.items()}
    _all(outcome, "fewer-unpins", unpins, lambda utlb, intr: utlb == 0 < intr)
    growth = {
        app: tuple(cost(small[app]) / cost(large[app]) - 1 for cost in (costs.utlb, costs.intr))
        for app in small
    }
    _all(outcome, "less-sensitive", growth, lambda utlb, intr: utlb < intr)
    utlbs = {app: (each,) for app, (each, _) in growth.items()}
    _all(outcome, "small-caches-work", utlbs, lambda utlb: utlb <= SHARE)
    _cheaper(outcome, "cheaper", small, costs)
    barnes = costs.utlb(large["Barnes"]), costs.intr(large["Barnes"])
    outcome.shape("not-always-cheaper", barnes[0] >= barnes[1], _told({"Barnes": barnes}))


def _cheaper(outcome: Outcome, name: str, rows: Mapping[str, Row], costs: _Costs) -> None:
    both = {app: (costs.utlb(row), costs.intr(row)) for app, row in rows.items()}
    _all(outcome, name, both, lambda utlb, intr: utlb < intr)


MOST = 4  # programs
HALF_AS_MUCH, A_TENTH = 1.5, 1.1


def state_table5(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 5's statements."""
    costs, rows = _Costs(shown.items), shown.rows
    small = {app: _at(rows, app, cache_entries=SMALLEST) for app in _apps(rows)}
    before = {app: (row[FREE_CHECKS], row[CHECKS], row[UNPINS]) for app, row in small.items()}
    rising = [app for app, (free, checks, unpins) in before.items() if checks > free or unpins]
    outcome.shape("pinning-rises", len(rising) >= MOST, _told(before))
    ratios = {app: before[app][1] / before[app][0] for app in ("FFT", "Barnes", "Water")}
    fft, *others = ratios.values()
    again = fft >= HALF_AS_MUCH and max(others) <= A_TENTH
    outcome.shape("fft-pins-anew", again, _told(ratios))
    fewer = {
        app: (row[CHECKS], row[INTR], row[UNPINS], row[INTR_UNPINS]) for app, row in small.items()
    }
    _all(outcome, "fewer-pins", fewer, lambda checks, ni, utlb, intr: checks < ni and utlb < intr)
    row = _at(rows, "FFT", cache_entries=LARGEST)
    numbers = row[CHECKS], row[INTR], row[UNPINS], row[INTR_UNPINS]
    not_fewer = row[INTR] <= row[CHECKS] and row[INTR_UNPINS] < row[UNPINS]
    outcome.shape("not-always-fewer", not_fewer, _told({"FFT": numbers}))
    _cheaper(outcome, "still-cheaper", small, costs)
    fft_row = small["FFT"]
    share = costs.pinning(fft_row) / costs.utlb(fft_row)
    outcome.shape("pinning-dominates", share > 1 / 2, _told({"FFT": share}))


MUCH_WORSE = 3


def state_table7(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 7's statements."""
    sums = {
        row["application"]: tuple(
            row[f"pin_{pages}_us_per_lookup"] + row[f"unpin_{pages}_us_per_lookup"]
            for pages in ("1_page", "16_pages")
        )
        for row in shown.rows
    }
    one, many = sums["FFT"]
    outcome.shape("fft-suffers", many >= MUCH_WORSE * one, _told({"FFT": (one, many)}))
    gaining = {app: sums[app] for app in ("Barnes", "LU", "Raytrace", "Water")}
    _all(outcome, "effective-for-most", gaining, lambda one, many: many < one)
    one, many = sums["Radix"]
    outcome.shape("radix-too", many > one, _told({"Radix": (one, many)}))


def state_table8(outcome: Outcome, shown: Shown) -> None:
    """Hold Table 8's statements."""
    rows = shown.rows
    offsets = {app: _extremes(rows, app, "direct_nohash", "direct")[0] for app in _apps(rows)}
    least = {app: (each,) for app, each in offsets.items()}
    _all(outcome, "offset-works", least, lambda gain: gain > 0)
    above = {
        app: tuple(-_extremes(rows, app, ways, "direct")[0] for ways in ("two_way", "four_way"))
        for app in offsets
    }
    _all(outcome, "direct-is-close", above, lambda two, four: max(two, four) <= CLOSE)
    lower = [
        row[_ni("direct")] < row[_ni(ways)] for row in rows for ways in ("two_way", "four_way")
    ]
    told = f"{sum(lower)} of {len(lower)} places"
    outcome.shape("seldom-lower", sum(lower) <= SELDOM * len(lower), told)
    if not shown.are_the_papers:
        return
    printed = shown.items["table8"].printed
    for name, key, theirs in (
        ("two-way", "two_way", "two_way"),
        ("four-way", "four_way", "four_way"),
        ("without-offset", "direct_nohash", "direct_without_offset"),
    ):
        off = {}
        for entries, cells in zip(printed["cache_entries"], printed[theirs], strict=True):
            ours = sorted(row[_ni(key)] for row in rows if row["cache_entries"] == entries)
            gaps = (one - float(other) for one, other in zip(ours, cells, strict=True))
            off[f"{entries // 1024} K"] = (max(gaps, key=abs),)
        _all(outcome, f"{name}-as-printed", off, lambda most: abs(most) <= AS_PRINTED)


def _ni(cache: str) -> str:
    return f"{cache}_ni_misses_per_lookup"


def _extremes(rows: Iterable[Row], app: str, more: str, less: str) -> tuple[float, float]:
    """The smallest and the largest of what one cache misses more than another, of all sizes."""
    gaps = [row[_ni(more)] - row[_ni(less)] for row in rows if row["application"] == app]
    return min(gaps), max(gaps)


def state_figure7(outcome: Outcome, shown: Shown) -> None:
    """Hold Figure 7's statements."""
    rows = shown.rows
    apps = _apps(rows)
    fall = {
        app: tuple(
            _at(rows, app, cache_entries=entries)[f"{kind}_per_lookup"]
            for kind in ("capacity", "conflict")
            for entries in (SMALLEST, LARGEST)
        )
        for app in apps
    }
    _all(
        outcome,
        "they-fall",
        fall,
        lambda cap, cap_late, con, con_late: (
            cap_late <= cap and con_late <= con and cap_late + con_late < cap + con
        ),
    )
    shares = {
        app: tuple(
            row["compulsory_per_lookup"] / row["ni_misses_per_lookup"]
            for row in rows
            if row["application"] == app and row["cache_entries"] >= MIDDLE
        )
        for app in apps
    }
    _all(outcome, "compulsory-majority", shares, lambda *each: min(each) >= 1 / 2)
    first = {}
    for app in ("Barnes", "Water"):
        row = _at(rows, app, cache_entries=SMALLEST)
        first[app] = (row["compulsory_per_lookup"] / row["ni_misses_per_lookup"],)
    _all(outcome, "not-always-the-majority", first, lambda share: share < 1 / 2)


def state_figure8(outcome: Outcome, shown: Shown) -> None:
    """Hold Figure 8's statements, which are of Radix."""
    radix = [row for row in shown.rows if row["application"] == "Radix"]
    for name, measure in (
        ("misses-fall", "ni_misses_per_lookup"),
        ("cost-falls", "cost_us_per_lookup"),
    ):
        by_size: dict[str, list[float]] = {}
        for row in radix:
            by_size.setdefault(f"{row['cache_entries'] // 1024} K", []).append(row[measure])
        falling = {size: tuple(values) for size, values in by_size.items()}
        _all(outcome, name, falling, lambda *each: all(b < a for a, b in pairwise(each)))


def state_independent(outcome: Outcome, shown: Shown) -> None:
    """Hold what is said of independent programs on one NIC."""
    both = {
        _size(row): (row["misses_alone_per_lookup"], row["misses_together_per_lookup"])
        for row in shown.rows
    }
    _all(outcome, "they-disturb-each-other", both, lambda alone, together: together > alone)
    offset = {
        _size(row): (row["misses_together_per_lookup"], row["without_offset_together_per_lookup"])
        for row in shown.rows
    }
    _all(outcome, "offset-keeps-them-apart", offset, lambda having, without: having < without)


def _size(row: Row) -> str:
    return f"{row['cache_entries'] // 1024} K"


def state_per_process(outcome: Outcome, shown: Shown) -> None:
    """Hold what is said of tables per process against the shared cache."""
    rows = [row for row in shown.rows if row["per_process_entries"] is not None]
    misses = {
        app: max(
            row["ni_misses_per_process_per_lookup"] for row in rows if row["application"] == app
        )
        for app in _apps(rows)
    }
    outcome.shape("tables-never-miss", not any(misses.values()), _told(misses))
    small = {app: _at(rows, app, cache_entries=SMALLEST) for app in ("FFT", "LU", "Radix")}
    unpins = {
        app: (row["unpins_shared_per_lookup"], row["unpins_per_process_per_lookup"])
        for app, row in small.items()
    }
    _all(
        outcome,
        "large-footprints-need-the-cache",
        unpins,
        lambda shared, own: shared == 0 < own,
    )
    costs = (
        small["FFT"]["cost_shared_us_per_lookup"],
        small["FFT"]["cost_per_process_us_per_lookup"],
    )
    outcome.shape("and-cost-more", costs[1] > costs[0], _told({"FFT": costs}))
