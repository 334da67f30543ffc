"""Checks a session: every byte arrived, and contents are what was requested."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.apps.interactive.servers import SHELL, SURROUNDINGS
from nicscope.apps.interactive.session import (
    HOMES,
    PARTS,
    SITE,
    Plan,
    kind_of,
    name_of,
    read_plan,
    typed,
)
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from pathlib import Path


class Participant(NamedTuple):
    """A process of the session and its transcripts."""

    pid: int
    kind: str
    user: int | None  # None: a server
    seen: dict[str, Any]

    @property
    def bytes_sent(self) -> int:
        """Bytes sent over all its connections."""
        return sum(each["sent"]["bytes"] for each in self.seen["transcripts"])

    @property
    def bytes_received(self) -> int:
        """Bytes received over all its connections."""
        return sum(each["received"]["bytes"] for each in self.seen["transcripts"])


def participants(folder: Path) -> list[Participant]:
    """All participants that finished, by process number."""
    found = []
    for path in sorted((folder / PARTS).glob("*.json"), key=lambda path: int(path.stem)):
        seen = json.loads(path.read_text())
        found.append(Participant(seen["pid"], seen["kind"], seen.get("user"), seen))
    return found


def check(folder: Path) -> list[Participant]:
    """The participants of a session that is over; ``SimulationError`` says what was wrong with it.

    Commands of shell users are run again for that, in their homes.
    """
    plan = read_plan(folder)
    found = participants(folder)
    users = {each.user: each for each in found if each.user is not None}
    missing = [name_of(user) for user in range(plan.users) if user not in users]
    if missing:
        raise SimulationError(f"{', '.join(missing)} did not come to an end")
    _check_ends(found)
    for number, user in users.items():
        if kind_of(number) == "shell":
            _check_typed(folder, plan, number, user)
        elif kind_of(number) == "web":
            _check_fetched(folder / SITE, number, user)
    _check_letters(found)
    return found


def _check_ends(found: list[Participant]) -> None:
    """Check that the bytes that one end sent are those that the other received."""
    ends: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for each in found:
        for told in each.seen["transcripts"]:
            is_client = each.user is not None
            ways = [told["sent"], told["received"]]
            whole = [told["client"], told["server"], *(ways if is_client else ways[::-1])]
            ends[is_client][json.dumps(whole)] += 1
    other = sorted((ends[True] - ends[False]) + (ends[False] - ends[True]))
    if other:
        raise SimulationError(f"ends of a connection have seen different bytes: {other[0]}")


def _check_typed(folder: Path, plan: Plan, number: int, user: Participant) -> None:
    """Check that each command was echoed, and that the output is what a script prints."""
    home = folder / HOMES / name_of(number)
    home.joinpath("mine").unlink(missing_ok=True)
    for command, (echoed, said) in zip(
        typed(plan.seed, number), user.seen["exchanges"], strict=True
    ):
        alone = subprocess.run(
            [SHELL, "-c", command],
            cwd=home,
            env=SURROUNDINGS | {"HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if (echoed, said) != (command, f"\n{alone.stdout}"):
            raise SimulationError(
                f"{name_of(number)} typed {command!r} and saw {echoed!r} and {said[:200]!r}, "
                f"where a script sees {alone.stdout[:200]!r}"
            )


def _check_fetched(site: Path, number: int, user: Participant) -> None:
    """Check that each fetched file equals the server's."""
    for name, digest in user.seen["fetched"]:
        if hashlib.sha256((site / name).read_bytes()).hexdigest() != digest:
            raise SimulationError(f"{name_of(number)} got {name} otherwise than it is")


def _check_letters(found: list[Participant]) -> None:
    """Check that each letter was fetched once, by its recipient, or is still in the mailbox."""
    sent: Counter[tuple[str, str]] = Counter()
    there: Counter[tuple[str, str]] = Counter()
    for each in found:
        if each.user is not None and each.kind == "mail":
            sent.update((to, digest) for to, digest in each.seen["sent"])
            there.update((name_of(each.user), digest) for digest in each.seen["fetched"])
        for name, digests in each.seen.get("waiting", {}).items():
            there.update((name, digest) for digest in digests)
    if sent != there:
        name, _ = next(iter((sent - there) + (there - sent)))
        raise SimulationError(f"a letter to {name} was lost, or came otherwise than it was sent")
