"""Every command of the command line, by quick runs of each: a new command gets its rows here.

What a run reads is tried as a stream and as what is no file (cli/test_reading_anything.py), what it
writes as all that an output may be (outputs), its tables at every width (reports), its standard
streams closed and full (outputs/test_standard_streams.py); and it has to say how far it is
(cli/test_long_commands_say_how_far.py).
"""

from __future__ import annotations

import re
import shlex
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import typer.main

from nicscope.cli.app import app
from nicscope.config.toml_files import CATALOG
from nicscope.traces.programs.schema import Operation, ProgramMetadata
from nicscope.traces.programs.writer import ProgramBuilder, write_program
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONG = "a-design-of-mine-with-forty-characters-x"
SENDER = "import socket; a, b = socket.socketpair(); a.send(b'x' * 10); b.recv(10)"
PROGRAM = b"""
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
VERBS_PROGRAM = b"""
from pyverbs.device import Context, get_device_list

with Context(name=get_device_list()[0].name.decode()) as context:
    print(context.query_port(1).max_mtu)
"""
# Its tests come to all that tests come to.
VERBS_TESTS = b"""
import unittest

class Its(unittest.TestCase):
    def test_passes(self): pass
    def test_skips(self): self.skipTest('there is no card')
    def test_fails(self): self.fail('it is another device')

unittest.main()
"""
COUNTERS = b'[{"hits": 9, "misses": 9}, {"page_size": "2M", "hits": 9, "misses": 1}]'
PLATFORM = (
    b'[costs]\nni_check = { value = 1, unit = "us", evidence = "assumed", source = "a guess" }\n'
)


def small_columns(count: int = 40) -> dict[str, list[Any]]:
    """The columns of a trace of requests over few pages on two nodes."""
    return {
        "time_ns": [*range(count)],
        "node": [i % 2 for i in range(count)],
        "pid": [7 + i % 3 for i in range(count)],
        "op": ["send" if i % 3 else "recv" for i in range(count)],
        "address": [0x10000 + 4096 * (i * i % 23) for i in range(count)],
        "length": [100 + 3000 * (i % 4) for i in range(count)],
    }


def a_trace(path: Path) -> None:
    origin = {"program": LONG, "command": ["serve", "--fast", "x" * 30, "a long word"]}
    write_trace(path, small_columns(), TraceMetadata(origin=origin))


def a_trace_of_peers(path: Path) -> None:
    columns = small_columns()
    columns["peer"] = [number % 5 for number in range(len(columns["node"]))]
    write_trace(path, columns, TraceMetadata())


def a_program_trace(path: Path) -> None:
    made = ProgramBuilder(ProgramMetadata(nodes_of_processes=[0, 1], memory_bytes=4096))
    for process in (0, 1):
        made.add(process, Operation.COMPUTE, duration_ns=100_000)
        made.add(process, Operation.FETCH, peer=1 - process, length=4096)
        made.add(process, Operation.BARRIER)
    write_program(path, made.trace())


def _of_the_catalog(name: str) -> tuple[str, bytes]:
    return ".toml", (CATALOG / f"{name}.toml").read_bytes()


# Of each kind of input how its name ends, and what is in it or what makes it.
INPUTS: dict[str, tuple[str, Any]] = {
    "trace": (".parquet", a_trace),
    "peers": (".parquet", a_trace_of_peers),
    "another": (".parquet", a_trace),
    "program_trace": (".program.parquet", a_program_trace),
    "csv": (".csv", b"time_ns,node,pid,op,address,length\n0,0,1,send,4096,100\n"),
    "lackey": (".log", b" L 1000,8\n S 2000,8\n"),
    "strace": (".log", b"1 1.0 recvfrom(0x3, 0x1000, 0x10, 0, 0, 0) = 0x10\n"),
    "oracle": (".bin", struct.pack("<IQIqIQIq", 0, 1, 100, -1, 1, 2, 100, -1)),
    "libcachesim": (".log", b"0,1,100\n1,2,100\n"),
    "mooncake": (
        ".log", b'{"timestamp": 0, "input_length": 512, "output_length": 2, "hash_ids": [7]}\n'
    ),
    "azure": (".log", b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,600,1\n"),
    # One of whose messages nobody sends.
    "goal": (".goal", b"num_ranks 2\nrank 0 {\nsend 8b to 1\nrecv 8b from 1\ncalc 5 cpu 1\n}\n"),
    "sizes": (".txt", b"1TiB\n64K # small\n"),
    "counters": (".json", COUNTERS),
    "program": (".py", PROGRAM),
    "verbs_program": (".py", VERBS_PROGRAM),
    "verbs_tests": (".py", VERBS_TESTS),
    "design": (".toml", b'scheme = "utlb"\nentries = 32\nplatform = "utlb-prototype"\n'),
    "platform": (".toml", PLATFORM),
    "delivery": _of_the_catalog("platforms/pentium2-440lx"),
    "via": _of_the_catalog("platforms/sonic-via"),
    "costs": _of_the_catalog("registrations/connectx"),
    "faults": _of_the_catalog("faults/connectx"),
    "path": _of_the_catalog("paths/connectx"),
    "ksm": _of_the_catalog("hypotheses/ksm"),
    "limits": _of_the_catalog("limits/efa"),
    "nic": _of_the_catalog("nics/connectx-6"),
}  # fmt: skip


def made(kind: str, folder: Path) -> Path:
    """The input of that kind in ``folder``; what tables name has a long name."""
    ending, content = INPUTS[kind]
    path = folder / f"{LONG if kind in ('trace', 'design') else kind}{ending}"
    if not path.exists():
        if callable(content):
            content(path)
        else:
            path.write_bytes(content)
    return path


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command of ``group`` by its words, and groups that are commands too."""
    for name, command in group.commands.items():
        below = hasattr(command, "commands")
        if not below or command.invoke_without_command:
            yield " ".join((*words, name)), command
        if below:
            yield from commands(command, (*words, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
_PLACE = re.compile(r"\{(\w+):?([^}]*)\}")


class Run(NamedTuple):
    """A quick run of a command."""

    # {trace} is an input of that kind; {out:a.csv|a.bin} what it writes, by all names that are
    # tried; without a point it is a folder.
    line: str
    silent: str = ""  # why it does not say how far it is
    heavy: bool = False  # takes too long, or for ever: what it does has tests of its own

    @property
    def command(self) -> str:
        first, *others = self.line.split()
        both = " ".join((first, *others[:1]))
        return both if both in COMMANDS else first

    @property
    def places(self) -> list[tuple[str, str, str]]:
        """What stands in braces: of which parameter, the kind, and names to write."""
        words = shlex.split(self.line)[len(self.command.split()) :]
        context = COMMANDS[self.command].make_context("", words, resilient_parsing=True)
        return [
            (parameter, *found)
            for parameter, value in context.params.items()
            for found in _PLACE.findall(str(value))
        ]

    @property
    def plain(self) -> Run:
        """The same without a folder of results."""
        return self._replace(line=re.sub(r" --out \{out:\w+\}", "", self.line))

    def words(self, folder: Path, *options: str, out: Any = None, **given: Any) -> list[str]:
        """The command line, ``options`` behind the command's name.

        It reads what is ``given`` by kind or made in ``folder``, and writes ``out``, or into the
        folder of that name in ``folder``.
        """

        def filled(found: re.Match[str]) -> str:
            kind, names = found.groups()
            if kind == "python":
                return sys.executable
            if kind == "out":
                (folder / "out").mkdir(exist_ok=True)
                return str(out or folder / "out" / names.partition("|")[0])
            return str(given.get(kind) or made(kind, folder))

        words = [_PLACE.sub(filled, word) for word in shlex.split(self.line)]
        begin = len(self.command.split())
        return [*words[:begin], *options, *words[begin:]]


# The first of each command prints what is no file: its standard streams are tried.
RUNS = (
    Run("replay {trace} --design utlb --out {out:results}"),
    Run("replay {trace} --design {design}"),
    Run("replay {peers} --design rnic --contexts 2 --work-requests 4 --out {out:results}"),
    Run("replay {trace} --design utlb --platform {platform}"),
    Run("simulate {trace} --design utlb --requests 3 --out {out:results}"),
    Run("simulate {trace} --design {design} --requests 3"),
    Run("simulate {program_trace} --design utlb --out {out:results}"),
    Run("simulate {program} --out {out:results}", silent="where it ends nobody knows"),
    Run("simulate {program} --timeline {out:t.json}", silent="where it ends nobody knows"),
    Run("curve {trace} --entries 4..16 --ways 1 --out {out:results}"),
    Run("curve {mooncake} --model kimi-k2"),
    Run(
        "rdma odp {trace} --prefetch async --fault-bytes 4KiB --costs {costs} --faults {faults}"
        " --out {out:results}"
    ),
    Run("rdma path {trace} --iommu off,strict --costs {path} --out {out:results}"),
    Run("rdma path {trace} --iommu ats --ordering relaxed,strict --costs {path}"),
    Run("rdma cache {trace} --entries 4..16 --costs {costs} --out {out:results}"),
    Run("rdma connections --qps 2 --threads 2 --outstanding 2 --nic {nic} --out {out:results}"),
    Run("rdma connections --qps 2 --threads 2 --outstanding 2 --outstanding-sum 3 --nic {nic}"),
    Run("rdma descriptors {trace} --nic {nic} --out {out:results}"),
    Run("rdma register 1TiB --costs {costs} --out {out:results}", silent="multiplies"),
    Run("rdma copy --costs {costs} --out {out:results}", silent="divides"),
    Run("rdma register --regions {sizes}", silent="multiplies"),
    Run("rdma plan --pool 1GiB --limits {limits},mooncake --out {out:results}", silent="divides"),
    Run("rdma explain --mr 24GiB --hypothesis {ksm},table --out {out:results}", "compares"),
    Run("rdma fit {counters} --trace {trace} --out {out:results}"),
    Run("flow --platform {delivery} --count 2 --payload 64 --out {out:results}"),
    Run("flow --to {delivery} --count 2"),
    Run("latency --platform {via} --mechanism dma --bytes 64 --out {out:results}"),
    Run("size {trace} --nic-memory 256B --only interrupt --out {out:results}"),
    Run("size {trace} --target-miss 5% --out {out:results}"),
    Run("sweep {trace} --design utlb --grid entries=4,8 --out {out:g.csv|g.csv.gz|g.parquet}"),
    Run(
        "sweep {trace} --design {design} --grid platform={platform},mini-cluster --out {out:g.csv}"
    ),
    Run("rdma calibrate --memory 4MiB --seconds 0.1 --out {out:results}"),
    Run("reproduce utlb/table4 --trace {trace} --out {out:results}"),
    Run("demo --out {out:results}", heavy=True),
    Run("explore {trace}", silent="its page shows how far it is", heavy=True),
    Run("compile --status", silent="counts; without --status it says it"),
    Run(
        f'record -o {{out:r.parquet|r.csv}} --quiet -- {{python}} -c "{SENDER}"',
        silent="its error stream is the recorded program's; it counts on a terminal",
    ),
    Run("designs", silent="reads the catalog"),
    Run("designs show {design}", silent="reads the catalog"),
    Run("designs new --from utlb", silent="reads the catalog"),
    Run("platforms", silent="reads the catalog"),
    Run("platforms show {platform}", silent="reads the catalog"),
    Run("platforms new --from utlb-prototype", silent="reads the catalog"),
    Run("trace make {out:m.csv|m.parquet|m.bin.gz} --requests 9"),
    Run("trace info {trace}"),
    Run("trace info {goal}"),
    Run("trace info {mooncake} --model kimi-k2"),
    Run("trace convert {trace} {out:t.csv|t.csv.zst|u.parquet|t.bin|t.bin.gz}"),
    Run("trace convert {csv} {out:u.parquet}"),
    Run("trace convert {lackey} {out:u.parquet}"),
    Run("trace convert {strace} {out:u.parquet}"),
    Run("trace convert {oracle} {out:t.csv} --from oracle-general"),
    Run("trace convert {libcachesim} {out:t.csv} --from libcachesim-csv"),
    Run("trace convert {mooncake} {out:t.csv} --model kimi-k2"),
    Run("trace convert {azure} {out:t.csv} --model kimi-k2"),
    Run("trace split {trace} {out:parts}"),
    Run("apps list", silent="reads the list of programs"),
    Run("apps run fft --size 1K --nodes 2 --processes 1"),
    # Beside a trace of requests it leaves one of the program: cli/test_apps_command.py.
    Run("apps run fft --size 1K --nodes 2 --processes 1 --out {out:a.program.parquet}"),
    Run("apps collective barrier --nodes 2 --on trapeze --repeat 1 --out {out:results}"),
    Run("apps kernel --policy adaptive --accesses 50 --megabytes 1 --out {out:results}"),
    Run("apps kernel --platform {delivery} --policy adaptive --accesses 50 --megabytes 1"),
    Run("apps record-sockets --users 1 --seconds 0.1 --out {out:s.parquet}"),
    Run("verbs bw --size 64 --iters 4 --design {design} --out {out:results}"),
    Run("verbs lat --size 64 --iters 4 --design {design} --out {out:results}"),
    # Options come before the program, which may have some of its own.
    Run("verbs run --out {out:results} {verbs_program}", "it says that its program runs"),
    # Of compiled programs, which tests/live runs where they are.
    Run(
        "verbs exec --design {design} --out {out:results} -- true",
        silent="its programs run",
        heavy=True,
    ),
    Run("verbs run --timeline {out:v.json} --design {design} {verbs_program}", "its program runs"),
    Run("verbs run --pcap {out:v.pcapng} --design {design} {verbs_program}", "its program runs"),
)
