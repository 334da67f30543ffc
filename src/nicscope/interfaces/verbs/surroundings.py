"""What a program of verbs asks the system beside its device, answered for the simulated one.

Programs run commands that tell of a device's network and of its partitions.  Those that are about
a simulated device are answered; all others go to the system.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.device import PKEY
from nicscope.interfaces.verbs.world import here

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PKEY = re.compile(r"/sys/class/infiniband/([^/]+)/ports/1/pkeys/(\d+)")


def answer_to(command: Any) -> str | None:
    """What a command prints, if it is one about the simulated device."""
    if isinstance(command, str) or not isinstance(command, (list, tuple)):
        return None
    words: Sequence[str] = [str(word) for word in command]
    if words[:3] == ["rdma", "link", "show"]:
        return json.dumps([]) + "\n"  # it has no interface of the system's network
    if words[0] == "cat" and len(words) == 2 and (found := _PKEY.fullmatch(words[1])):
        if found[1] == here().name and int(found[2]) == 0:
            return f"{PKEY:#06x}\n"
    return None


@contextlib.contextmanager
def commands_answered() -> Iterator[None]:
    """Within the block, commands about the simulated device are answered without a process."""
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
