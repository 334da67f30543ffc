"""What recording costs a program, beside strace's cost: python bench/record_overhead.py.

The same little program runs plain, recorded and under strace (where that is installed), one after
the other, again and again, so that other work on the machine falls on all alike: calls on a socket
pair, which are stopped at twice, and calls on a pipe, which are stopped at once to see that it is
no socket.  What each took beyond the plain run of its round is compared; medians are printed.  Then
what a recording takes to begin and end: a program that sends one byte, and nothing else.  With
``--verbs`` what recording a posted RDMA request takes instead: over a library of one card that does
nothing (tests/live/stub_card.c), in a processor's time, with the files on disk and in memory.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

CALLS = 20_000
ROUNDS = 7
POSTED = 500_000  # RDMA requests of a round
KINDS = {
    "send, recv": "import socket; a, b = socket.socketpair(); put, get = a.send, b.recv_into",
    "sendmsg, recvmsg_into of 2 segments": (
        "import socket; a, b = socket.socketpair(); x, y = bytearray(32), bytearray(32);"
        "put = lambda data: a.sendmsg((data, data)); get = lambda into: b.recvmsg_into((x, y))"
    ),
    "write, read on a pipe": (
        "import os; r, w = os.pipe();"
        "put = lambda data: os.write(w, data); get = lambda into: os.read(r, 64)"
    ),
}
PROGRAM = """
import json, sys, time, socket
{kind}
# One row at least, whatever the kind.
one, other = socket.socketpair(); one.send(b'x'); other.recv(1)
data, into = b'x' * 32, bytearray(64)
start = time.perf_counter()
for _ in range({calls} // 2):
    put(data); get(into)
print(json.dumps((time.perf_counter() - start) / max({calls}, 1) * 1e6))
"""
SHORT = "import socket; a, b = socket.socketpair(); a.send(b'x')"
TRACED = (
    "read,write,readv,writev,preadv2,pwritev2,recvfrom,sendto,recvmsg,sendmsg,recvmmsg,sendmmsg,"
    "sendfile,splice,io_uring_setup,io_uring_enter"
)


class Spent(NamedTuple):
    """What a program took."""

    wall_us: float  # of a call, as it says itself
    cpu_us: float  # of a call, the tracer's too, but not what it takes to begin and end


def spent(before: list[str], kind: str) -> Spent:
    cpu = []
    for calls in (CALLS, 0):
        program = PROGRAM.format(kind=kind, calls=calls)
        earlier = _cpu_s()
        done = subprocess.run(
            [*before, sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
        cpu.append(_cpu_s() - earlier)
        if calls:
            wall_us = float(json.loads(done.stdout))
    return Spent(wall_us, (cpu[0] - cpu[1]) / CALLS * 1e6)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def compare(kind: str, ways: dict[str, list[str]]) -> None:
    rounds = [{name: spent(before, kind) for name, before in ways.items()} for _ in range(ROUNDS)]
    for name in list(ways)[1:]:
        wall = statistics.median(each[name].wall_us - each["plain"].wall_us for each in rounds)
        cpu = statistics.median(each[name].cpu_us - each["plain"].cpu_us for each in rounds)
        print(f"  {name}: {wall:.1f} us more a call, {cpu:.1f} us of them a processor's")
    if "strace" in ways:
        wall, cpu = (
            statistics.median(
                (each["record"][of] - each["plain"][of]) / (each["strace"][of] - each["plain"][of])
                for each in rounds
            )
            for of in (0, 1)
        )
        print(f"  record over strace: {wall:.2f} in wall time, {cpu:.2f} in a processor's")


def verbs() -> None:
    from nicscope.live.build import HERE, VERBS, built, compiler
    from nicscope.studies.verbs_recording import environment_of

    sources = Path(__file__).parents[1] / "tests" / "live"
    with tempfile.TemporaryDirectory() as folder:
        card, program = Path(folder) / VERBS, Path(folder) / "asking"
        words = [compiler(), "-O2", f"-I{HERE}"]
        shared = ["-fPIC", "-shared", f"-Wl,-soname,{VERBS}", "-o", str(card)]
        subprocess.run([*words, str(sources / "stub_card.c"), *shared], check=True)
        linked = [str(card), "-lpthread", f"-Wl,-rpath,{folder}", "-o", str(program)]
        subprocess.run([*words, str(sources / "asking.c"), *linked], check=True)
        ways: dict[str, str | None] = {"plain": None, "on disk": None, "in memory": "/dev/shm"}
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, where in ways.items():
                with tempfile.TemporaryDirectory(dir=where) as files:
                    environment = dict(os.environ)
                    if name != "plain":
                        environment = environment_of(built(), Path(files), environment)
                    done = subprocess.run(
                        [program, "time", str(POSTED)],
                        check=True, capture_output=True, text=True, env=environment,
                    )  # fmt: skip
                took[name].append(statistics.median(map(float, done.stdout.split())))
        medians = {name: statistics.median(each) for name, each in took.items()}
        for name in [*ways][1:]:
            more = medians[name] - medians["plain"]
            print(f"a posted request, {name}: {more:.0f} ns more than {medians['plain']:.0f}")


def main() -> None:
    if sys.argv[1:] == ["--verbs"]:
        verbs()
        return
    with tempfile.TemporaryDirectory() as folder:
        trace, log = (str(Path(folder) / name) for name in ("trace.parquet", "log"))
        recorder = [sys.executable, "-m", "nicscope", "record", "--quiet", "-o", trace, "--"]
        ways = {"plain": [], "record": recorder}
        if shutil.which("strace"):
            ways["strace"] = ["strace", "-f", "--seccomp-bpf", "-e", f"trace={TRACED}", "-o", log]
        for name, kind in KINDS.items():
            print(name, flush=True)
            compare(kind, ways)
        short = [sys.executable, "-I", "-S", "-c", SHORT]
        more = [seconds([*recorder, *short]) - seconds(short) for _ in range(ROUNDS)]
        print(f"to begin and end: {statistics.median(more):.2f} s more, at best {min(more):.2f} s")


if __name__ == "__main__":
    main()
