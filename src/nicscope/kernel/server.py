"""The process that compiles requests of runs: ``python -m nicscope.kernel.server N``.

It has a session of its own, so that Ctrl-C in a terminal ends the command and not what is made for
the next one; it gives way to everything else on the machine, and leaves when nothing is asked for
any more, or when its time is over.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from nicscope.kernel import queue, store

if TYPE_CHECKING:
    from nicscope.kernel.queue import Request

_IDLE_S = 2.0  # that it stays with nothing to do: programs ask for more as they go on
_REST_S = 0.02
_MUCH = 6  # entries asked for at once, for which a second process is worth its start


def main(worker: int) -> int:
    """Works until no request is left; returns 0 also if another process does that already."""
    held = queue.lock(worker)
    if held is None:
        return 0
    os.nice(19)
    queue.give_back()
    try:
        work(worker, time.monotonic() + queue.AT_MOST_S)
    finally:
        store.keep_within()
    return 0


def work(worker: int, until: float) -> None:
    """Compiles requests, the heaviest first, until none is left or time is up."""
    idle_since = time.monotonic()
    is_helped = worker > 0 or (os.cpu_count() or 1) < queue.WORKERS
    while time.monotonic() < until:
        asked = queue.requests()
        if len(asked) >= _MUCH and not is_helped:
            is_helped = True
            queue.start(worker + 1)
        if asked:
            most = max(asked, key=lambda request: (request.spent_s, request.key))
            if not carry_out(worker, most):
                return
            idle_since = time.monotonic()
        elif time.monotonic() - idle_since > _IDLE_S:
            return
        else:
            time.sleep(_REST_S)


def carry_out(worker: int, request: Request) -> bool:
    """Compiles ``request`` and removes it, or records why that failed.

    False where this process had better leave: the source it has is not that of who asks any more,
    or nothing can be written.  What has nothing to do with the function is asked for again.
    """
    if not queue.take(request, worker):
        return True
    failure, goes_on = "", True
    try:
        goes_on = make(_function(request.module, request.name), request)
    except (ImportError, MemoryError, OSError) as error:
        print(f"{request.name}: {type(error).__name__}: {error}", file=sys.stderr)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    queue.answer(request, worker, failure)
    return goes_on


def _function(module: str, name: str) -> Any:
    found = getattr(import_module(module), name)
    return getattr(found, "function", found)


def make(function: Any, request: Request) -> bool:
    """Keep code under the key of ``request``; whether it could be kept."""
    from nicscope.kernel.entry import Version

    version = Version(function, queue.kind_of(request))
    if version.key != request.key:
        return False
    if store.read(version.key) is None:
        from nicscope.kernel.compiler.compiling import compiled

        refused = store.write(version.key, compiled(function, version.kind, version.key))
        if refused:
            print(f"{request.name}: {refused}", file=sys.stderr)
            return False
    return True


if __name__ == "__main__":
    status = main(int(sys.argv[1]))
    sys.stderr.flush()
    os._exit(status)  # the compiler takes a second to be torn down
