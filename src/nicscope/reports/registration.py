"""Registering at RDMA NICs: times, costs of this machine, caches, plans, why large is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Note, Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of, table_of_rows, tidy
from nicscope.reports.wording import (
    between,
    byte_size,
    evidence_classes,
    in_words,
    listed,
    of_trace,
    significant,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.config.costs import Span
    from nicscope.studies.host_costs import HostReport, Measured
    from nicscope.studies.registering import (
        CacheReport,
        Library,
        Plan,
        PlanReport,
        Pool,
        RegionSizes,
        RegisterReport,
        Registration,
        Setting,
        Threshold,
        ThresholdReport,
        Used,
    )

LEAST_SHOWN_S = 0.001  # seconds
MATTERS = 0.05  # of the time, that joining regions has to save to be worth telling
_JOINED = {
    "none": "each line by itself",
    "exact": "what is listed twice once",
    "range": "what touches or overlaps as one range",
}
_TIMES_ON_THE_MACHINE = (
    "On the machine: the time around ibv_reg_mr; rdma resource show mr (regions, mrlen); "
    "icm_consumption of devlink's vnic reporter (the tables, in units of 4 KiB)."
)


class ShownRegistrations(Report):
    """Pools and their registration times."""

    found: RegisterReport
    topic = "register"
    drawn: ClassVar = {"registrations": "rdma.draw_times", "parts": "rdma.draw_parts"}

    def summary(self) -> list[str]:
        """What the first way takes, what the shortest does, and where most of the time goes."""
        every = self.found.found
        first, best = every[0], min(every, key=lambda each: each.total.high)
        told = [*_joining_advice(every)]
        told += [
            f"{_pool_in_words(first.pool)} takes {spelt_seconds(first.total)}, {_mostly(first)}."
        ]
        if best is not first:
            other = _differences_from_first(best.pool, first.pool)
            told.append(f"The shortest is {other}: {spelt_seconds(best.total)}.")
        if best.pool.touched and not first.pool.touched:
            told.append("Touching it before takes that time too, but off the critical path.")
        beyond = {text: None for one in every for text in one.beyond}
        return [*told, *(f"Beyond a limit: {each}." for each in beyond)]

    def parts(self) -> Iterator[Printed]:
        """A table: each way."""
        pool = self.found.found[0].pool
        yield heading(
            f"{byte_size(pool.byte_count)} in {in_words(len(pool.regions), 'region')}, "
            f"costs {self.found.costs.name}: {self.found.costs.title}"
        )
        yield registration_rows(self.found)
        if self.found.costs.not_applicable:
            absent = [*self.found.costs.not_applicable]
            yield remark(f"Not applicable here: {listed(absent)}.")
        yield remark(
            f"Costs: {self.found.costs.name!r} ({evidence_classes(self.found.costs.origins)})."
        )
        if told := _extrapolated(self.found):
            yield remark(told)
        yield remark(_TIMES_ON_THE_MACHINE)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way."""
        import pyarrow as pa

        rows = []
        for each in self.found.found:
            pool = each.pool
            row: dict[str, Any] = {
                "page_size_bytes": pool.page,
                "registration_cache": pool.cache,
                "nics": pool.nics,
                "threads": pool.threads,
                "nics_at_once": pool.at_once,
                "touched": pool.touched,
                "pool_bytes": pool.byte_count,
                "pool_regions": len(pool.regions),
                "pool_pages": pool.pages,
                "table_bytes": each.table_bytes,
            }
            spans = {**each.parts, "total": each.total, "deregister": each.deregister}
            for name, span in spans.items():
                key = f"register_{name.lower()}_s"
                row[f"{key}_low"], row[f"{key}_high"] = span
            rows.append(row)
        yield "registrations", pa.Table.from_pylist(rows)


def registration_rows(found: RegisterReport) -> Rows:
    """A row for each way."""
    cached = {one.pool.cache for one in found.found} != {"none"}
    return rows_of(
        "Seconds",
        found.found,
        {
            **({"cache": lambda one: one.pool.cache} if cached else {}),
            "page": lambda one: byte_size(one.pool.page),
            "regions": lambda one: whole(len(one.pool.regions)),
            "NICs": lambda one: f"{one.pool.nics}{' at once' if one.pool.at_once else ''}",
            "threads": lambda one: whole(one.pool.threads),
            "touched": lambda one: "yes" if one.pool.touched else "no",
            "table": lambda one: byte_size(one.table_bytes),
            "touching": lambda one: _span(one.parts["touching"]),
            "pinning": lambda one: _span(one.parts["pinning"]),
            "entering": lambda one: _span(one.parts["NICs"]),
            "other": lambda one: _other(one),
            "in all": lambda one: _span(one.total),
            "deregister": lambda one: _span(one.deregister),
        },
        words=("page", "NICs", "touched", "cache"),
        key=5 + cached,
        least=("deregister", "table", "other", "pinning", "touching", "entering"),
    )


def _other(one: Registration) -> str:
    low = one.parts["regions"].low + one.parts["backlog"].low
    high = one.parts["regions"].high + one.parts["backlog"].high
    return _ends(low, high)


def _span(span: Span) -> str:
    return _ends(span.low, span.high)


def _ends(low: float, high: float) -> str:
    """Seconds; empty where not applicable, small values without digits."""
    if not high:
        return ""
    first, last = (significant(end) if end >= LEAST_SHOWN_S else "<0.001" for end in (low, high))
    return first if first == last else f"{first}–{last}"  # noqa: RUF001 - from, to


def spelt_seconds(span: Span) -> str:
    """Seconds, or milliseconds where they are less than one."""
    if span.high < 1:
        first, last = significant(1000 * span.low), significant(1000 * span.high)
        unit = "ms"
    else:
        first, last, unit = significant(span.low), significant(span.high), "s"
    return f"{first} {unit}" if first == last else f"{first} to {last} {unit}"


def _pool_in_words(pool: Pool) -> str:
    nics = in_words(pool.nics, "NIC")
    order = "" if pool.nics == 1 else ", all at once" if pool.at_once else ", one after the other"
    there = "touched before" if pool.touched else "never touched"
    return (
        f"Registering {byte_size(pool.byte_count)} in pages of {byte_size(pool.page)}, {there}, at "
        f"{nics}{order}, with {in_words(pool.threads, 'thread')}"
    )


def _mostly(one: Registration) -> str:
    doing = {
        "regions": "the calls themselves",
        "touching": "touching the memory",
        "pinning": "pinning",
        "NICs": "entering it into the NICs' tables",
        "backlog": "what is registered already",
    }
    most = dict.fromkeys(max(one.parts, key=lambda part: one.parts[part][end]) for end in (0, 1))
    return f"most of it for {' or '.join(doing[name] for name in most)}"


def _joining_advice(every: list[Registration]) -> Iterator[str]:
    """Whether joining the list's regions pays, where both were asked for."""
    caches = list(dict.fromkeys(one.pool.cache for one in every))
    if len(caches) < 2:
        return
    alike = every[0].pool._replace(regions=(), cache="")
    ways = [one for one in every if one.pool._replace(regions=(), cache="") == alike]
    worst = max(ways, key=lambda one: one.total.high)
    best = min(ways, key=lambda one: (one.total.high, len(one.pool.regions)))
    saves = worst.total.high - best.total.high > MATTERS * worst.total.high
    much, little = (in_words(len(one.pool.regions), "region") for one in (worst, best))
    if saves:
        yield (
            f"Register {_JOINED[best.pool.cache]}: {little} {_takes(best)} "
            f"{spelt_seconds(best.total)}, {much} {spelt_seconds(worst.total)}."
        )
    else:
        yield (
            f"How regions are joined hardly matters here: {little} {_takes(best)} "
            f"{spelt_seconds(best.total)}, {much} {spelt_seconds(worst.total)}."
        )


def _takes(one: Registration) -> str:
    return "takes" if len(one.pool.regions) == 1 else "take"


def _extrapolated(found: RegisterReport) -> str:
    """Which options exceed the range of the measured costs, in a sentence."""
    words = {
        "nics": lambda most: in_words(most, "NIC"),
        "threads": lambda most: in_words(most, "thread"),
        "page": lambda most: f"pages of {byte_size(most)}",
    }
    named = {key: None for one in found.found for key in one.extrapolated}
    if not named:
        return ""
    measured = {key: most for one in found.found for key, most in one.measured.items()}
    those = listed([words[key](measured[key]) for key in words if key in named])
    told = f"Extrapolated: costs are known of up to {those}."
    if "page" in named:
        told += (
            " A larger page is taken at the price of such a one, and pinning it takes up to as "
            "long as pinning all of these in it."
        )
    if {"nics", "threads"} & {*named}:
        told += " Of more, low ends go on in proportion, high ends gain nothing."
    return told


def _differences_from_first(pool: Pool, first: Pool) -> str:
    """The options in which a pool differs from the first."""
    told = []
    if len(pool.regions) != len(first.regions):
        told.append(in_words(len(pool.regions), "region"))
    if pool.page != first.page:
        told.append(f"pages of {byte_size(pool.page)}")
    if pool.nics != first.nics:
        told.append(in_words(pool.nics, "NIC"))
    if pool.touched != first.touched:
        told.append("memory touched before" if pool.touched else "memory never touched")
    if pool.threads != first.threads:
        told.append(in_words(pool.threads, "thread"))
    if pool.at_once != first.at_once:
        told.append("all NICs at once" if pool.at_once else "one NIC after the other")
    return listed(told)


class ShownThresholds(Report):
    """The sizes below which copying takes less than registering."""

    found: ThresholdReport
    topic = "copy"

    def summary(self) -> list[str]:
        """What the first way says, and how far reuse and larger pages move it."""
        every = self.found.found
        told = [f"{_advice(every[0])}, {_way_in_words(every[0])}."]
        if None not in (every[0].copy_below, every[0].register_from):
            told.append("Between these sizes the known ranges of costs overlap.")
        best = min(every, key=lambda one: (one.register_from is None, one.register_from or 0))
        if best is not every[0] and best.register_from is not None:
            told.append(f"{_advice(best)}, {_way_in_words(best)}.")
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each way."""
        costs = self.found.costs
        yield heading(f"costs {costs.name}: {costs.title}")
        yield threshold_rows(self.found)
        yield remark(f"Registering: {costs.name!r} ({evidence_classes(costs.origins)}).")
        yield remark(f"Copying: {evidence_classes(costs.copying_origins)}.")
        yield remark(
            "On the machine: UCX_ZCOPY_THRESH, and UCX_PROTO_INFO=y, which prints where UCX "
            "changes; rdma cache has how often a trace's buffers are found registered."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way."""
        columns: dict[str, Column] = {
            "page_size_bytes": ("int64", "page"),
            "transfers_per_registration": ("int64", "reuse"),
            "nics": ("int64", "nics"),
            "copy_below_bytes": ("int64", "copy_below"),
            "register_from_bytes": ("int64", "register_from"),
            "copying_us_low": ("float64", "copying_us.low"),
            "copying_us_high": ("float64", "copying_us.high"),
            "registering_us_low": ("float64", "registering_us.low"),
            "registering_us_high": ("float64", "registering_us.high"),
        }
        yield "thresholds", table_of(self.found.found, columns)


def threshold_rows(found: ThresholdReport) -> Rows:
    """A row for each way."""
    several = len({one.nics for one in found.found}) > 1
    return rows_of(
        "By page and reuse",
        found.found,
        {
            "page": lambda one: byte_size(one.page),
            **({"NICs": lambda one: whole(one.nics)} if several else {}),
            "reuse": lambda one: whole(one.reuse),
            "copy below": lambda one: _size_or(one.copy_below, "any size"),
            "register from": lambda one: _size_or(one.register_from, "never"),
            "1 MiB copied": lambda one: between(*one.copying_us),
            "1 MiB registered": lambda one: between(*one.registering_us),
        },
        words=("page", "copy below", "register from"),
        key=2 + several,
        least=("1 MiB copied", "1 MiB registered"),
    )


def _size_or(size: int | None, otherwise: str) -> str:
    return otherwise if size is None else byte_size(size)


def _advice(one: Threshold) -> str:
    if one.copy_below is None:
        return "Copy, whatever the size"
    if one.register_from is None:
        return f"Copy below {byte_size(one.copy_below)}, and maybe beyond"
    below, beyond = byte_size(one.copy_below), byte_size(one.register_from)
    return f"Copy below {below} and register from {beyond} on"


def _way_in_words(one: Threshold) -> str:
    at = "" if one.nics == 1 else f" at {in_words(one.nics, 'NIC')}"
    used = "once" if one.reuse == 1 else f"{whole(one.reuse)} times"
    return f"with pages of {byte_size(one.page)} and each registration{at} used {used}"


_KEPT = {"regions": "kept_regions", "bytes": "kept_bytes"}
ON_THE_MACHINE = (
    "On the machine: rdma resource show mr (regions, and their mrlen), once and again; "
    "UCX_RCACHE_MAX_REGIONS and FI_MR_CACHE_MAX_COUNT set these limits. Whether a buffer that was "
    "given back and mapped anew is found stale is not in a trace of requests."
)
MANY_REGISTER = 1.0  # percent of requests that register


class ShownCaches(Report):
    """Registration caches over one trace."""

    found: CacheReport
    topic = "rcache"
    drawn: ClassVar = {"caches": "rdma.draw_caches"}

    def summary(self) -> list[str]:
        """Which cache registers least, and whether any of them thrashes."""
        used = self.found.used
        best = min(used, key=lambda each: (each.us_high, each.counts["most_bytes"]))
        told = [
            f"{_library_in_words(best.library).capitalize()} costs least: {_share(best)} of "
            "requests find their buffer registered, for "
            f"{byte_size(best.counts['most_bytes'])} kept registered."
        ]
        thrashing = [each for each in used if _thrashes(each)]
        if thrashing:
            worst = max(thrashing, key=lambda each: each.us_high)
            told.append(
                f"{_library_in_words(worst.library).capitalize()} thrashes: it registers "
                f"{in_words(worst.counts['registrations'], 'time')} and deregisters "
                f"{whole(worst.deregistrations)}."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each cache."""
        trace = self.found.trace
        yield heading(f"{of_trace(trace)}, {self.found.processes:,} with a cache each")
        yield cache_rows(self.found)
        yield remark(
            f"us per request: a lookup and what registering takes, by the costs "
            f"{self.found.costs.name!r} ({evidence_classes(self.found.costs.origins)})."
        )
        yield remark(ON_THE_MACHINE)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each cache."""
        rows = (
            {
                "policy": each.library.policy,
                "alignment_bytes": each.library.alignment,
                "regions_limit": each.library.entries,
                "bytes_limit": each.library.most_bytes,
                **{_KEPT.get(name, name): count for name, count in each.counts.items()},
                "registration_us_low": each.us_low,
                "registration_us_high": each.us_high,
            }
            for each in self.found.used
        )
        yield "caches", table_of_rows(rows, words=("policy",))


def cache_rows(found: CacheReport) -> Rows:
    """A row for each cache."""
    return rows_of(
        "By cache",
        found.used,
        {
            "policy": lambda one: one.library.policy,
            "limit": lambda one: "" if one.library.entries is None else whole(one.library.entries),
            "found": _share,
            "registered": lambda one: whole(one.counts["registrations"]),
            "dropped": lambda one: whole(one.deregistrations),
            "regions": lambda one: whole(one.counts["most_regions"]),
            "kept": lambda one: byte_size(one.counts["most_bytes"]),
            "us per request": lambda one: between(one.us_low, one.us_high),
        },
        words=("policy",),
        key=2,
        grouped=True,
        least=("regions", "dropped"),
    )


def _share(one: Used) -> str:
    return f"{one.hit_percent:.1f} %"


def _library_in_words(library: Library) -> str:
    limit = "" if library.entries is None else f" of at most {library.entries:,} regions"
    return (
        f"a cache with {library.policy} keys{limit}"
        if library.policy != "merge"
        else (f"a cache that merges{limit}")
    )


def _thrashes(one: Used) -> bool:
    """Whether much of what it registers had been registered before."""
    counts = one.counts
    return (
        counts["evicted"] > counts["most_regions"]
        and counts["registrations"] * 100 > MANY_REGISTER * counts["lookups"]
    )


_LIMITED = {"region_bytes": "bytes of a region", "entries": "entries of a NIC"}


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
            "at most": lambda one: _LIMITED[one[0]],
            "number": lambda one: (
                byte_size(one[1].most) if one[0] == "region_bytes" else whole(one[1].most)
            ),
            "evidence": lambda one: one[1].origin.evidence.value,
            "source": lambda one: one[1].origin.source,
        },
        words=("at most", "evidence", "source"),
    )


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
            told = [f"Predicted slow by {listed(slow)}." if slow else "Predicted fast by all."]
        elif not explaining:
            told = ["No hypothesis predicts the difference."]
        else:
            names = listed([f"{one.title} ({one.name})" for one in explaining])
            verb = "predict" if len(explaining) > 1 else "predicts"
            told = [f"{names[0].upper()}{names[1:]} {verb} the difference."]
            if likeliest is not None:
                alone = ", the only one not assumed" if len(explaining) > 1 else ""
                most = f"The most likely cause is {likeliest.title} ({likeliest.name}){alone}"
                told.insert(0, f"{most}. Remedy: {likeliest.cure}.")
        if found.tests and len(explaining) > 1:
            tests = listed([f"{one.told} ({_said(found, one)})" for one in found.tests])
            told.append(f"Tests that tell them apart: {tests}.")
        if found.lost_us is not None:
            told.append(f"The measured loss is {significant(found.lost_us)} us for each 4 KiB.")
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


COST_FILE = "registration.toml"
_UNMEASURED = {
    "huge": "huge pages on advice",
    "reserved": "reserved huge pages",
    "pinning": "pinning",
    "huge_pinning": "pinning huge pages",
    "mapping": "mapping",
    "copying": "copying",
}


class ShownHost(Report):
    """Measurements of this machine, and the registration costs derived from them."""

    found: HostReport
    topic = "host"

    def summary(self) -> list[str]:
        """What a page takes, what huge pages save, what was not allowed."""
        found = self.found.measured
        touch = found["touch"]
        told = [f"The first touch of a page takes {significant(touch.median)} us here"]
        if pin := found.get("pin"):
            told[0] += f", pinning one {significant(pin.median)} us"
        told[0] += "."
        if huge := found.get("touch huge"):
            told.append(f"That of a huge page takes {significant(huge.median)} us.")
        for name, why in self.found.refused.items():
            told.append(f"Not measured: {_UNMEASURED[name]}, as {why}.")
        return told

    def parts(self) -> Iterator[Printed]:
        """Tables: what was measured, and the costs for ``register``."""
        machine = self.found.machine
        yield heading(f"{machine['processor']}, {machine['kernel']}")
        yield measurement_rows(self.found)
        yield cost_rows(self.found)
        yield Note(
            f"Costs as a file: {COST_FILE} in the folder of --out; then nicscope rdma register "
            f"1TiB --costs DIR/{COST_FILE}."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each measurement."""
        columns: dict[str, Column] = {
            "measurement": ("string", "name"),
            "of_bytes": ("int64", "each_bytes"),
            "us_low": ("float64", "span.low"),
            "us_median": ("float64", "median"),
            "us_high": ("float64", "span.high"),
            "rounds": ("int64", "rounds"),
        }
        yield "host", table_of(self.found.measured.values(), columns)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Beside the table, the costs as ``register`` reads them."""
        from nicscope.config.costs import registration_file

        yield from super().files()
        yield COST_FILE, registration_file(self.found.costs)


def measurement_rows(found: HostReport) -> Rows:
    """A row for each measurement."""
    from nicscope.studies.host_costs import MEANINGS

    def per_gib(one: Measured) -> str:
        if not one.each_bytes:
            return ""
        return significant(one.median / one.each_bytes * (1 << 30) / 1000)

    return rows_of(
        "Microseconds",
        found.measured.values(),
        {
            "what": lambda one: one.name,
            "of": lambda one: MEANINGS[one.name],
            "from": lambda one: significant(one.span.low),
            "median": lambda one: significant(one.median),
            "to": lambda one: significant(one.span.high),
            "ms per GiB": per_gib,
            "rounds": lambda one: whole(one.rounds),
        },
        words=("what", "of"),
        least=("rounds", "of", "ms per GiB"),
    )


def cost_rows(found: HostReport) -> Rows:
    """A row for each cost of registration."""
    from nicscope.config.costs import REGISTRATION_COSTS, page_name

    def spelt(name: str, span: Span) -> str:
        factor = float(next(iter(REGISTRATION_COSTS[name][1].values())))
        return between(span.low / factor, span.high / factor)

    return rows_of(
        "Costs of registration",
        [
            *((name, name, span) for name, span in found.costs.costs.items()),
            *(
                (f"{name} of {page_name(size)}", name, span)
                for size, spans in found.costs.pages.items()
                for name, span in spans.items()
            ),
        ],
        {
            "cost": lambda one: one[0],
            "of": lambda one: REGISTRATION_COSTS[one[1]][0],
            "value": lambda one: spelt(*one[1:]),
            "unit": lambda one: next(iter(REGISTRATION_COSTS[one[1]][1])),
            "evidence": lambda one: found.costs.origins[one[0]].evidence.value,
        },
        words=("cost", "of", "unit", "evidence"),
        least=("of",),
    )
