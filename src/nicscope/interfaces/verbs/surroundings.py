"""What a program of verbs asks the system beside its device, answered for the simulated one.

Programs run commands that tell of a device's network and of its partitions.  Those that are about
a simulated device are answered; all others go to the system.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.device import PKEY
from nicscope.interfaces.verbs.world import here

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
POOL = 512  # huge pages that a program is told of; simulated ones take nothing of the system's
_PKEY = re.compile(r"/sys/class/infiniband/([^/]+)/ports/1/pkeys/(\d+)")


def answer_to(command: Any) -> str | None:
    """What a command prints, if it is one about the simulated device."""
    if isinstance(command, str) or not isinstance(command, (list, tuple)):
        return None
    words: Sequence[str] = [str(word) for word in command]
    if words[:3] == ["rdma", "link", "show"]:
        return json.dumps([]) + "\n"  # it has no interface of the system's network
    found = _PKEY.fullmatch(words[1]) if words[0] == "cat" and len(words) == 2 else None
    if found is not None and found[1] == here().name and int(found[2]) == 0:
        return f"{PKEY:#06x}\n"
    return None


def is_answered_file(file: Any) -> bool:
    """Whether a path is that of a file which says something else of the simulated node."""
    return file == HUGE_PAGES and here().facts.huge


@contextlib.contextmanager
def system_answered() -> Iterator[None]:
    """Within the block, questions about the simulated node are not the system's to answer."""
    with _commands_answered(), _files_answered():
        yield


@contextlib.contextmanager
def _files_answered() -> Iterator[None]:
    opened, is_file = builtins.open, os.path.isfile

    def open_(file: Any, *args: Any, **named: Any) -> Any:
        if is_answered_file(file):
            return io.StringIO(f"{POOL}\n")
        return opened(file, *args, **named)

    builtins.open = open_
    os.path.isfile = lambda path: is_answered_file(path) or is_file(path)
    try:
        yield
    finally:
        builtins.open, os.path.isfile = opened, is_file


@contextlib.contextmanager
def _commands_answered() -> Iterator[None]:
    asked = subprocess.check_output

    def check_output(*args: Any, **named: Any) -> Any:
        told = answer_to(args[0] if args else named.get("args"))
        if told is None:
            return asked(*args, **named)
        texts = ("text", "universal_newlines", "encoding", "errors")
        return told if any(named.get(name) for name in texts) else told.encode()

    subprocess.check_output = check_output
    try:
        yield
    finally:
        subprocess.check_output = asked
