"""Every table of every command: commands that print them all, and what they print."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import nicscope
from every_command import LONG, RUNS, Run
from nicscope.cli.app import main
from nicscope.reports import printing
from nicscope.reports.printing import Rows, show
from nicscope.reports.reproduction import ShownReproduction, as_markdown, study_rows
from nicscope.reports.result import Report
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.traced.measuring import find_study
from nicscope.studies.reproduce.verdict import (
    Basis,
    Met,
    Point,
    Reproduction,
    Shape,
    Unjudged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PACKAGE = Path(nicscope.__file__).parent
MAKERS = ("Rows", "rows_of")
EXAMPLES = Path(__file__).parents[2] / "examples"
OF_COMPILED_PROGRAMS = {("reports/verbs.py", "busy_rows")}  # printed in tests/live
# Runs that come to tables to which those of RUNS do not come.
TABLES = (
    "replay {trace}",
    "replay {trace} --design rnic --counters neohost",
    "replay {trace} --no-kinds --design unet-mm-dc21140",
    "size {trace} --nic-memory 1KiB --platform utlb-prototype --target-us 2 --only utlb"
    " --only handle",
    "size {trace} --nic-memory 1KiB --only utlb --only page-sizes --page-size 4KiB,2MiB",
    "size {trace} --nic-memory 1KiB --only page-sizes --only utlb --page-size 4KiB,2MiB,1GiB",
    "curve {trace}",
    "curve {trace} --skip 20 --entries 1..1024 --page-size 2M",
    "curve {trace} --ways 1,2,4,8,16",
    "curve {trace} --by process",
    "curve {trace} --sample 0.9",
    "verbs run {verbs_tests}",
    f"verbs run {EXAMPLES}/verbs_pingpong.py 2",
    "rdma explain --mr 24GiB",
    "rdma odp {trace} --prefetch async --resident none,64KiB",
    "rdma path {trace} --reads 16",
    "rdma register 1TiB --nics 8 --threads 1,8 --at-once no,yes",
    "rdma connections --qps 2,4 --threads 1,2 --outstanding 2",
    "rdma connections --qps 2 --threads 2 --outstanding 2 --operation read,write --read-window 1,2"
    " --doorbells own,context --replacement lru,random",
    "rdma descriptors {trace} --threads 1,2 --nics 1,2 --qps 1,2",
    "rdma descriptors {trace} --nic efa-p5en",
    "flow --platform pentium2-440lx --count 20",
    "flow --platform alcor --policy cut-through --count 1",
    "latency --bytes 300",
    "latency --bytes 8,16 --translation utlb --pages 3 --mechanism dma",
    "simulate {trace} --requests 2",
    "simulate {program_trace} --design mini",
    "simulate {program_trace} --design utlb --design vmmc-static",
    "sweep {trace} --design utlb --grid replacement=lru,mru --grid entries=4,16 --grid prefetch=1,4"
    " --grid pin_limit=8,none --grid costs.user_pin=5us,10us --out {out:grid.parquet}",
    "sweep {trace} {another} --design mini --grid line=1,4 --out {out:two.parquet}",
    "designs show utlb",
    "platforms show dc21140-linux",
    "platforms show mini-cluster",
    "platforms show sonic-via",
    "apps run fft --size 1K --nodes 2 --processes 1 --on vmmc",
    "apps collective allreduce,lock --nodes 2 --sizes 8 --repeat 1 --on trapeze",
    "apps kernel --policy adaptive,cut-through --accesses 50 --megabytes 1",
    "reproduce utlb/table6 unet_mm/table1 trapeze/netperf",
)


class Printed(NamedTuple):
    """What a command has printed."""

    command: str
    text: str
    tables: list[Rows]
    reports: list[Report]


def builders() -> set[tuple[str, str]]:
    """(file, function) wherever the package makes a table."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text()
        if "nicscope.reports.printing import" not in source:
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


def printed(folder: Path) -> Iterator[Printed]:
    """What every command prints, one after the other."""
    for number, one in enumerate([*map(Run, TABLES), *RUNS]):
        if not one.heavy:
            place = folder / str(number)
            place.mkdir()
            words = one.plain.words(place)
            with contextlib.redirect_stderr(io.StringIO()) as complaints:
                made = _printed(" ".join(words), functools.partial(main, words))
            assert made.text or one.command == "record", complaints.getvalue()
            yield made
    yield from other_tables()


def other_tables() -> Iterator[Printed]:
    """Tables that it takes minutes to come to, of made-up numbers."""
    label = Basis.PREDICTED
    shown = Reproduction(
        [
            Point("toy", "table1", f"{LONG} us", 1e12, 1.1e12, 0.1, 0.05, label, "", 9e11, False),
            Point("toy", "table1", f"{LONG}[{LONG}=1] us", 1, 1, 0, 0, label, "", None, True),
        ],
        [Shape("toy", "table1", "falls", "it falls " * 20, False, "[1, 2]", label, "")],
        [Unjudged("toy", "figure1", "needs a curve " * 10)],
        [Unjudged("toy", "table2", "for any trace " * 10)],
        met=[Met("toy", "table1", LONG, "it was one")],
    )
    as_markdown(shown, [])  # of whose tables none is printed
    yield _printed("reproduce", lambda: ShownReproduction(shown).show())
    yield _printed("reproduce, studies", lambda: show(_studies()))


def _studies() -> list[Rows]:
    """Those of the studies that the papers print, with a name of forty characters among them."""
    items = load_papers()["utlb"].items
    made = []
    for name in ("table4", "table5", "table7", "table8", "figure7"):
        layout, unlabelled = items[name].table, find_study("utlb", name).unlabelled
        rows = unlabelled(items) if unlabelled else layout.printed_rows(items, name)
        first = rows[0]["application"]
        rows += [{**row, "application": LONG} for row in rows if row["application"] == first]
        made.append(study_rows(layout, rows))
    return [rows for rows in made if rows.cells]


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


def _printed(command: str, call: Callable[[], object]) -> Printed:
    """What ``call`` prints on a terminal of 80 columns."""
    made = Printed(command, "", [], [])
    lines_of_table, shows = printing.table_lines, Report.show

    def lines(rows, width, elsewhere):
        made.tables.append(rows)
        return lines_of_table(rows, width, elsewhere)

    def showing(report, explain=False):
        made.reports.append(report)
        shows(report, explain=explain)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(printing, "table_lines", lines)
        patch.setattr(Report, "show", showing)
        patch.setenv("COLUMNS", "80")
        call()
    return made._replace(text=out.getvalue())
