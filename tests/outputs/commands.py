"""Every command that writes, found from the command line itself, and a quick run of each."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from nicscope.cli.app import app
from nicscope.traces.programs.building import ProgramBuilder
from nicscope.traces.programs.schema import Operation, ProgramMetadata
from nicscope.traces.programs.writer import write_program
from nicscope.traces.writer import write_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import typer

PROGRAM = """
    from nicscope.interfaces.ports.cluster import PortCluster
    from nicscope.nic.ports.layout import SEND

    def connect(process, peer):
        channel = process._ports.channels[process.node, 3]
        for name, value in {"port": 1, "node": peer, "tag": 3, "unit": 4096, "most": 64}.items():
            channel[name] = value

    async def client(process):
        connect(process, 1)
        await process.post_inline(SEND, 3, b"hello")
        return await process.done()

    async def server(process):
        connect(process, 0)
        return (await process.arrival()).length

    def main():
        cluster = PortCluster("utlb")
        cluster.start(0, client)
        cluster.start(1, server)
        cluster.run()
"""
SENDER = "import socket; a, b = socket.socketpair(); a.send(b'x' * 10); b.recv(10)"
# Paths that are read, by command and parameter; every other path that a command takes is written.
READ = {
    *(("trace info", "file"), ("trace convert", "source"), ("coverage", "tests")),
    ("verbs run", "program"),
}


class Case(NamedTuple):
    """A quick run of a command that writes."""

    command: str
    parameter: str
    name: str  # of what it writes; a folder's has no point
    arguments: tuple[Any, ...]  # functions are called with a folder for input, OUT is filled in
    options: tuple[str, ...] = ()  # that say the format where the name does not

    @property
    def label(self) -> str:
        what = next((each.__name__ for each in self.arguments if callable(each)), "")
        return "-".join([*self.command.split(), *what.split("_")[1:], *self.name.split(".")])

    @property
    def is_folder(self) -> bool:
        return "." not in self.name

    def words(self, inputs: Path, out: Path | str) -> list[str]:
        """The command line."""
        filled = [each(inputs) if callable(each) else each for each in self.arguments]
        return [*self.command.split(), *(str(out) if each is OUT else str(each) for each in filled)]


OUT = object()
VERBS_PROGRAM = """
    from pyverbs.device import Context, get_device_list

    with Context(name=get_device_list()[0].name.decode()) as context:
        print(context.query_port(1).max_mtu)
    """


def a_trace(inputs: Path) -> Path:
    path = inputs / "t.parquet"
    if not path.exists():
        count = 40
        columns = {
            "time_ns": range(count),
            "node": [i % 2 for i in range(count)],
            "pid": [7 + i % 3 for i in range(count)],
            "op": ["send" if i % 3 else "recv" for i in range(count)],
            "address": [0x10000 + 4096 * (i * i % 23) for i in range(count)],
            "length": [100 + 3000 * (i % 4) for i in range(count)],
        }
        write_trace(path, columns)
    return path


def a_count(inputs: Path) -> Path:
    path = inputs / "counters.json"
    path.write_text('{"hits": 30, "misses": 40}')
    return path


def a_program(inputs: Path) -> Path:
    path = inputs / "program.py"
    path.write_text(dedent(PROGRAM))
    return path


def a_verbs_program(inputs: Path) -> Path:
    path = inputs / "verbs_program.py"
    path.write_text(dedent(VERBS_PROGRAM))
    return path


def a_program_trace(inputs: Path) -> Path:
    path = inputs / "p.program.parquet"
    if path.exists():
        return path
    made = ProgramBuilder(ProgramMetadata(nodes_of_processes=[0, 1], memory_bytes=4096))
    for process in (0, 1):
        made.add(process, Operation.FETCH, peer=1 - process, length=4096)
        made.add(process, Operation.BARRIER)
    write_program(path, made.trace())
    return path


SMALL_APP = ("fft", "--size", "1K", "--nodes", "2", "--processes", "1")


def _file(command: str, parameter: str, name: str, *arguments: Any) -> Case:
    """With the options that give the same where the name says nothing."""
    kind = {"csv": "csv", "parquet": "parquet", "bin": "oracle-general"}[name.split(".")[1]]
    options = ("--to", kind) if command in ("trace convert", "trace make") else ()
    return Case(command, parameter, name, arguments, options)


BY_NAME = [  # whose format is told by it
    *(
        _file("trace make", "target", name, OUT, "--requests", "9")
        for name in ("m.csv", "m.parquet", "m.bin.gz")
    ),
    *(
        _file("trace convert", "target", name, a_trace, OUT)
        for name in ("t.csv", "t.csv.zst", "u.parquet", "t.bin", "t.bin.gz")
    ),
    *(
        _file(
            "sweep", "out", name, a_trace, "--design", "utlb", "--grid", "entries=4,8", "--out", OUT
        )
        for name in ("g.csv", "g.csv.gz", "g.parquet")
    ),
    # Beside a trace of requests it leaves one of the program: tests/cli/test_apps_command.py.
    Case("apps run", "out", "a.program.parquet", (*SMALL_APP, "--out", OUT)),
    _file(
        "apps record-sockets", "out", "s.parquet", "--users", "1", "--seconds", "0.1", "--out", OUT
    ),
    *(
        _file("record", "output", name, "-o", OUT, "--quiet", "--", sys.executable, "-c", SENDER)
        for name in ("r.parquet", "r.csv")
    ),
]
TIMELINE = Case("simulate", "timeline", "t.json", (a_program, "--timeline", OUT))
VERBS_TIMELINE = Case("verbs run", "timeline", "v.json", ("--timeline", OUT, a_verbs_program))
FILES = [*BY_NAME, TIMELINE, VERBS_TIMELINE]
FOLDERS = [
    Case(command, "out", "results", (*arguments, "--out", OUT))
    for command, *arguments in (
        ("replay", a_trace, "--design", "utlb"),
        ("curve", a_trace, "--entries", "4..16", "--ways", "1"),
        ("rcache", a_trace, "--entries", "4..16"),
        ("odp", a_trace, "--prefetch", "async"),
        ("path", a_trace, "--iommu", "strict"),
        ("apps collective", "barrier", "--nodes", "2", "--on", "trapeze", "--repeat", "1"),
        ("calibrate-host", "--memory", "4MiB", "--seconds", "0.1"),
        ("fit", a_count, "--trace", a_trace),
        ("explain", "--mr", "24GiB"),
        ("plan", "--pool", "1GiB"),
        ("register", "1GiB"),
        ("verbs bw", "--size", "64", "--iters", "4"),
        ("verbs lat", "--size", "64", "--iters", "4"),
        ("connections", "--qps", "2", "--threads", "2", "--outstanding", "2"),
        ("descriptors", a_trace),
        ("flow", "--count", "1", "--payload", "64"),
        ("size", a_trace, "--nic-memory", "4KiB", "--only", "utlb"),
        ("size", a_trace, "--target-miss", "5%"),
        ("latency", "--mechanism", "dma", "--bytes", "64"),
        ("simulate", a_trace, "--design", "utlb", "--requests", "3"),
        ("simulate", a_program),
        ("simulate", a_program_trace, "--design", "utlb"),
        ("reproduce", "utlb/table4", "--trace", a_trace),
        ("demo",),
    )
]
# Whose options come before the program, which may have some of its own.
FOLDERS.append(Case("verbs run", "out", "results", ("--out", OUT, a_verbs_program)))
# Whose files are in a folder of their own, or a new one.
NEW_FOLDERS = [Case("trace split", "folder", "parts", (a_trace, OUT))]
CASES = FILES + FOLDERS + NEW_FOLDERS
# Of each way to write and each ending one that takes little else: it is tried with everything.
QUICK = [
    *(case for case in FILES if case.command in ("trace make", "trace convert", "record")),
    *(case for case in FILES if case.name in ("g.csv", "s.parquet", "t.json")),
    *(case for case in FOLDERS if case.command in ("descriptors", "plan", "reproduce")),
    *(case for case in FOLDERS if case.label.startswith("simulate-program-results")),
]


def spread(pairs: Iterable[tuple[Case, Any]]) -> list[tuple[Case, Any]]:
    """Those of pairs of a case and another value that the gate takes, and not the long tests.

    All of the quick cases, and one of each other case, with the values in turn.
    """
    slow: dict[Case, list[tuple[Case, Any]]] = {}
    chosen = []
    for case, value in pairs:
        if case in QUICK:
            chosen.append((case, value))
        else:
            slow.setdefault(case, []).append((case, value))
    return chosen + [its[number % len(its)] for number, its in enumerate(slow.values())]


def commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every command of the command line, by its words."""
    return _commands(app, ())


def written_paths() -> set[tuple[str, str]]:
    """Command and parameter of every path that a command takes and does not read."""
    return {
        (command, parameter)
        for command, function in commands()
        for parameter, kind in get_type_hints(function).items()
        if kind is Path or {Path, list[Path]} & {*get_args(kind)}
    } - READ


def _commands(group: typer.Typer, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for command in group.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        yield " ".join((*words, name)), command.callback
    for inner in group.registered_groups:
        found = inner.typer_instance
        name = inner.name or found.info.name
        if found.registered_callback is not None:
            yield " ".join((*words, name)), found.registered_callback.callback
        yield from _commands(found, (*words, name))
