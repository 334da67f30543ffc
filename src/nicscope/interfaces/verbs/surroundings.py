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
import socket
import subprocess
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.device import PKEY
from nicscope.interfaces.verbs.processes import processes_joined
from nicscope.interfaces.verbs.world import here
from nicscope.interfaces.verbs_device.counters import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.interfaces.verbs.world import World

HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
NETDEV, NETDEV_INDEX = "nicscope-eth0", 1000  # the port, as the system's network would have it
POOL = 512  # huge pages that a program is told of; simulated ones take nothing of the system's
_COUNTER = re.compile(r"/sys/class/infiniband/([^/]+)/ports/1/((?:hw_)?counters)/(\w+)")
_PKEY = re.compile(r"/sys/class/infiniband/([^/]+)/ports/1/pkeys/(\d+)")


def answer_to(command: Any) -> str | None:
    """What a command prints, if it is one about the simulated device."""
    if isinstance(command, str) or not isinstance(command, (list, tuple)):
        return None
    words: Sequence[str] = [str(word) for word in command]
    if words[:3] == ["rdma", "link", "show"]:
        return json.dumps([_link(here())]) + "\n"
    if words[:1] == ["ip"] and {"-j", "addr", "show"} <= {*words} and words[-1] == NETDEV:
        return json.dumps([_interface(here())]) + "\n"
    if words[:1] != ["cat"] or len(words) != 2:
        return None
    counted, found = text_of(words[1]), _PKEY.fullmatch(words[1])
    if counted is not None:
        return counted
    if found is not None and found[1] == here().name and int(found[2]) == 0:
        return f"{PKEY:#06x}\n"
    return None


def _link(world: World) -> dict[str, Any]:
    told = {"ifindex": 0, "ifname": world.name, "port": 1, "state": "ACTIVE"}
    return {**told, "physical_state": "LINK_UP", "netdev": NETDEV, "netdev_index": NETDEV_INDEX}


def _interface(world: World) -> dict[str, Any]:
    """The interface of the network that the device's port is, by its addresses."""
    link, by_ip = (gid.raw for gid in world.gids())
    number = world.guid.to_bytes(8, "big")
    mac = ":".join(f"{each:02x}" for each in (*number[:3], *number[5:]))
    local = socket.inet_ntop(socket.AF_INET, by_ip[12:])
    six = socket.inet_ntop(socket.AF_INET6, link)
    addresses = [
        {"family": "inet", "local": local, "prefixlen": 24, "scope": "global", "label": NETDEV},
        {"family": "inet6", "local": six, "prefixlen": 64, "scope": "link"},
    ]
    told = {"ifindex": NETDEV_INDEX, "ifname": NETDEV, "link_type": "ether", "address": mac}
    flags = ["BROADCAST", "UP", "LOWER_UP"]
    return {**told, "flags": flags, "operstate": "UP", "addr_info": addresses}


def text_of(file: Any) -> str | None:
    """What a file says of the simulated node, if it says anything of that."""
    if not isinstance(file, (str, os.PathLike)):
        return None
    path = os.fspath(file)
    if path == HUGE_PAGES and here().facts.huge:
        return f"{POOL}\n"
    found = _COUNTER.fullmatch(path) if isinstance(path, str) else None
    if found is None or found[1] != here().name:
        return None
    counter = COUNTERS.get(found[3])
    if counter is None or counter.folder != found[2]:
        return None
    return f"{here().device.counters()[found[3]]}\n"


@contextlib.contextmanager
def system_answered() -> Iterator[None]:
    """Within the block, questions about the simulated node are not the system's to answer."""
    with _commands_answered(), _files_answered(), processes_joined():
        yield


@contextlib.contextmanager
def _files_answered() -> Iterator[None]:
    opened, is_file = builtins.open, os.path.isfile

    def open_(file: Any, *args: Any, **named: Any) -> Any:
        text = text_of(file)
        if text is None:
            return opened(file, *args, **named)
        mode = str(args[0] if args else named.get("mode", "r"))
        return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)

    builtins.open = io.open = open_  # pathlib's is the latter
    os.path.isfile = lambda path: text_of(path) is not None or is_file(path)
    try:
        yield
    finally:
        builtins.open = io.open = opened
        os.path.isfile = is_file


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
