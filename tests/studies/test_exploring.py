"""What the explorer answers is what ``nicscope replay`` counts, whichever way it came by it."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from exploring_samples import explorer, own_design, small_trace
from nicscope.config.design import design_names
from nicscope.errors import DesignError, StudyError
from nicscope.reports.template import design_file
from nicscope.studies import exploring
from nicscope.studies.exploring import EXPLORED, controls, offer, read_state
from nicscope.studies.replaying import choose_subjects, compare
from nicscope.studies.sweep.sweeping import load
from nicscope.traces.reader import open_trace
from refusals import refused

pytestmark = pytest.mark.compiled  # hundreds of replays

PATIENT = 300


@pytest.fixture(scope="module")
def explored(tmp_path_factory):
    with explorer(small_trace(tmp_path_factory.mktemp("explored"))) as found:
        yield found


def replayed(explored, design, *assignments):
    """The object that ``nicscope replay --json --no-kinds`` prints."""
    subjects = choose_subjects([design], None, assignments)
    return compare(explored.trace, subjects, kinds=False).to_json()


def answered(explored, *pairs):
    state = explored.read(pairs)
    return explored.answer(state, PATIENT)


def assert_same(answer, told):
    assert "working" not in answer
    assert answer["cost_us"] == told["cost_us"]
    assert answer["nic_memory_bytes"] == told["nic_memory_bytes"]
    counted = {name: count for name, count in answer["total"].items() if count is not None}
    assert counted == {name: told["total"][name] for name in counted}
    assert {"lookups", "requests", "ni_misses", "interrupts", "pins", "unpins"} <= set(counted)
    assert {"peak_pinned_pages", "rejected"} <= set(counted)


@pytest.mark.parametrize("design", design_names())
def test_every_design_of_the_catalog_is_answered_as_replay_counts_it(explored, design):
    assert_same(answered(explored, ("design", design)), replayed(explored, design))


SHAPES = [
    ("utlb", {"entries": 16, "ways": 16}),
    ("utlb", {"entries": 256, "ways": 1}),
    ("utlb", {"entries": 64, "ways": 2, "page_size": 4096}),
    ("utlb", {"entries": 64, "ways": 2, "page_size": 16384}),
    ("vmmc-interrupt", {"entries": 32, "ways": 4}),
    ("vmmc-interrupt", {"entries": 512, "ways": 1}),
    ("mini", {"entries": 128, "ways": 1, "line": 16}),
    ("mini", {"entries": 512, "ways": 2, "line": 1}),
    ("mini", {"entries": 128, "ways": 2, "line": 1}),
]


@pytest.mark.parametrize(("design", "settings"), SHAPES)
def test_a_shape_that_follows_from_one_pass_is_what_its_own_replay_counts(
    explored, design, settings
):
    pairs = [(key, str(value)) for key, value in settings.items()]
    # The base of the others is counted first, so that this one follows from it.
    base = [pair for pair in pairs if pair[0] not in ("entries", "ways")]
    answered(explored, ("design", design), ("entries", "1024"), *base)
    answered(explored, ("design", design), *pairs)
    explored.passes.wait_until(lambda: explored.passes.is_idle, PATIENT)

    answer = answered(explored, ("design", design), *pairs)

    assert_same(answer, replayed(explored, design, *(f"{key}={value}" for key, value in pairs)))


@pytest.mark.parametrize(
    ("design", "settings"),
    [
        ("utlb", {"prefetch": "4"}),
        ("utlb", {"pin_limit": "16", "entries": "64"}),
        ("utlb-shared", {"entries": "64", "ways": "2"}),
        ("utlb-process", {"entries": "32"}),
        ("unet-mm-pca200", {"entries": "64"}),
        ("vmmc-interrupt", {"pin_limit": "16"}),
        ("vmmc-static", {"entries": "64"}),
    ],
)
def test_what_does_not_follow_is_replayed_and_its_curve_with_it(explored, design, settings):
    pairs = [("design", design), *settings.items()]
    answer = answered(explored, *pairs)
    explored.passes.wait_until(lambda: explored.passes.is_idle, PATIENT)

    again = answered(explored, *pairs)

    told = replayed(explored, design, *(f"{key}={value}" for key, value in settings.items()))
    assert_same(answer, told)
    assert again["replayed"]
    assert not again["curve"]["pending"]
    [line] = again["curve"]["lines"]
    assert [again["controls"]["entries"]["value"], again["total"]["ni_misses"]] in map(
        list, line["points"]
    )
    for entries, misses in line["points"][::4]:
        rest = [f"{key}={value}" for key, value in settings.items() if key != "entries"]
        told = replayed(explored, design, *rest, f"entries={entries}")
        assert misses == told["total"]["ni_misses"]


def test_the_curve_goes_through_what_replay_counts_and_ends_at_the_compulsory_misses(explored):
    explored.answer(explored.read([("design", "utlb")]), PATIENT)
    explored.passes.wait_until(lambda: explored.passes.is_idle, PATIENT)

    curve = answered(explored, ("design", "utlb"))["curve"]

    points = {line["ways"]: dict(line["points"]) for line in curve["lines"]}
    for ways, entries in ((1, 64), (4, 256), (16, 32)):
        told = replayed(explored, "utlb", f"entries={entries}", f"ways={ways}")
        assert points[ways][entries] == told["total"]["ni_misses"]
    whole = dict(curve["fully_associative"])
    assert whole[1 << 20] == points[16][1 << 20]
    assert whole[16] == replayed(explored, "utlb", "entries=16", "ways=16")["total"]["ni_misses"]


def test_a_saved_design_file_gives_the_numbers_of_the_page(explored, tmp_path):
    pairs = [("design", "utlb"), ("entries", "128"), ("ways", "2"), ("pin_limit", "32")]
    pairs += [("prefetch", "2"), ("page_size", "16384")]
    state = explored.read(pairs)
    answer = explored.answer(state, PATIENT)
    file = tmp_path / "utlb-explored.toml"
    file.write_text(design_file(state.design, ["a comment\nof two lines"]))

    told = compare(explored.trace, choose_subjects([str(file)], None, []), kinds=False).to_json()

    assert_same(answer, told)


def test_each_state_has_one_spelling_without_what_the_catalog_says_anyway(explored):
    state = explored.read([("design", "utlb"), ("ways", "1"), ("entries", "1024")])
    own_pages = explored.read([("design", "utlb"), ("page_size", "4096")])

    assert state.query == [("design", "utlb"), ("entries", "1024")]
    assert own_pages.query == [("design", "utlb")]
    assert explored.read([]).query == [("design", "utlb")]
    assert state.command("t.parquet") == [
        *["nicscope", "replay", "t.parquet", "--design", "utlb", "--set", "entries=1024"],
    ]


@pytest.mark.parametrize(
    ("pairs", "facts"),
    [
        ([("design", "utbl")], ["'utbl'", "'utlb'"]),
        ([("design", "/etc/passwd.toml")], ["no design"]),
        ([("entires", "64")], ["'entries'"]),
        ([("ways", "2"), ("ways", "4")], ["twice"]),
        ([("ways", "3")], ["power of two"]),
        ([("entries", "16"), ("ways", "32")], ["entries"]),
        ([("line", "8")], ["'line'"]),
    ],
)
def test_a_wrong_address_is_told_in_one_line(pairs, facts):
    with refused((StudyError, DesignError), *facts):
        read_state(pairs, offer())


def test_controls_say_what_the_scheme_has_and_what_may_be_chosen():
    found = controls(read_state([("design", "unet")], offer()), 4096)

    assert set(found) == set(EXPLORED)
    assert not found["entries"]["used"]
    assert found["page_size"]["value"] == 4096
    state = read_state([("design", "mini"), ("entries", "32768")], offer())
    mini = controls(state, 8192)
    assert mini["entries"]["value"] in mini["entries"]["choices"]
    assert 8192 in mini["page_size"]["choices"]


def test_a_design_file_is_offered_beside_the_catalog_and_answered_as_replay_counts_it(tmp_path):
    # It is called as a design of the catalog is, and priced otherwise.
    own = str(own_design(tmp_path, "utlb.toml", entries=8192, ways=1))
    with explorer(small_trace(tmp_path), [own, "mini"]) as found:
        first = answered(found)
        catalog = answered(found, ("design", "utlb"))
        changed = answered(found, ("design", own), ("entries", "32"), ("ways", "2"))
        told = [replayed(found, own), replayed(found, "utlb")]
        told.append(replayed(found, own, "entries=32", "ways=2"))

    assert first["query"] == [("design", own)]
    assert first["cost_us"]["platform"].endswith("cheap")
    for answer, each in zip((first, catalog, changed), told, strict=True):
        assert_same(answer, each)
    assert first["cost_us"]["total"] != catalog["cost_us"]["total"]
    assert changed["command"][3:] == [
        *["--design", own, "--set", "entries=32", "--set", "ways=2"],
    ]


def test_only_designs_that_were_given_are_read_and_without_one_the_first(tmp_path):
    given, other = own_design(tmp_path), own_design(tmp_path, "other.toml")
    with refused(StudyError, "design", "other.toml", "--design"):
        read_state([("design", str(other))], offer([str(given)]))

    trace = small_trace(tmp_path)
    with explorer(trace, ["mini", str(given)]) as found:
        assert found.read([]).called == "mini"
        assert found.command == [
            *["nicscope", "explore", str(trace)],
            *["--design", "mini", "--design", str(tmp_path / "mine.toml")],
        ]


def test_every_control_of_every_scheme_is_explained_in_a_sentence():
    for name in design_names():
        for control in controls(read_state([("design", name)], offer()), 4096).values():
            assert control["meaning"].endswith(".")
            assert len(control["meaning"].split()) > 5


def test_a_trace_with_a_wrong_row_is_told_with_the_row_whatever_is_asked(tmp_path):
    path = small_trace(tmp_path)
    table = pq.read_table(path)
    lengths = [0 if row == 123 else 100 for row in range(len(table))]
    table = table.set_column(5, "length", pa.array(lengths, pa.uint32()))
    pq.write_table(table, path)

    with explorer(path) as found, pytest.raises(StudyError, match=r"row 123\b.*length"):
        found.answer(found.read([("design", "utlb")]), PATIENT)


def test_a_design_that_cannot_be_replayed_is_told_and_ends_no_other(tmp_path, monkeypatch):
    replay, fails = exploring.replay, [True]

    def short_of_memory(batches, designs, **how):
        if fails and [design.entries for design in designs] == [32]:
            raise MemoryError
        return replay(batches, designs, **how)

    monkeypatch.setattr(exploring, "replay", short_of_memory)
    with explorer(small_trace(tmp_path)) as found:
        large = found.read([("design", "utlb-process"), ("entries", "32")])
        found.answer(large, PATIENT)
        with refused(StudyError, "utlb-process", "memory"):
            found.answer(large, PATIENT)

        assert_same(answered(found, ("design", "utlb")), replayed(found, "utlb"))
        fails.clear()
        told = replayed(found, "utlb-process", "entries=32")
        assert_same(found.answer(large, PATIENT), told)


def test_a_curve_that_cannot_be_counted_says_why_and_is_not_waited_for(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise StudyError("no room for the sets")

    monkeypatch.setattr(exploring, "grids", broken)
    with explorer(small_trace(tmp_path)) as found:
        state = found.read([("design", "utlb")])
        found.answer(state, PATIENT)
        found.passes.wait_until(lambda: found.passes.is_idle, PATIENT)

        curve = found.answer(state, PATIENT)["curve"]

    assert not curve["pending"]
    assert curve["failed"] == "counting every cache in one pass: no room for the sets"


def test_until_its_pass_is_over_a_long_trace_is_answered_from_its_first_requests(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(exploring, "SAMPLE_ROWS", 64)
    path = small_trace(tmp_path)
    found = exploring.Explorer(str(path), open_trace(path))
    state = found.read([("design", "utlb"), ("pin_limit", "8")])
    assert "sample" not in found.answer(state)  # nothing has been read yet
    found.passes._columns = load(found.trace, "try it")

    answer = found.answer(state)

    assert (answer["sample"], answer["working"]["total"]) == (64, 300)
    table = pq.read_table(path)
    first = [table.filter(pc.equal(table["node"], node)).slice(0, 32) for node in (0, 1)]
    pq.write_table(pa.concat_tables(first), tmp_path / "first.parquet")
    subjects = choose_subjects(["utlb"], None, ["pin_limit=8"])
    told = compare(open_trace(tmp_path / "first.parquet"), subjects, kinds=False).to_json()
    del answer["working"]
    assert_same(answer, told)
    found.passes.start()
    exact = found.answer(state, PATIENT)
    found.passes.stop()
    assert "sample" not in exact
    assert_same(exact, replayed(found, "utlb", "pin_limit=8"))
