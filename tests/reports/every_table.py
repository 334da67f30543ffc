"""Every table of every command: commands that print them all, and what they print."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import nicscope
from nicscope.cli.app import main
from nicscope.reports import drawing
from nicscope.reports.calibration import ShownCalibration
from nicscope.reports.printing import show
from nicscope.reports.reproduction import ShownReproduction, study_rows
from nicscope.reports.reproduction_markdown import as_markdown
from nicscope.reports.result import Report
from nicscope.reports.table import Rows
from nicscope.studies.calibrate.fit import Calibration, Residual, Value
from nicscope.studies.reproduce.harness import find_study, load_papers
from nicscope.studies.reproduce.verdict import (
    Basis,
    Met,
    Missing,
    Offered,
    Point,
    Reproduction,
    Shape,
)
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(nicscope.__file__).parent
MAKERS = ("Rows", "rows_of")
LONG = "a-design-of-mine-with-forty-characters-x"
PROGRAM = """
    from nicscope.interfaces.unet import Cluster

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await endpoint.send(tag, endpoint.allocate(4000))

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(endpoint.allocate(4096) for _ in range(4)))
        await endpoint.receive()

    def main():
        for design in ("unet-mm-pca200", "utlb"):
            cluster = Cluster(design)
            cluster.start(0, ping)
            cluster.start(1, pong)
            cluster.run()
"""


class Printed(NamedTuple):
    """What a command has printed."""

    command: str
    tables: list[Rows]
    text: str


def builders() -> set[tuple[str, str]]:
    """(file, function) wherever the package makes a table."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        if "nicscope.reports.table import" not in source:
            continue  # and has rows of another kind
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and inner.func.id in MAKERS
                for inner in ast.walk(node)
            ):
                found.add((str(path.relative_to(PACKAGE)), node.name))
    return found


def commands(folder: Path) -> list[list[str]]:
    """Command lines whose tables are all there are, but for those of ``other_tables``."""
    trace = str(_trace(folder / f"{'a-trace-with-a-name-of-more-than-forty-characters'}.parquet"))
    other = str(_trace(folder / "other.parquet"))
    mine = folder / f"{LONG}.toml"
    mine.write_text('scheme = "utlb"\nentries = 32\nplatform = "utlb-prototype"\n')
    program = folder / "program.py"
    program.write_text(dedent(PROGRAM))
    size = ["size", trace, "--nic-memory", "1KiB"]
    fft = ["apps", "run", "fft", "--size", "1K", "--nodes", "2", "--processes", "1"]
    rows = str(folder / "fft.program.parquet")
    session = ["apps", "record-sockets", "--users", "1", "--seconds", "0.1"]
    two = ["sweep", trace, other, "--design", "mini"]
    sweep = ["sweep", trace, "--design", "utlb", "--grid", "replacement=lru,mru"]
    for number, axis in enumerate(("entries=4,16", "pin_limit=8,none", "costs.user_pin=5us,10us")):
        sweep += ["--grid", axis] if number else ["--grid", axis, "--grid", "prefetch=1,4"]
    return [
        ["replay", trace],
        ["replay", trace, "--design", "rnic", "--counters", "neohost"],
        ["replay", trace, "--design", str(mine)],
        ["replay", trace, "--no-kinds", "--design", "unet-mm-dc21140"],
        [*size, "--platform", "utlb-prototype", "--target-us", "2"],
        [*size, "--page-size", "4KiB,2MiB"],
        [*size, "--only", "page-sizes", "--only", "utlb", "--page-size", "4KiB,2MiB,1GiB"],
        ["size", trace, "--target-miss", "5%"],
        ["curve", trace],
        ["curve", trace, "--skip", "20", "--entries", "1..1024", "--page-size", "2M"],
        ["curve", trace, "--ways", "1,2,4,8,16"],
        ["curve", trace, "--by", "process"],
        ["curve", trace, "--sample", "0.9"],
        ["rcache", trace, "--entries", "1..4"],
        ["verbs", "run", _tests_of_verbs(folder / "tests_of_verbs.py")],
        ["verbs", "run", str(Path(__file__).parents[2] / "examples/verbs_pingpong.py"), "2"],
        ["verbs", "bw", "--size", "64", "--iters", "8"],
        ["verbs", "lat", "--size", "64", "--iters", "4", "--design", "utlb"],
        ["calibrate-host", "--memory", "4MiB", "--seconds", "0.1"],
        ["fit", _counters(folder / "counters.json"), "--trace", trace],
        ["explain", "--mr", "24GiB"],
        ["plan", "--pool", "1TiB", "--limits", "efa,mooncake"],
        ["odp", trace, "--resident", "none,64KiB"],
        ["path", trace, "--reads", "16"],
        ["register", "1TiB", "--nics", "8", "--threads", "1,8", "--at-once", "no,yes"],
        ["connections", "--qps", "2,4", "--threads", "1,2", "--outstanding", "2"],
        ["descriptors", trace, "--threads", "1,2", "--nics", "1,2", "--qps", "1,2"],
        ["descriptors", trace, "--nic", "efa-p5en"],
        [
            *("connections", "--qps", "2", "--threads", "2", "--outstanding", "2"),
            *("--operation", "read,write", "--read-window", "1,2"),
            *("--doorbells", "own,context", "--replacement", "lru,random"),
        ],
        ["flow", "--platform", "pentium2-440lx", "--count", "20"],
        ["flow", "--platform", "alcor", "--policy", "cut-through", "--count", "1"],
        ["latency", "--bytes", "300"],
        [
            "latency",
            "--bytes",
            "8,16",
            "--translation",
            "utlb",
            "--pages",
            "3",
            *("--mechanism", "dma"),
        ],
        ["simulate", trace, "--requests", "4"],
        ["simulate", trace, "--requests", "5", "--design", str(mine)],
        ["simulate", str(program)],
        [*fft, "--out", rows],
        ["simulate", rows, "--design", "mini"],
        ["simulate", rows, "--design", "utlb", "--design", "vmmc-static"],
        [*sweep, "--out", str(folder / "grid.parquet")],
        [*two, "--grid", "line=1,4", "--out", str(folder / "two.parquet")],
        ["designs"],
        ["designs", "show", "utlb"],
        ["designs", "show", str(mine)],
        ["platforms"],
        ["platforms", "show", "dc21140-linux"],
        ["platforms", "show", "mini-cluster"],
        ["platforms", "show", "sonic-via"],
        ["trace", "info", trace],
        ["trace", "info", _schedule(folder / "pair.goal")],
        ["apps", "list"],
        [*fft, "--on", "vmmc"],
        ["apps", "collective", "allreduce,lock", "--nodes", "2", "--sizes", "8", "--repeat", "1"],
        fft,
        [*session, "--out", str(folder / "sockets.parquet")],
        ["reproduce", "utlb/table6", "unet_mm/table1", "trapeze/netperf"],
        ["coverage", "--tests", str(_tests(folder / "tests"))],
    ]


def _tests_of_verbs(path: Path) -> str:
    """A program of tests that come to all that tests come to."""
    path.write_text(
        "import unittest\n\nclass Its(unittest.TestCase):\n"
        "    def test_passes(self): pass\n"
        "    def test_skips(self): self.skipTest('there is no card')\n"
        "    def test_fails(self): self.fail('it is another device')\n\nunittest.main()\n"
    )
    return str(path)


def _counters(path: Path) -> str:
    """What a NIC counted, with pages of two sizes."""
    path.write_text('[{"hits": 9, "misses": 9}, {"page_size": "2M", "hits": 9, "misses": 1}]')
    return str(path)


def _schedule(path: Path) -> str:
    """A program in GOAL's text, one of whose messages nobody sends."""
    path.write_text("num_ranks 2\nrank 0 {\nsend 8b to 1\nrecv 8b from 1\ncalc 5 cpu 1\n}\n")
    return str(path)


def _tests(folder: Path) -> Path:
    """A folder with a test that shows a part of a requirement."""
    folder.mkdir(exist_ok=True)
    mark = f'@pytest.mark.requirement("UT-1", weak="{"it is " * 20}{LONG}")'
    (folder / "test_it.py").write_text(f"{mark}\ndef test_it(): ...\n")
    return folder


def run(command: list[str], width: int) -> Printed:
    """What ``command`` prints on a terminal of ``width`` columns."""
    with recorded() as tables, contextlib.redirect_stderr(io.StringIO()) as complaints:
        text = _printed(lambda: main(command), width)
    assert text, complaints.getvalue()
    return Printed(" ".join(command), tables, text)


@contextlib.contextmanager
def every_report() -> Iterator[list[Report]]:
    """Every report of every command, in the order in which they are shown."""
    found: list[Report] = []
    shows, before = Report.show, Path.cwd()
    Report.show = lambda report, explain=False: found.append(report)  # noqa: ARG005
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                for command in commands(Path(folder)):
                    main(command)
                other_tables(100)
            yield found
        finally:
            os.chdir(before)
            Report.show = shows


def other_tables(width: int) -> list[Printed]:
    """Tables that it takes minutes to come to, of made-up numbers."""
    fits = Calibration(
        "4k",
        1,
        0.1,
        [Value("the engine's start", ["pci_read_start"], ["alcor"], 10**12, 123_456, 1, 10**12)],
        [Residual("latency of 4 KB", "us", "pentium2-440lx", 1e6, 1.2e6, 0.2, True)],
    )
    label = Basis.PREDICTED
    shown = Reproduction(
        [
            Point("toy", "table1", f"{LONG} us", 1e12, 1.1e12, 0.1, 0.05, label, "", 9e11, False),
            Point("toy", "table1", f"{LONG}[{LONG}=1] us", 1, 1, 0, 0, label, "", None, True),
        ],
        [Shape("toy", "table1", "falls", "it falls " * 20, False, "[1, 2]", label, "")],
        [Missing("toy", "figure1", "needs a curve " * 10)],
        [Offered("toy", "table2", "for any trace " * 10)],
        met=[Met("toy", "table1", LONG, "it was one")],
    )
    as_markdown(shown, [])  # of whose tables none is printed
    made = []
    for name, print_it in (
        ("calibrate-platform", lambda: ShownCalibration(fits).show()),
        ("reproduce", lambda: ShownReproduction(shown).show()),
        ("reproduce, studies", lambda: show(_studies())),
    ):
        with recorded() as tables:
            made.append(Printed(name, tables, _printed(print_it, width)))
    return made


def _studies() -> list[Rows]:
    """Those of the studies that the papers print, with a name of forty characters among them."""
    items = load_papers()["utlb"].items
    made = []
    for name in ("table4", "table5", "table7", "table8", "figure7"):
        one = find_study("utlb", name)
        rows = list(one.printed(items))
        first = rows[0]["application"]
        rows += [{**row, "application": LONG} for row in rows if row["application"] == first]
        made.append(study_rows(one.layout, rows))
    return [rows for rows in made if rows.cells]


@contextlib.contextmanager
def recorded():
    """The tables that are laid out meanwhile."""
    tables: list[Rows] = []
    lines_of_table = drawing.table_lines

    def noting(rows, width, elsewhere):
        tables.append(rows)
        return lines_of_table(rows, width, elsewhere)

    drawing.table_lines = noting
    try:
        yield tables
    finally:
        drawing.table_lines = lines_of_table


@contextlib.contextmanager
def built():
    """(file, function) of whoever makes a table meanwhile."""
    callers: set[tuple[str, str]] = set()
    make = Rows.__new__

    def noting(cls, *values, **named):
        code = sys._getframe(1).f_code
        if code.co_name == "rows_of":
            code = sys._getframe(2).f_code
        callers.add((str(Path(code.co_filename).relative_to(PACKAGE)), code.co_name))
        return make(cls, *values, **named)

    Rows.__new__ = noting
    try:
        yield callers
    finally:
        Rows.__new__ = make


def _printed(what, width: int) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            what()
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return out.getvalue()


def _trace(path: Path) -> Path:
    count = 60
    places = np.arange(count)
    columns = {
        "time_ns": np.zeros(count, np.int64),
        "node": (places % 2).astype(np.int32),
        "pid": (7 + places % 3).astype(np.int32),
        "op": np.where(places % 3 == 0, 3, 0).astype(np.uint8),
        "address": (0x10000 + 4096 * (places * places % 23)).astype(np.uint64),
        "length": (100 + 3000 * (places % 4)).astype(np.uint32),
    }
    origin = {"program": LONG, "command": ["serve", "--fast", "x" * 30, "a long word"]}
    write_trace(path, columns, TraceMetadata(origin=origin))
    return path
