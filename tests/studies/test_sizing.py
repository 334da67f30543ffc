"""Sizing: what is chosen, within what, and that pruning leaves out nothing that is best."""

import itertools
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nicscope.config.design import SETTINGS, Scheme, load_design, with_settings
from nicscope.drivers.replay import replay
from nicscope.errors import NicscopeError, TraceError
from nicscope.nic.layout import new_table, region_bytes
from nicscope.nic.translate.book import COUNT_NAMES, KIND_NAMES
from nicscope.studies import size_search, size_survey
from nicscope.studies.replaying import compare
from nicscope.studies.size_search import Room, _filled, families, most_entries, report, shapes, size
from nicscope.studies.size_survey import extent, grids
from nicscope.studies.sizing import (
    Point,
    ask,
    best_within,
    knee_step,
    pareto_front,
    uncertain_components,
)
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from refusals import refused

pytestmark = pytest.mark.compiled  # hundreds of caches

TARGET_US = 9.2  # of some families, not of all
BY_PATH = (
    "ni_misses_send",
    "ni_misses_receive",
    "ni_misses_send_compulsory",
    "ni_misses_receive_compulsory",
)
CACHED = (Scheme.INTERRUPT, Scheme.UTLB, Scheme.HANDLE)


def trace_of(path, count):
    """A trace of ``count`` requests, opened."""
    random = np.random.default_rng(7)
    often = random.random(count) < 0.6
    page = np.where(often, random.zipf(1.6, count) % 24, random.integers(0, 90, count))
    columns = {
        "time_ns": pa.array(range(count), pa.int64()),
        "node": pa.array((np.arange(count) % 2).tolist(), pa.int32()),
        "pid": pa.array((np.arange(count) % 3).tolist(), pa.int32()),
        "op": pa.array(
            ["send" if one else "recv" for one in often], pa.dictionary(pa.int32(), pa.string())
        ),
        "address": pa.array(((page + 1000) * 4096).tolist(), pa.uint64()),
        "length": pa.array(random.integers(1, 12_000, count).tolist(), pa.uint32()),
        "peer": pa.nulls(count, pa.int32()),
        "buffer": pa.nulls(count, pa.int32()),
    }
    pq.write_table(pa.table(columns), path)
    return open_trace(path)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Two nodes, three processes each; some pages often, runs of pages, more than caches hold."""
    return trace_of(tmp_path_factory.mktemp("sizing") / "t.parquet", 160)


@pytest.fixture(scope="module")
def sized(trace):
    question = ask("1KiB", platform="utlb-prototype", target_us=TARGET_US, page_sizes="4KiB,64KiB")
    return size("t", trace, question), question


def answers_of(sizing):
    return {answer.scheme: answer for answer in sizing.answers}


def counted(trace, answer):
    """The answer's best, replayed anew."""
    design = load_design(answer.design)
    settings = [f"{key}={text}" for key, text in answer.best.settings]
    [found] = replay(trace.batches(), [with_settings(design, settings)], kinds=False)
    return found


def test_every_family_has_its_best_within_the_budget(sized):
    sizing, question = sized

    # The platform does not price what RDMA NICs fetch.
    others = [scheme for scheme in Scheme if scheme is not Scheme.RNIC]
    assert [answer.scheme for answer in sizing.answers] == others
    for answer in sizing.answers:
        assert answer.best is not None
        assert answer.best.nic_bytes <= question.nic_bytes
        assert answer.half is None or answer.half.nic_bytes <= question.nic_bytes // 2
        assert answer.best.objectives <= min(
            step.objectives for step in answer.steps if step.nic_bytes <= question.nic_bytes
        )


def test_the_best_is_what_replay_counts_and_no_better_with_less_memory(sized, trace):
    for answer in sized[0].answers:
        found = counted(trace, answer)

        assert found.total == answer.best.priced.result.total
        assert sum(found.nic_memory_bytes.values()) == answer.best.nic_bytes
        # More memory never costs more.
        chosen = [answer.half, answer.best, answer.double]
        burdens = [point.objectives for point in chosen if point is not None]
        assert burdens == sorted(burdens, reverse=True)
        sizes = [step.nic_bytes for step in answer.steps]
        assert sizes == sorted(set(sizes))
        if answer.larger is not None:
            assert answer.larger.nic_bytes > 1024
            assert answer.larger.objectives < answer.best.objectives


@pytest.mark.parametrize("scheme", CACHED)
def test_no_shape_that_was_left_out_is_cheaper(scheme, trace, sized):
    """Every shape of entries that may be of use, replayed; the search has one at least as good.

    Beyond those a cache may still check fewer ways for as many misses, which is not looked for.
    """
    base = next(one for one in families(sized[1].platform) if one.design.scheme is scheme)
    lines = (1, 2, 4, 8) if scheme is Scheme.HANDLE else (1,)
    most = most_entries(sized[0].extent)
    every = [
        (("entries", str(1 << e)), ("ways", str(1 << w)))
        + ((("line", str(line)),) if scheme is Scheme.HANDLE else ())
        for e, w, line in itertools.product(range(4, most.bit_length()), range(5), lines)
        if line << w <= 1 << e
    ]
    subjects = [
        base._replace(design=with_settings(base.design, [f"{k}={v}" for k, v in one]))
        for one in every
    ]
    found = compare(trace, subjects, kinds=False).priced
    points = [Point(one, priced, True) for one, priced in zip(every, found, strict=True)]
    steps = answers_of(sized[0])[scheme].steps

    for budget in (256, 512, 1024, 4096, 16384):
        brute, search = best_within(points, budget), best_within(steps, budget)
        if brute is None:
            continue
        assert search is not None
        assert search.objectives[:2] <= brute.objectives[:2]


def test_the_smallest_that_meets_a_target_does_and_no_smaller_step_does(sized):
    priced = [answer for answer in sized[0].answers if answer.by_cost]
    for answer in priced:
        met, floor = answer.target.smallest, answer.target.floor
        able = [step for step in answer.steps if not step.rejected]
        if met is not None:
            assert met.us[1] <= TARGET_US
            assert all(step.us[1] > TARGET_US for step in able if step.nic_bytes < met.nic_bytes)
        else:
            assert all(step.us[1] > TARGET_US for step in able)
        assert floor is None or floor.us[1] == min(step.us[1] for step in able)
    assert any(answer.target.smallest is not None for answer in priced)
    assert any(answer.target.smallest is None for answer in priced)


def test_a_limit_on_pinned_memory_is_kept_on_every_host(trace):
    sizing = size("t", trace, ask("2KiB", pin_memory="160KiB", platform="utlb-prototype"))

    chosen = [answer for answer in sizing.answers if answer.best is not None]
    assert {answer.scheme for answer in chosen} >= {Scheme.UTLB, Scheme.INTERRUPT, Scheme.UNET_MM}
    for answer in chosen:
        found = counted(trace, answer)
        pinned = max(node["peak_pinned_pages"] for node in found.nodes) * 4096
        assert pinned == answer.best.pinned_bytes <= 160 << 10
        assert found.total == answer.best.priced.result.total
    utlb = answers_of(sizing)[Scheme.UTLB].best
    assert dict(utlb.settings)["pin_limit"]
    assert utlb.priced.total("unpins") > 0


def test_of_shapes_that_were_not_replayed_a_replay_counts_the_same(trace, monkeypatch):
    """What follows from the one-pass grids is what a replay says, of every design told."""
    families_found = []
    explored = size_search.explore
    monkeypatch.setattr(
        size_search,
        "explore",
        lambda *given: families_found.extend(explored(*given)) or families_found,
    )
    question = ask("1KiB", platform="utlb-prototype")
    size("t", trace, question)

    known = [
        (family, settings, priced)
        for family in families_found
        for settings, priced in family.counted.items()
        if settings not in family.replayed
    ]
    schemes = {family.subject.design.scheme for family, *_ in known}
    assert schemes == {Scheme.UTLB, Scheme.INTERRUPT, Scheme.HANDLE}
    designs = [family.design(settings) for family, settings, _ in known]
    for (_, settings, told), found in zip(known, replay(trace.batches(), designs), strict=True):
        counted = {key: n for key, n in told.result.total.items() if n is not None}
        assert counted == {key: found.total[key] for key in counted}, settings
        assert set(COUNT_NAMES) - set(counted) <= {"ni_misses_noncompulsory", *BY_PATH, *KIND_NAMES}
        assert told.result.nic_memory_bytes == found.nic_memory_bytes
        peaks = [node["peak_pinned_pages"] for node in found.nodes]
        assert [node["peak_pinned_pages"] for node in told.result.nodes] == peaks


def test_a_long_trace_is_searched_on_a_sample_and_told_as_replay_counts_it(tmp_path, monkeypatch):
    monkeypatch.setattr(size_survey, "SAMPLED", 1 << 10)
    monkeypatch.setattr(size_survey, "LONG", 1 << 12)
    trace = trace_of(tmp_path / "long.parquet", 4000)
    question = ask("1KiB", platform="utlb-prototype")
    found = size("t", trace, question)
    monkeypatch.setattr(size_survey, "LONG", 1 << 60)
    whole = size("t", trace, question)

    assert found.sampled > 0 == whole.sampled
    assert found.replayed < whole.replayed
    for answer, thorough in zip(found.answers, whole.answers, strict=True):
        counts = counted(trace, answer).total
        told = answer.best.priced.result.total
        assert told == {name: counts[name] for name in told}
        assert answer.best.value <= 1.02 * thorough.best.value  # chosen by a sample, so not least


def test_without_a_platform_the_fewest_misses_win(trace):
    sizing = size("t", trace, ask("1KiB"))

    assert sizing.best is None
    for answer in sizing.answers:
        fewest = min(step.misses for step in answer.steps if step.nic_bytes <= 1024)
        assert answer.best.misses == fewest
        assert answer.platform == load_design(answer.design).platform


@pytest.mark.parametrize("platform", ["mini-cluster", "utlb-prototype"])
def test_a_family_that_is_not_priced_whole_competes_on_misses_and_says_why(platform, trace):
    sizing = size("t", trace, ask("1KiB", platform=platform, target_us=5.0))

    by_cost = {answer.scheme: answer.by_cost for answer in sizing.answers}
    assert set(by_cost.values()) == {True, False}
    for answer in sizing.answers:
        bound = [step for step in answer.steps if step.priced.cost.is_lower_bound]
        if answer.by_cost:
            assert bound == []
            continue
        assert bound or answer.scheme is Scheme.PINNED
        fewest = min(step.misses for step in answer.steps if step.nic_bytes <= 1024)
        assert answer.best.misses == fewest
        assert answer.target.smallest is answer.target.floor is None  # a bound meets no target
        costs = {one.cost for step in bound for one in step.priced.cost.unpriced}
        assert costs
        assert all(cost in " ".join(step.priced.cost.reason for step in bound) for cost in costs)


def test_copying_does_not_win_by_being_all_that_has_a_price(trace):
    """On a host without a NIC's costs only copies are priced whole: that is no recommendation."""
    sizing = size("t", trace, ask("1KiB", platform="linux-host"))

    assert sizing.cheapest.scheme is Scheme.PINNED
    assert sizing.best is None
    told = sizing.to_json()
    assert told["cheapest_family"] is None
    copied = sizing.cheapest.best.priced.cost.high_ps
    for answer in sizing.answers:
        contends = not answer.by_cost and answer.least_ps < copied
        assert (answer.scheme.value in told["perhaps_cheaper"]) == contends
    assert told["perhaps_cheaper"]


def test_the_cheapest_family_is_the_cheapest_that_carries_out_everything(sized):
    best = sized[0].best

    able = [
        answer.best.us[1]
        for answer in sized[0].answers
        if not answer.best.rejected and answer.by_cost
    ]
    assert best.best.us[1] == min(able)
    assert sized[0].perhaps_cheaper == []
    for answer in sized[0].answers:
        assert answer.by_cost or answer.least_ps >= best.best.priced.cost.high_ps


def test_the_share_on_assumed_and_fitted_prices_is_that_of_the_components(sized):
    best = answers_of(sized[0])[Scheme.INTERRUPT].best
    parts = {part.name: part.high_ps for part in best.priced.cost.components}

    found = uncertain_components(best)

    # What a further way takes is assumed: the best here has sets of more than one.
    assert {part.name for part in found.parts} == {"kernel_pin", "kernel_unpin", "further_ways"}
    resting = parts["kernel_pin"] + parts["kernel_unpin"] + parts["further_ways"]
    assert found.share == pytest.approx(resting / sum(parts.values()))


def test_page_sizes_stand_side_by_side_as_replay_counts_them(sized, trace):
    small, large = sized[0].page_sizes

    assert (small.page_size, large.page_size) == (4096, 65536)
    for one in (small, large):
        table = with_settings(
            load_design("vmmc-static"), [f"entries={one.entries}", f"page_size={one.page_size}"]
        )
        settings = [f"{key}={text}" for key, text in one.cache.settings]
        cache = with_settings(load_design("utlb"), settings)
        held, cached = replay(trace.batches(), [table, cache], kinds=False)
        assert held.total["rejected"] == 0
        assert max(node["peak_pinned_pages"] for node in held.nodes) == one.entries
        assert sum(held.nic_memory_bytes.values()) == one.table_bytes
        assert one.pinned_bytes == one.entries * one.page_size
        assert held.total["pin_calls"] == one.calls
        assert cached.total["ni_misses"] == one.cache.misses
        assert sum(cached.nic_memory_bytes.values()) <= 1024
    assert large.entries < small.entries
    assert large.pinned_bytes > small.pinned_bytes


def test_one_pass_tells_what_replay_counts(trace):
    touched = extent(trace.batches(), 4096)
    found = grids(trace.batches(), 4096, (1, 4), 256)
    utlb, mini = load_design("utlb"), load_design("mini")
    shapes_of = [(16, 1), (64, 4), (256, 16)]
    designs = [with_settings(utlb, [f"entries={e}", f"ways={w}"]) for e, w in shapes_of]
    designs += [with_settings(mini, [f"entries={e}", f"ways={w}", "line=4"]) for e, w in [(64, 2)]]

    results = replay(trace.batches(), designs, kinds=False)

    expected = [found.offset.misses_of(*shape) for shape in shapes_of]
    expected.append(found.plain[4].misses_of(64, 2))
    assert [result.total["ni_misses"] for result in results] == expected
    assert touched.lookups == results[0].total["lookups"]
    pinned = [node["peak_pinned_pages"] for node in results[0].nodes]
    assert [sum(pages) for _, pages in sorted(touched.pages.items())] == pinned
    assert found.offset.misses_of(1 << 20, 1) is None


@pytest.mark.parametrize("only", [["static"], ["pinned", "static"]], ids=",".join)
def test_families_of_few_shapes_are_not_taken_for_the_long_search_of_the_others(trace, only):
    told = []
    report([("t", trace)], ask("64KiB", only=only), watch=lambda *pair: told.append(pair))

    done, total = told[-1]
    assert 0.9 * total <= done <= total


def test_the_number_of_threads_changes_nothing(trace, sized, monkeypatch):
    other = 5 if os.cpu_count() == 1 else 1
    monkeypatch.setattr("os.cpu_count", lambda: other)

    assert size("t", trace, sized[1]).to_json() == sized[0].to_json()


def test_a_mistake_in_a_thread_ends_the_others(trace, monkeypatch):
    def fails(batches, *_, **__):
        next(iter(batches))
        raise TraceError("row 7 is bad")

    monkeypatch.setattr("nicscope.studies.size_search.replay", fails)

    with pytest.raises(TraceError, match="row 7 is bad"):
        size("t", trace, ask("1KiB"))


def test_shapes_are_sizes_that_the_scheme_has(trace):
    touched = extent(trace.batches(), 4096)
    lines = (1, 2, 4, 8, 16, 32, 64, 128)
    room = Room(
        (512, 1024, 2048),
        None,
        4096,
        touched,
        grids(trace.batches(), 4096, lines, most_entries(touched)),
    )

    for scheme in Scheme:
        found = shapes(scheme, room)
        assert len(found) == len(set(found)) >= 1
        assert {key for shape in found for key, _ in shape} <= set(SETTINGS)
    table = max(int(dict(shape)["entries"]) for shape in shapes(Scheme.STATIC, room))
    assert table == touched.node_pages
    assert sum(region_bytes(new_table(table)).values()) > 4 * table


def test_a_recorded_trace_costs_most_where_memory_is_least():
    [(name, path)] = [one for one in bundled_traces().items() if one[0] == "rsync_transfer"]
    found = report([(f"bundled:{name}", open_trace(path))], ask("1KiB", platform="utlb-prototype"))

    [sizing] = found.sizings
    interrupt = answers_of(sizing)[Scheme.INTERRUPT]
    values = np.array([step.value for step in interrupt.steps])
    assert np.all(np.diff(values) < 0)
    assert interrupt.knee in interrupt.steps
    assert interrupt.knee is knee_step(interrupt.steps)
    assert pareto_front(interrupt.steps) == interrupt.steps


@pytest.mark.parametrize(
    ("nic", "pin", "fact"),
    [("8B", None, "smallest"), ("64KiB", "1KiB", "4096 bytes"), ("64KiB", "4KiB", "--pin-memory")],
)
def test_budgets_that_nothing_fits_say_what_would_do(trace, nic, pin, fact):
    with refused(NicscopeError, fact):
        size("t", trace, ask(nic, pin_memory=pin))


@pytest.mark.parametrize(
    ("pages", "room", "limit"),
    [([5, 5], 10, 5), ([1, 9], 6, 5), ([4, 4, 4], 7, 2), ([1, 2, 30], 13, 10), ([8], 1, 1)],
)
def test_a_limit_per_process_fills_the_room_and_no_more(pages, room, limit):
    assert _filled(pages, room) == limit
    assert sum(min(limit, count) for count in pages) <= room
