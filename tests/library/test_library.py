"""The commands as functions: the same numbers, frames in, frames out, mistakes of one kind."""

import functools
import inspect
import json
import subprocess
import sys
import typing

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from library_samples import COLUMNS, COUNT, GRID, TABLE

import nicscope as ns
from nicscope.cli.app import main
from nicscope.library import progress
from nicscope.traces.writer import write_trace
from refusals import refused

FRAMES = {
    "arrow": TABLE,
    "pandas": TABLE.to_pandas(),
    "polars": pl.from_arrow(TABLE),
    "lazy": pl.from_arrow(TABLE).lazy(),
}
SWEEP = ["--design", "utlb", "--grid", "entries=4,16", "--grid", "pin_limit=8,none"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("library") / "t.parquet"
    write_trace(file, TABLE)
    return file


@pytest.fixture(scope="module")
def pairs(path, tmp_path_factory):
    """Of each command: its words, and the function that does the same."""
    trace, folder = str(path), tmp_path_factory.mktemp("sweeps")
    mine = folder / "grid.parquet"
    counters = folder / "counters.json"
    counters.write_text('{"hits": 30, "misses": 10}')
    sweep = ["sweep", trace, *SWEEP, "--out", str(mine)]
    return {
        "replay": (
            ["replay", trace, "--design", "utlb", "--set", "entries=16", "--no-kinds"],
            lambda: ns.replay(trace, "utlb", entries=16, kinds=False),
        ),
        "curve": (
            ["curve", trace, "--ways", "1,4", "--entries", "4..64", "--line", "1,2"],
            lambda: ns.curve(trace, ways=[1, 4], entries=(4, 64), line=[1, 2]),
        ),
        "path": (
            ["rdma", "path", trace, "--iommu", "off,strict", "--iotlb", "16,64", "--reads", "8"],
            lambda: ns.rdma.path(trace, iommu=["off", "strict"], iotlb=[16, 64], reads=8),
        ),
        "rcache": (
            [
                "rdma",
                "cache",
                trace,
                "--policy",
                "page,merge",
                "--entries",
                "4..64",
                "--bytes",
                "1MiB",
            ],
            lambda: ns.rdma.cache(
                trace, policy=["page", "merge"], entries="4..64", most_bytes="1MiB"
            ),
        ),
        "fit": (
            ["rdma", "fit", str(counters), "--trace", trace, "--tolerance", "0.05"],
            lambda: ns.rdma.fit(counters, trace, tolerance=0.05),
        ),
        "explain": (
            [
                "rdma",
                "explain",
                "--mr",
                "24GiB",
                "--slices",
                "1,2,3GiB",
                "--fast",
                "9.24",
                "--slow",
                "6.0",
            ],
            lambda: ns.rdma.explain("24GiB", slices=[1, 2, "3GiB"], fast=9.24, slow=6.0),
        ),
        "plan": (
            ["rdma", "plan", "--pool", "1TiB", "--max-mr", "64GiB", "--limits", "efa,mooncake"],
            lambda: ns.rdma.plan("1TiB", max_mr="64GiB", limits=["efa", "mooncake"]),
        ),
        "connections": (
            ["rdma", "connections", "--qps", "2,4", "--threads", "2", "--outstanding", "2"],
            lambda: ns.rdma.connections(qps=[2, 4], threads=2, outstanding=2),
        ),
        "descriptors": (
            ["rdma", "descriptors", trace, "--engine", "nixl,joined", "--threads", "1,4"],
            lambda: ns.rdma.descriptors(trace, engine=["nixl", "joined"], threads=[1, 4]),
        ),
        "odp": (
            [
                "rdma",
                "odp",
                trace,
                "--fault-bytes",
                "4KiB",
                "--prefetch",
                "sync",
                "--resident",
                "1MiB",
            ],
            lambda: ns.rdma.odp(trace, fault_bytes="4KiB", prefetch="sync", resident="1MiB"),
        ),
        "register": (
            ["rdma", "register", "1GiB", "--page", "4K,2M", "--threads", "1,8"],
            lambda: ns.rdma.register("1GiB", page=["4K", "2M"], threads=[1, 8]),
        ),
        "size": (
            ["size", trace, "--nic-memory", "1024", "--platform", "utlb-prototype"],
            lambda: ns.size(trace, 1024, "utlb-prototype"),
        ),
        "size --target-miss": (
            ["size", trace, "--target-miss", "5%", "--page-size", "4K,64K", "--skip", "2"],
            lambda: ns.size(trace, target_miss="5%", page_size=["4K", "64K"], skip=2),
        ),
        "sweep": (sweep, lambda: ns.sweep(trace, "utlb", GRID, out=mine)),
        "simulate": (
            ["simulate", trace, "--design", "utlb", "--requests", "5", "--window", "2"],
            lambda: ns.simulate(trace, ["utlb"], requests=5, window=2),
        ),
        "flow": (
            ["flow", "--count", "2", "--payload", "4KiB", "--set", "firmware_start=2us"],
            lambda: ns.flow(count=2, payload="4KiB", firmware_start="2us"),
        ),
        "latency": (
            ["latency", "--mechanism", "edt,dma", "--bytes", "64", "--set", "cache_supply=60000"],
            lambda: ns.latency(["edt", "dma"], sizes=64, cache_supply=60000),
        ),
        "reproduce": (["reproduce", "utlb/table6"], lambda: ns.reproduce("utlb/table6")),
    }


COMMANDS = [
    *("replay", "curve", "size", "size --target-miss", "sweep", "simulate", "flow", "latency"),
    "reproduce",
]
QUESTIONS = ["path", "rcache", "fit", "explain", "plan", "connections", "descriptors", "odp"]
QUESTIONS += ["register"]


@pytest.fixture(scope="module")
def result_of(pairs):
    """Call it with a command: what its function finds."""
    return functools.cache(lambda command: pairs[command][1]())


@pytest.mark.parametrize("command", COMMANDS + QUESTIONS)
def test_a_function_finds_what_its_command_prints_and_names_the_same_command(
    command, pairs, result_of, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "100")
    words, found = pairs[command][0], result_of(command)

    main([*words, "--json"])
    printed = json.loads(capsys.readouterr().out)
    main(words)
    text = capsys.readouterr().out

    plain = json.loads(json.dumps(found.as_json()))
    assert plain == printed
    assert text.startswith(f"{found}\n") or str(found) in text
    assert found.summary()


def test_importing_the_package_imports_no_heavy_library():
    """How long it takes is for ``make speed``; here, that nothing is loaded which takes long."""
    script = "import sys; before = {*sys.modules}; import nicscope; print(*{*sys.modules} - before)"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True).split()

    own = {name for name in loaded if name.partition(".")[0] == "nicscope"}
    others = {name.partition(".")[0] for name in loaded} - {"nicscope"}
    assert own == {"nicscope", "nicscope.version"}
    assert others <= sys.stdlib_module_names


def test_every_public_name_is_there_and_is_what_editors_are_told():
    assert set(ns.__all__) <= set(dir(ns))
    for name in ns.__all__:
        assert getattr(ns, name) is not None
    declared = typing.cast("str", inspect.getsource(ns)).partition("if TYPE_CHECKING:")[2]
    declared = declared.partition("__all__ =")[0]
    assert {*ns.__all__} - {"__version__"} == {*ns._HOME, *ns._MODULES}
    assert all(name in declared for name in (*ns._HOME, *ns._MODULES))
    with pytest.raises(AttributeError, match="has no attribute 'replya'") as caught:
        ns.replya  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("replya", ns)  # by which Python says the next


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        *(("replay", kind) for kind in FRAMES),
        *zip(["curve", "size", "sweep", "simulate"], FRAMES, strict=True),
    ],
)
def test_every_kind_of_frame_is_a_trace_and_every_function_takes_frames(kind, command, path):
    run = {
        "replay": lambda trace: ns.replay(trace, "utlb", entries=16),
        "curve": lambda trace: ns.curve(trace, entries=(4, 16)),
        "size": lambda trace: ns.size(trace, "1KiB"),
        "sweep": lambda trace: ns.sweep(trace, "utlb", GRID),
        "simulate": lambda trace: ns.simulate(trace, "utlb", requests=5),
    }[command]

    framed, filed = run(FRAMES[kind]), run(path)

    nameless = [table.drop_columns([n for n in ("trace",) if n in table.column_names])
                for table in (framed.table(), filed.table())]  # fmt: skip
    assert nameless[0].equals(nameless[1])
    assert framed.as_json()["repeat"]["command"] == []
    assert filed.as_json()["repeat"]["command"][:2] == ["nicscope", command]


def test_frames_in_a_list_are_told_apart():
    found = ns.curve([FRAMES["polars"], FRAMES["pandas"], TABLE], entries=(4, 16))

    assert [one.trace for one in found.found.curves] == ["DataFrame", "DataFrame 2", "Table 3"]


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        ("length", 2**33, ["8589934592"]),
        ("address", -1, ["-1"]),
        ("node", -1, ["-1"]),
        ("time_ns", -5, ["-5", "after 0"]),
        ("op", "sned", ["'sned'", "'send'"]),
        ("pid", None, ["'pid'"]),
    ],
)
@pytest.mark.parametrize("frame", [pa.table, pd.DataFrame, pl.DataFrame])
def test_a_wrong_frame_is_refused_in_a_line_that_names_column_and_row(frame, name, value, facts):
    columns = {**COLUMNS, name: [*COLUMNS[name]]}
    if value is None:
        del columns[name]
    else:
        columns[name][9] = value
        facts = ["row 9 (the first is 0)", name, *facts]

    with refused(ns.TraceError, *facts):
        ns.replay(frame(columns), "utlb")


def test_columns_may_stand_in_any_order_and_others_beside_them():
    turned = TABLE.select(TABLE.column_names[::-1]).append_column("mine", [["x"] * COUNT])

    assert ns.replay(turned, "utlb").table().equals(ns.replay(TABLE, "utlb").table())


def test_designs_and_platforms_are_names_files_or_objects(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('scheme = "utlb"\nentries = 32\nplatform = "utlb-prototype"\n')
    design, platform = ns.load_design("utlb"), ns.load_platform("utlb-prototype")

    found = ns.replay(TABLE, [design, file, "mini"], platform)

    assert found.table().column("design").to_pylist() == ["utlb", "mine", "mini"]
    assert set(found.table().column("platform").to_pylist()) == {"utlb-prototype"}
    assert ns.size(TABLE, "1KiB", platform).table().num_rows
    assert ns.sweep(TABLE, design, {"entries": 16}, platform).table().num_rows == 1
    assert ns.flow(ns.load_platform("alcor"), count=1).found.question.sender.name == "alcor"
    assert ns.latency("edt", ns.load_platform("sonic-via"), sizes=64).found.platform == "sonic-via"


def test_a_trace_is_opened_from_whatever_functions_take(path):
    for source in (path, str(path), TABLE):
        opened = ns.open_trace(source)
        assert opened.rows == TABLE.num_rows
        assert ns.open_trace(opened) is opened
    assert ns.open_trace("bundled:redis_server").rows == 38_620


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (
            lambda trace: ns.curve(trace, ways=np.array([1, 4]), entries=np.array([4, 16])),
            lambda trace: ns.curve(trace, ways=[1, 4], entries=(4, 16)),
        ),
        (
            lambda trace: ns.curve(trace, sample=np.float64(0.5), seed=np.int64(3)),
            lambda trace: ns.curve(trace, sample=0.5, seed=3),
        ),
        (
            lambda trace: ns.sweep(trace, "utlb", {"entries": 2 ** np.arange(2, 5)}),
            lambda trace: ns.sweep(trace, "utlb", {"entries": [4, 8, 16]}),
        ),
        (
            lambda trace: ns.simulate(trace, "utlb", requests=np.int64(5)),
            lambda trace: ns.simulate(trace, "utlb", requests=5),
        ),
        (
            lambda _: ns.flow(count=np.int64(1), minpulse="1KiB", assignments="firmware_start=2us"),
            lambda _: ns.flow(count=1, minpulse=1024, firmware_start="2us"),
        ),
        (
            lambda _: ns.latency(np.array(["edt"]), sizes=np.array([64]), mtu="1KiB"),
            lambda _: ns.latency(["edt"], sizes=[64], mtu=1024),
        ),
        (
            lambda trace: ns.replay(ns.open_trace(trace), "utlb"),
            lambda trace: ns.replay(trace, "utlb"),
        ),
        (
            lambda trace: ns.curve([ns.open_trace(trace)], entries=(4, 16)),
            lambda trace: ns.curve(trace, entries=(4, 16)),
        ),
        (
            lambda trace: ns.size(ns.open_trace(trace), "1KiB", only="utlb"),
            lambda trace: ns.size(trace, "1KiB", only=["utlb"]),
        ),
    ],
)
def test_what_means_the_same_finds_the_same_and_names_the_same_command(given, plain, path):
    found, expected = given(path).as_json(), plain(path).as_json()

    assert json.loads(json.dumps(found)) == json.loads(json.dumps(expected))
    assert found["repeat"]["command"]


def test_files_of_the_same_name_are_told_apart_by_their_folders(path, tmp_path):
    other = tmp_path / path.name
    write_trace(other, TABLE)

    found = ns.curve([path, other], entries=(4, 16))

    assert [one.trace for one in found.found.curves] == [str(path), str(other)]
    assert found.table().column("trace").unique().to_pylist() == [str(path), str(other)]


def test_a_sweep_without_a_file_holds_what_a_file_would(path, tmp_path):
    held = ns.sweep(path, "utlb", GRID)
    filed = ns.sweep(path, "utlb", GRID, out=tmp_path / "g.parquet")
    csv = ns.sweep(path, "utlb", GRID, out=tmp_path / "g.csv")

    assert held.table().equals(filed.table())
    assert held.table().equals(csv.table())
    assert pq.read_table(tmp_path / "g.parquet").equals(held.table())
    assert ns.sweep(path, "utlb", GRID, out=tmp_path / "g.parquet").done.was_there


def test_a_table_is_known_by_its_numbers_however_it_is_parted():
    def identity(trace):
        metadata = ns.sweep(trace, "utlb", GRID).table().schema.metadata
        return json.loads(metadata[b"nicscope_sweep"])["traces"]

    parted = pa.concat_tables([TABLE.slice(0, 7), TABLE.slice(7)])
    other = TABLE.set_column(0, "time_ns", pa.array(range(COUNT)))
    larger = TABLE.replace_schema_metadata({b"nicscope": b'{"page_size": 65536}'})

    assert identity(TABLE) == identity(parted) != identity(other)
    assert identity(TABLE) != identity(larger)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_is_frames_figures_files_and_a_page(command, result_of, tmp_path):
    found = result_of(command)

    assert found.to_pandas().shape == found.to_polars().shape
    for name, table in found.tables():
        assert found.table(name).equals(table)
        assert list(found.to_pandas(name).columns) == table.column_names
    for name in found.figures():
        assert found.figure(name).axes
    written = found.save(tmp_path / "o")
    assert sorted(written) == sorted((tmp_path / "o").iterdir())
    assert json.loads((tmp_path / "o" / "results.json").read_text()) == json.loads(
        json.dumps(found.as_json())
    )
    page = found._repr_html_()
    assert page.count("data:image/svg+xml") == len(found.figures())
    assert "background:transparent" in page  # of whatever theme is around it
    assert repr(found) == f"<{type(found).__name__}: {found.summary()[0]}>"


def test_commands_that_count_again_say_that_a_table_has_to_be_a_file(path):
    ours, files = str(ns.size(TABLE, "1KiB")), str(ns.size(path, "1KiB"))
    assert "to count each of them again, once Table is a file:" in ours
    assert "to count each of them again:" in files


def test_what_is_printed_is_a_number_in_a_frame():
    frame = ns.replay(TABLE, ["mini", "utlb"]).to_pandas().set_index("design")

    assert frame["cost_bound"].to_dict() == {"mini": "at least", "utlb": "exact"}
    assert frame.loc["mini", "cost_us_per_lookup_low"] > 0
    assert np.isnan(frame.loc["mini", "cost_us_per_lookup_high"])
    costs = [name for name in frame.columns if name.startswith("cost_us")]
    assert all(frame[name].dtype == np.float64 for name in costs)


def test_a_library_without_these_libraries_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)

    with pytest.raises(ns.NicscopeError, match="polars is not installed; 'pip install polars'"):
        ns.replay(TABLE, "utlb").to_polars()


def test_progress_is_told_to_terminals_notebooks_and_logs_of_commands_alone(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)

    def told():
        with progress.progress("replaying", "rows") as watch:
            watch(1, 2)
            if isinstance(getattr(watch, "__self__", None), progress._Lines):
                watch.__self__._thread.join(0.2)
        return capsys.readouterr().err

    assert told() == ""
    with progress.progress_in_logs():
        assert told().startswith("nicscope: replaying:")
    shell = type("Shell", (), {"kernel": object()})()
    monkeypatch.setitem(sys.modules, "IPython", type("m", (), {"get_ipython": lambda: shell}))
    assert told().startswith("nicscope: replaying:")
