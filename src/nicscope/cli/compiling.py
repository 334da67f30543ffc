"""``nicscope compile``: compile kernels ahead of their first use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Annotated

import typer

from nicscope.errors import NicscopeError
from nicscope.library.progress import progress

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope compile[/bold]\n\n"
    "[bold]nicscope compile simulate examples/unet_pingpong.py[/bold]\n\n"
    "[bold]nicscope compile --status[/bold]"
)
CONTEXT = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}
_LOOK_S = 0.1
# Of each kind of command one that is over soon, and enters what others of the kind enter.
_USUAL = (
    ("replay", "bundled:redis_server"),
    ("curve", "bundled:redis_server"),
    ("flow", "--platform", "p6-natoma", "--policy", "adaptive"),
    ("latency", "--bytes", "256"),
    ("simulate", "bundled:redis_server", "--design", "utlb", "--requests", "200"),
)


def compile_kernels(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="Command of nicscope whose kernels to compile. Default: those that "
            "most commands use."
        ),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Show how many kernels are compiled and how many wait.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop compiling, and forget the kernels that wait.")
    ] = False,
) -> None:
    """Compile kernels now, so that no later run begins slowly.

    Runs do not wait for the compiler: what one asks for is compiled beside it and after it, by a
    process of its own.  This runs COMMAND (without its output), then waits until all that it asked
    for is compiled.  NICSCOPE_COMPILE=wait|never|background says what any other command does.
    """
    from nicscope.kernel import queue, store

    if store.folder() is None or queue.folder() is None:
        raise NicscopeError(
            "nothing can be kept in the cache folder; name another by NUMBA_CACHE_DIR=FOLDER"
        )
    if stop:
        ended = queue.stop()
        print(f"ended: {' and '.join(map(str, ended))}" if ended else "nothing was being compiled")
    elif status:
        _say_status()
    else:
        _ask(command)
        _wait()
        _say_status()


def _ask(command: list[str] | None) -> None:
    """Run a command that requests kernels.  Errors: ``NicscopeError`` if it fails."""
    for arguments in [command] if command else _USUAL:
        print(f"running nicscope {' '.join(arguments)}", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "nicscope", *arguments],
            env={**os.environ, "NICSCOPE_COMPILE": "background"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            why = why.removeprefix("nicscope: ")
            raise NicscopeError(f"'nicscope {' '.join(arguments)}' failed: {why}")


def _wait() -> None:
    """Wait until no kernel is queued, keeping a compiling process alive."""
    from nicscope.kernel import queue

    most = left = queue.waiting()
    if left:
        print(f"compiling {left} kernels", file=sys.stderr, flush=True)
    with progress("compiling", "kernels") as watch:
        started_at = 0.0
        while left:
            if not queue.workers() and time.monotonic() - started_at > queue.START_S:
                started_at = time.monotonic()
                queue.start()
            time.sleep(_LOOK_S)
            left = queue.waiting()
            most = max(most, left)
            watch(most - left, most)


def _say_status() -> None:
    from nicscope.kernel import queue, store

    kept, size = store.size()
    print(f"{kept} kernels compiled, {size / 1e6:.1f} MB in {store.folder()}")
    working = queue.workers()
    if working or queue.waiting():
        who = (
            f"process {' and '.join(map(str, working))} compiles" if working else "nobody compiles"
        )
        print(f"{queue.waiting()} waiting; {who}")
    for failure in queue.failures():
        print(f"not compiled: {failure}")
