"""Runs a session: the servers and all users, each a program of its own, until the last has left.

The users' actions and think times are drawn ahead from a seed.  Numbers that are somebody's: sizes
of files, and pauses between pages, are those of Barford and Crovella's model of the web (SIGMETRICS
1998).  All others are assumptions and say so.

``python -m nicscope.apps.interactive.session FOLDER`` reads ``plan.json`` there, in a network
namespace of its own if that may be made, and says on standard output when a user has left.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import json
import math
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
from random import Random
from typing import Any, NamedTuple

KINDS = ("shell", "web", "mail")  # in turn
COMMANDS = (10, 20)  # of a shell's user: fewest and most; assumed
PAGES = (10, 18)  # of a reader; assumed
ROUNDS = (6, 10)  # of whoever writes a letter and looks for new ones; assumed
SITE_PAGES = 40  # of the web server; assumed
FILE_MEDIAN_LOG, FILE_SPREAD = 9.357, 1.318  # lognormal, bytes
FILE_MOST = 133_000  # where the model's tail begins, which is left out
THINKING = 1.5  # shape of a Pareto distribution
LONGEST_THOUGHT = 100  # times the shortest; assumed
LETTER_MEDIAN_LOG, LETTER_SPREAD, LETTER_MOST = math.log(2000), 1.0, 50_000  # assumed
THOUGHT_KEYS = 20  # a command is thought about as long as that many keys take; assumed
WORDS = [
    "a",
    "host",
    "pins",
    "the",
    "page",
    "while",
    "its",
    "card",
    "has",
    "an",
    "entry",
    "for",
    "it",
]


class UserAction(NamedTuple):
    """An action of a user after a pause."""

    pause: float  # seconds
    what: str  # a key, a command, a page's name, or a user to write to
    size: int = 0  # bytes of a letter


def kind_of(user: int) -> str:
    """The kind of program that user number ``user`` uses."""
    return KINDS[user % len(KINDS)]


def name_of(user: int) -> str:
    """The login name of user number ``user``."""
    return f"user{user:02}"


def words(random: Random, size: int) -> str:
    """Text of about ``size`` bytes, in lines, some of which begin with a dot."""
    lines: list[str] = []
    length = 0
    while length < size:
        line = " ".join(random.choices(WORDS, k=random.randint(4, 12)))
        lines.append(f".{line}" if random.random() < 0.05 else line)
        length += len(lines[-1]) + 1
    return "\n".join(lines) + "\n"


def file_size(random: Random) -> int:
    """Bytes of a file of the web server."""
    return min(max(int(random.lognormvariate(FILE_MEDIAN_LOG, FILE_SPREAD)), 64), FILE_MOST)


def home(seed: int, user: int) -> dict[str, str]:
    """The files in a shell user's home directory, by name."""
    random = Random(f"{seed}/home/{user}")
    sizes = {"notes": 3000, "names": 900, "letter": 9000, "report": 20_000}
    return {name: words(random, random.randint(size // 2, size)) for name, size in sizes.items()}


def typed(seed: int, user: int) -> list[str]:
    """The commands of a shell user, in order."""
    random = Random(f"{seed}/typed/{user}")

    def one() -> str:
        file, word = random.choice(["notes", "names", "letter", "report"]), random.choice(WORDS)
        lines, numbers = random.randint(3, 40), (random.randint(2, 99), random.randint(2, 99))
        return random.choice(
            [
                "ls -1",
                "pwd",
                f"cat {file}",
                f"head -{lines} {file}",
                f"tail -{lines} {file}",
                f"wc -w {file}",
                f"grep {word} {file} | sort | uniq -c",
                f"sort {file} | tail -{lines}",
                f"expr {numbers[0]} \\* {numbers[1]}",
                f"echo {word} >> mine; cat mine",
            ]
        )

    return [one() for _ in range(random.randint(*COMMANDS))]


def site(seed: int) -> dict[str, bytes]:
    """The files of the web server, by name: pages, and their content."""
    random = Random(f"{seed}/site")
    files: dict[str, bytes] = {}
    for page in range(SITE_PAGES):
        embedded = min(int(random.paretovariate(2.43)), 20)  # pictures of a page, from 1
        pictures = [f"p{page}-{place}.img" for place in range(embedded)]
        files.update({name: random.randbytes(file_size(random)) for name in pictures})
        shown = "".join(f'<img src="{name}">\n' for name in pictures)
        body = words(random, file_size(random) // 2)
        files[f"p{page}.html"] = f"<html><body>\n{shown}<pre>{body}</pre></body></html>\n".encode()
    return files


def looked_at(seed: int, user: int, seconds: float) -> list[UserAction]:
    """The pages that a web user opens."""
    random = Random(f"{seed}/web/{user}")
    pages = [f"p{random.randrange(SITE_PAGES)}.html" for _ in range(random.randint(*PAGES))]
    pauses = _pauses(random, len(pages), seconds)
    return [UserAction(pause, page) for pause, page in zip(pauses, pages, strict=True)]


def written(seed: int, user: int, users: int, seconds: float) -> list[UserAction]:
    """The letters that a user writes, each to somebody who uses mail; after each come new ones."""
    random = Random(f"{seed}/mail/{user}")
    others = [each for each in range(users) if kind_of(each) == "mail"]
    count = random.randint(*ROUNDS)
    return [
        UserAction(pause, name_of(random.choice(others)), letter_size(random))
        for pause in _pauses(random, count, seconds)
    ]


def letter_size(random: Random) -> int:
    """Bytes of a letter."""
    drawn = int(random.lognormvariate(LETTER_MEDIAN_LOG, LETTER_SPREAD))
    return min(max(drawn, 100), LETTER_MOST)


def keys(seed: int, user: int, seconds: float) -> list[list[UserAction]]:
    """Each command that a shell's user types, key by key; the first key's pause is thinking."""
    random = Random(f"{seed}/keys/{user}")
    lines = [[*line, "\r"] for line in [*typed(seed, user), "exit"]]
    drawn = [_thought(random) for _ in itertools.chain(*lines)]
    first = set(itertools.accumulate((len(line) for line in lines[:-1]), initial=0))
    waits = [each * THOUGHT_KEYS if i in first else each for i, each in enumerate(drawn)]
    pauses = iter(_scaled(waits, seconds))
    return [[UserAction(next(pauses), key) for key in line] for line in lines]


def _pauses(random: Random, count: int, seconds: float) -> list[float]:
    return _scaled([_thought(random) for _ in range(count)], seconds)


def _thought(random: Random) -> float:
    return min(random.paretovariate(THINKING), LONGEST_THOUGHT)


def _scaled(waits: list[float], seconds: float) -> list[float]:
    """Pauses scaled to ``seconds`` in all: think times are long, only their ratios are kept."""
    share = seconds / sum(waits)
    return [each * share for each in waits]


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
    for name, content in site(plan.seed).items():
        (folder / SITE / name).write_bytes(content)
    for user in range(plan.users):
        own = folder / HOMES / name_of(user)
        own.mkdir()
        for name, text in home(plan.seed, user).items():
            (own / name).write_text(text)


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
        needed = KINDS[: plan.users]
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
