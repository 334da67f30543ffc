"""Runs a session: the servers and all users, each a program of its own, until the last has left.

``python -m nicscope.apps.interactive.session FOLDER`` reads ``plan.json`` there, in a network
namespace of its own if that may be made, and says on standard output when a user has left.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from nicscope.apps.interactive import user_behaviour

PLAN, PARTS = "plan.json", "parts"
HOMES, SITE = "homes", "site"
NETWORK = "own_network"
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # of a network device


class Plan(NamedTuple):
    """The parameters of a session."""

    users: int
    seconds: float  # that each user's pauses last, all together
    seed: int
    receive_pages: int  # of each process

    @property
    def patience(self) -> float:
        """Seconds after which the session counts as hung."""
        return 60 + 4 * self.seconds + self.users


def set_out(folder: Path, plan: Plan) -> None:
    """Write the plan, the site and the homes of a session into ``folder``."""
    (folder / PLAN).write_text(json.dumps(plan._asdict()))
    for name in (PARTS, SITE, HOMES):
        (folder / name).mkdir()
    for name, content in user_behaviour.site(plan.seed).items():
        (folder / SITE / name).write_bytes(content)
    for user in range(plan.users):
        home = folder / HOMES / user_behaviour.name_of(user)
        home.mkdir()
        for name, text in user_behaviour.home(plan.seed, user).items():
            (home / name).write_text(text)


def read_plan(folder: Path) -> Plan:
    """What ``set_out`` has written."""
    return Plan(**json.loads((folder / PLAN).read_text()))


def has_own_network(folder: Path) -> bool:
    """Whether the session was run in a network namespace of its own."""
    return bool(json.loads((folder / NETWORK).read_text()))


def enter_own_network() -> bool:
    """Enter a network namespace with loopback alone; False if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_NETWORK):
        if libc.unshare(_NEW_USER | _NEW_NETWORK):
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _GET_FLAGS, asked))[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))
    return True


def run(folder: Path) -> int:
    """Run the session of ``folder``; 0 if all have come to their end."""
    plan = read_plan(folder)
    is_alone = enter_own_network()
    began: list[subprocess.Popen[str]] = []

    def part(*arguments: str, **more: Any) -> subprocess.Popen[str]:
        module = "nicscope.apps.interactive.servers"
        command = [sys.executable, "-m", module, str(folder), *arguments]
        made = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, **more)
        began.append(made)
        return made

    try:
        needed = user_behaviour.KINDS[: plan.users]
        servers = [part("serve", kind, stdout=subprocess.PIPE) for kind in needed]
        ports = [_first_line(server) for server in servers]
        (folder / NETWORK).write_text(json.dumps(is_alone))
        users = [part("use", str(user), *ports) for user in range(plan.users)]
        return _wait_for_users(users, time.monotonic() + plan.patience)
    finally:
        for each in began:
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
        for each in began:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(10)
            if each.poll() is None:
                each.kill()


def _first_line(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(server.stdout, selectors.EVENT_READ)
        said = server.stdout.readline().strip() if selector.select(60) else ""
    if not said:
        raise SystemExit("a server of the session has not begun")
    return said


def _wait_for_users(users: list[subprocess.Popen[str]], until: float) -> int:
    """Wait for every user; how many have finished."""
    left = 0
    failed = threading.Event()
    saying = threading.Lock()

    def see(user: subprocess.Popen[str]) -> None:
        nonlocal left
        try:
            if user.wait(max(until - time.monotonic(), 0.1)):
                failed.set()
        except subprocess.TimeoutExpired:
            failed.set()
        with saying:
            left += 1
            print(left, flush=True)

    seeing = [threading.Thread(target=see, args=(user,)) for user in users]
    for each in seeing:
        each.start()
    for each in seeing:
        each.join()
    return int(failed.is_set())


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
