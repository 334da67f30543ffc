"""Every number that ``size`` prints, recomputed from a replay's counts and prices."""

import json
import re

import numpy as np
import pytest
from counted_anew import PLATFORMS, ROWS, Counted, assert_same, same
from trace_files import write

from nicscope.config.design import load_design, with_settings
from nicscope.reports.size import (
    best_rows,
    memory_rows,
    page_remarks,
    page_rows,
    part_rows,
    ranked_alike,
    remarks_on,
    target_rows,
)
from nicscope.reports.wording import byte_size, per_hundred, significant, whole
from nicscope.studies.size_search import report
from nicscope.studies.sizing import ask
from nicscope.traces.reader import open_trace
from recomputed import recomputed

QUICK = ("utlb-prototype", "linux-host")  # without the compiler


def cases(*platforms):
    """One for each, without the compiler if it is soon over."""
    return [
        pytest.param(one, marks=() if one in QUICK else pytest.mark.compiled) for one in platforms
    ]


@pytest.fixture(scope="module", params=cases(*PLATFORMS, None))
def sized(request, tmp_path_factory):
    """(platform, trace, sizing, report) of a small trace."""
    file = write(tmp_path_factory.mktemp("sized") / "t.parquet", count=ROWS // 2)
    question = ask(
        "512B",
        platform=request.param,
        target_us=None if request.param is None else 4.0,
        page_sizes="4KiB,64KiB,2MiB",
    )
    trace = open_trace(file)
    found = report([("t.parquet", trace)], question)
    return request.param, trace, found.sizings[0], found


def counted_anew(trace, answer, point, platform):
    """``point`` of ``answer``, replayed by its settings and priced from the platform's file."""
    settings_given = [f"{key}={text}" for key, text in point.settings]
    design = with_settings(load_design(answer.design), settings_given)
    return Counted(trace, design, platform or design.platform)


def test_every_number_of_the_best_designs_follows_from_counts_and_prices(sized):
    platform, trace, sizing, found = sized
    for answer, cells in zip(sizing.answers, best_rows(sizing, found).cells, strict=True):
        if answer.best is None:
            assert set(cells[2:]) == {"-"}
            continue
        one = counted_anew(trace, answer, answer.best, platform)
        star = "*" * bool(one.total["rejected"])
        expected = [
            byte_size(one.nic_bytes),
            byte_size(max(one.pinned)),
            whole(one.total["ni_misses"]) + star,
            per_hundred(100 * one.total["ni_misses"] / one.total["lookups"]) + star,
            (one.us(one.total["lookups"]) or "unknown") + star,
        ]
        assert_same(cells[2:], expected)


def measured(trace, answer, point, platform):
    """What is to be small of ``point``: (as it is printed, as a number, requests turned away)."""
    if point is None:
        return "-", None, 0
    one = counted_anew(trace, answer, point, platform)
    lookups, star = one.total["lookups"], "*" * bool(one.total["rejected"])
    if answer.by_cost:
        assert one.has_whole_price
        value = one.cost.high / lookups
        return significant(value) + star, value, one.total["rejected"]
    value = one.total["ni_misses"] / lookups
    return per_hundred(100 * value) + star, value, one.total["rejected"]


def change(before, after):
    if None in (before[1], after[1]) or before[2] != after[2]:
        return "-"
    if before[1] == pytest.approx(after[1], rel=1e-12):
        return "same"
    if not before[1]:
        return "more"
    percent = 100 * (after[1] - before[1]) / before[1]
    if abs(percent) < 0.1:
        return "+<0.1 %" if percent > 0 else "-<0.1 %"
    return f"{percent:+.1f} %" if abs(percent) < 1000 else f"x {after[1] / before[1]:,.0f}"


def test_every_number_of_what_memory_buys_follows_from_counts_and_prices(sized):
    platform, trace, sizing, found = sized
    seen = []
    for answers in ranked_alike(sizing):
        rows = memory_rows(answers, found)
        assert rows.headings[1:4] == ["256 B", "512 B", "1 KiB"]
        for answer, cells in zip(answers, rows.cells, strict=True):
            seen.append(cells[0])
            half, best, double = (
                measured(trace, answer, point, platform)
                for point in (answer.half, answer.best, answer.double)
            )
            larger, knee = (
                "none is better"
                if where is None and place == 0
                else "none"
                if where is None
                else f"{byte_size(counted_anew(trace, answer, where, platform).nic_bytes)}: "
                f"{measured(trace, answer, where, platform)[0]}"
                for place, where in enumerate((answer.larger, answer.knee))
            )
            changes = [change(best, half), change(best, double)]
            assert_same(cells[1:], [half[0], best[0], double[0], *changes, larger, knee])
    assert sorted(seen) == sorted(answer.scheme.value for answer in sizing.answers)


def test_every_part_of_a_cost_follows_from_counts_and_prices(sized):
    platform, trace, sizing, found = sized
    rows = {cells[0]: cells[1] for cells in part_rows(sizing, found).cells}
    for answer in sizing.answers:
        if answer.best is None:
            continue
        one = counted_anew(trace, answer, answer.best, platform)
        parts = rows[answer.scheme.value].split(", ")
        priced = [part.split(" ", 1)[1].rstrip("*") for part in parts if part[-1] != "?"]
        if parts == ["nothing that has a price"]:
            priced = []
        lookups = one.total["lookups"]
        ends = sorted(one.cost.parts, key=lambda part: -part[1])
        texts = [[significant(end / lookups) for end in part] for part in ends if part[1]]
        assert_same(priced, [low if low == high else f"{low} to {high}" for low, high in texts])
        assert sum(part[-1] == "?" for part in parts) >= bool(one.cost.missing)


@pytest.mark.parametrize("sized", cases(*PLATFORMS), indirect=True)  # a target needs costs
def test_every_target_follows_from_counts_and_prices(sized):
    platform, trace, sizing, found = sized
    for answer, cells in zip(sizing.answers, target_rows(sizing, found).cells, strict=True):
        if not answer.by_cost:
            assert cells[1] == "unknown"
            continue
        steps = [counted_anew(trace, answer, step, platform) for step in answer.steps]
        able = [one for one in steps if not one.total["rejected"]]
        means = {one.nic_bytes: one.cost.high / one.total["lookups"] for one in able}
        met = [size for size, us in means.items() if us <= 4.0]
        if met:
            assert cells[1] == byte_size(min(met))
            assert same(cells[2].rpartition(": ")[2], significant(means[min(met)]))
        else:
            assert cells[1] == "none"
            assert same(cells[2].split()[1], significant(min(means.values())))


def test_every_number_of_the_page_sizes_follows_from_counts_and_prices(sized):
    platform, trace, sizing, found = sized
    prices = platform or "linux-host"
    misses = {}
    for one, cells in zip(sizing.page_sizes, page_rows(sizing, found).cells, strict=True):
        size = [f"page_size={one.page_size}"]
        table = Counted(
            trace,
            with_settings(load_design("vmmc-static"), [f"entries={one.entries}", *size]),
            prices,
        )
        given_settings = [f"{key}={text}" for key, text in one.cache.settings]
        cache = Counted(trace, with_settings(load_design("utlb"), given_settings), prices)
        misses[one.page_size] = cache.total["ni_misses"]
        pinned = recomputed_registration(table, prices)
        times = [
            f"{significant(us)} us" if us < 1000 else f"{significant(us / 1000)} ms"
            for us in pinned
        ] or ["unknown"]
        expected = [
            byte_size(one.page_size),
            whole(cache.total["lookups"]),
            whole(max(table.pinned) // one.page_size),
            byte_size(table.nic_bytes),
            byte_size(max(table.pinned)),
            times[0],
            whole(cache.total["ni_misses"]),
            per_hundred(100 * cache.total["ni_misses"] / cache.total["requests"]),
            cache.us() or "unknown",
        ]
        assert_same(cells[:-1], expected)
        assert table.total["rejected"] == 0
        assert cache.nic_bytes <= 512
    lines = " ".join(page_remarks(sizing))
    least = min(misses, key=lambda size: (misses[size], size))
    assert f"fewest misses in all: {whole(misses[least])} with {byte_size(least)} pages" in lines
    assert sizing.to_json()["page_size_of_fewest_misses"] == least
    touched = max(touched_bytes(trace).values())
    for one in sizing.page_sizes:
        beyond = f"{byte_size(one.page_size)} pages pin {byte_size(one.pinned_bytes)}"
        assert (beyond in lines) == (one.pinned_bytes > touched)
        if one.pinned_bytes > touched:
            times = significant(one.pinned_bytes / touched)
            assert f"{beyond}, {times} times the {byte_size(touched)} in use" in lines


def recomputed_registration(table, platform):
    """Microseconds of the calls that register, which the table's cost has as one term."""
    cost = recomputed(table.total, "static", platform)
    if "user_pin" in cost.missing:
        return []
    return [cost.parts[-1][0]]


def touched_bytes(trace):
    """Bytes of the pages that each host touches."""
    pages = {}
    requests = trace.read()
    for node, pid, address, length in zip(
        requests.node, requests.pid, requests.address, requests.length, strict=True
    ):
        first, last = int(address) // 4096, (int(address) + int(length) - 1) // 4096
        pages.setdefault(int(node), set()).update(
            (int(pid), page) for page in range(first, last + 1)
        )
    return {node: 4096 * len(found) for node, found in pages.items()}


def test_every_number_of_the_remarks_follows_from_counts_and_prices(sized):
    platform, trace, sizing, found = sized
    lines = remarks_on(sizing, found)
    counted = {
        answer.scheme.value: counted_anew(trace, answer, answer.best, platform)
        for answer in sizing.answers
        if answer.best is not None
    }
    touched = max(touched_bytes(trace).values())
    beyond = {name: max(one.pinned) for name, one in counted.items() if max(one.pinned) > touched}
    told = [line for line in lines if line.startswith("pinned beyond")]
    assert bool(told) == bool(beyond)
    for name, pinned in beyond.items():
        assert f"{name} {byte_size(pinned)}" in told[0]
        assert f"the {byte_size(touched)} in use" in told[0]
    for line in lines:
        rests = re.fullmatch(r"(\S+): (\d+) % of its cost rests on .*", line)
        cheapest = re.match(r"cheapest of those .*: (\S+), (.*) us per lookup", line)
        if rests:
            assert 0 <= int(rests[2]) <= 100
        if cheapest:
            one = counted[cheapest[1]]
            assert same(cheapest[2], one.us(one.total["lookups"]))
            able = {
                name: other.cost.high
                for name, other in counted.items()
                if other.has_whole_price and not other.total["rejected"]
            }
            by_cost = {answer.scheme.value for answer in sizing.answers if answer.by_cost}
            best = min(cost for name, cost in able.items() if name in by_cost)
            assert one.cost.high == pytest.approx(best)
    assert any(line.startswith("cheapest of those") for line in lines) == (platform is not None)


def test_the_json_of_a_sizing_has_the_numbers_of_the_text(sized, capsys):
    platform, trace, sizing, _ = sized
    told = json.loads(json.dumps(sizing.to_json()))
    requests = trace.read()
    assert told["requests"] == len(requests.length)
    assert told["requested_bytes"] == requests.length.sum(dtype=np.int64)
    assert told["touched_bytes_of_fullest_host"] == max(touched_bytes(trace).values())
    for answer, plain in zip(sizing.answers, told["families"], strict=True):
        if answer.best is None:
            continue
        one = counted_anew(trace, answer, answer.best, platform)
        best = plain["best"]
        assert best["ni_misses"] == one.total["ni_misses"]
        assert best["misses_per_request"] == one.total["ni_misses"] / one.total["requests"]
        assert bool(plain["not_priced"]) == bool(one.cost.missing)
        if one.us() is None:
            assert best["us"] is best["us_per_request"] is best["us_per_lookup"] is None
            assert best["cost_bound"] is None
            continue
        assert (best["cost_bound"] == "at least") == bool(one.cost.missing)
        for name, parts in (
            ("us", 1),
            ("us_per_lookup", "lookups"),
            ("us_per_request", "requests"),
        ):
            count = one.total[parts] if isinstance(parts, str) else 1
            low = best[name][0] if isinstance(best[name], list) else best[name]
            assert low == pytest.approx(one.cost.low / count)
    capsys.readouterr()
