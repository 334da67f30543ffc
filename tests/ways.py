"""Counts the files and functions of ``src/`` that run on four ways through it: for ``make house``.

A send of verbs and one of VIA to their completions, ``nicscope size`` and ``nicscope reproduce
utlb`` from the shell's words to what is printed.  All but the last run without the compiler, so
that firmware counts as well as Python; imports, and what sets a connection up, do not count.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "bench"), str(ROOT / "tests" / "cli")]

PACKAGE = str(ROOT / "src" / "nicscope")
INTERPRETED, COMPILED = {"NUMBA_DISABLE_JIT": "1"}, {"NICSCOPE_COMPILE": "wait"}
SIZE = 64  # bytes of a message


class Seen:
    """The functions that ran while it watched."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str, int]] = set()

    def __enter__(self) -> Seen:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    def __str__(self) -> str:
        files = {file for file, _, _ in self.functions}
        return f"{len(files):5} files {len(self.functions):6} functions"


def verbs_send() -> Seen:
    """Of two messages the second: its post, and the polls of both ends."""
    import bench_verbs

    from nicscope.interfaces.verbs.base import World, use
    from nicscope.interfaces.verbs_device.device import Device

    world = World(Device("vmmc-interrupt"))
    use(world)
    left, right = bench_verbs.End(world.name), bench_verbs.End(world.name)
    left.connect(right)
    right.connect(left)
    bench_verbs.ping_pong(left, right, 2)
    right.receive()
    with Seen() as seen:
        left.send()
        left.wait()
        right.wait()
    return seen


def via_send() -> Seen:
    """Of two messages the second: its post, and the waits of both ends."""
    from nicscope.interfaces.via import Cluster, Reliability

    seen = Seen()

    async def begin(host, *, sends: bool):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag, Reliability.VIP_SERVICE_RELIABLE_DELIVERY)
        some = await nic.descriptors(tag, 2, segments=1)
        memory = await nic.register_mem(nic.allocate(SIZE), tag)
        if sends:
            await nic.connect_request(vi, 1, "way")
            return nic, vi, lambda: nic.post_send(vi, some.request(memory.segment()))
        for _ in range(2):
            await nic.post_recv(vi, some.request(memory.segment()))
        await nic.connect_accept(await nic.connect_wait("way"), vi)
        return nic, vi, None

    async def sender(host):
        nic, vi, post = await begin(host, sends=True)
        await post()
        await nic.send_wait(vi)
        with seen:
            await post()
            await nic.send_wait(vi)

    async def receiver(host):
        nic, vi, _ = await begin(host, sends=False)
        for _ in range(2):
            await nic.recv_wait(vi)

    cluster = Cluster()
    cluster.start(0, sender)
    cluster.start(1, receiver)
    cluster.run()
    return seen


def command(*words: str) -> Seen:
    """A command from the words of the shell on, the second time."""
    from nicscope.cli.app import main

    with contextlib.redirect_stdout(io.StringIO()):
        assert main([*words]) == 0  # has all imported
        with Seen() as seen:
            main([*words])
    return seen


def size() -> Seen:
    """Of a trace of forty requests."""
    from trace_files import write

    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "t.parquet")
        return command("size", str(trace), "--nic-memory", "128KiB")


WAYS: dict[str, tuple[Callable[[], Seen], dict[str, str]]] = {
    "verbs: a send to its completion": (verbs_send, INTERPRETED),
    "VIA: a send to its completion": (via_send, INTERPRETED),
    "nicscope size, from shell to table": (size, INTERPRETED),
    "nicscope reproduce utlb, no kernels": (lambda: command("reproduce", "utlb"), COMPILED),
}


def main() -> int:
    """Print how many files and functions each way takes; each has a process of its own."""
    if len(sys.argv) > 1:
        print(WAYS[sys.argv[1]][0]())
        return 0
    print("what runs on a way")
    for title, (_, settings) in WAYS.items():
        words = [sys.executable, __file__, title]
        done = subprocess.run(
            words, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True
        )
        print(f"{title:36}{done.stdout.rstrip()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
