"""What every swarm has: a seed, its choices, and what must hold of honest traffic.

A swarm is one run of random programs on one cluster.  Honest ones write down what they do in a
``Stream``; what they saw is compared with it.  A hostile one may do anything, and nothing that is
honest notices.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = 4096
SECRET = hashlib.sha256(b"what is honest and private").digest()  # nobody else ever has these bytes
PS_PER_MS = 1_000_000_000


class RuleError(AssertionError):
    """Something that must hold does not."""


class Made(NamedTuple):
    """A swarm, ready to run."""

    cluster: Any
    title: str
    check: Callable[[list[Any]], None]  # of what the programs returned; raises ``RuleError``


class Chance:
    """All choices of one swarm."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def one_of(self, *choices):
        """Any of them."""
        return self._random.choice(choices)

    def upto(self, most, least=0):
        """A number from ``least`` to ``most``."""
        return self._random.randint(least, most)

    def odds(self, share):
        """True in that share of the cases."""
        return self._random.random() < share

    def us(self, most):
        """A time."""
        return self._random.random() * most

    def sample(self, things):
        """One of a list."""
        return self._random.choice(things)

    def child(self):
        """Choices of a program's own, so that no other's change them."""
        return Chance(str(self._random.getrandbits(64)))


def content(*key, count):
    """``count`` bytes that nobody else has, of everything in ``key``."""
    block = hashlib.sha256(repr(key).encode()).digest()
    return (block * (count // len(block) + 1))[:count]


def transport(chance, *, reliable=True):
    """Patient enough for disks."""
    return Transport(
        reliable=reliable,
        window=chance.one_of(1, 2, 8, 32),
        time_out_ps=chance.one_of(1, 3, 9) * PS_PER_MS,
        most_retries=chance.one_of(12, 40),
        ack_delay_ps=chance.one_of(0, 20_000_000),
        ack_every=chance.one_of(1, 4),
    )


def faults(chance, nodes, *, may_die=True):
    """A network that is perfect, or bad, or loses a node or a link."""
    rate = chance.one_of(0.0, 0.0, 0.02, 0.1)
    deaths = {}
    if may_die and chance.odds(0.2):
        deaths["node_deaths"] = {chance.upto(nodes - 1): chance.upto(20) * PS_PER_MS}
    if may_die and chance.odds(0.15):
        deaths["link_deaths"] = {chance.upto(2 * nodes - 1): chance.upto(20) * PS_PER_MS}
    return Faults(
        seed=chance.upto(2**32),
        loss=rate * chance.odds(0.7),
        duplication=rate * chance.odds(0.7),
        reordering=rate * chance.odds(0.7),
        corruption=rate * chance.odds(0.7),
        **deaths,
    )


class Stream:
    """What one process sends to another: messages in their order, and how each ended."""

    def __init__(self, *name):
        self.name = name
        self.sent = []
        self.ended = {}  # by message
        self.came = []
        self.is_over = False  # nothing more is sent
        self.is_heard = False  # its receiver took what came to the end

    def next(self, count):
        """A message of ``count`` bytes; its first eight say which it is, as far as they go."""
        number = len(self.sent)
        head = number.to_bytes(4, "little") + count.to_bytes(4, "little")
        message = (head + content(*self.name, number, count=count))[:count]
        self.sent.append(message)
        return message

    def check(self, *, reliable):
        """Every message that came was sent, once, in order; and of a reliable network all came."""
        place = 0
        for message in self.came:
            while place < len(self.sent) and self.sent[place] != message:
                place += 1
            if place == len(self.sent):
                raise RuleError(f"{self.name}: {message[:12]!r} came twice, late or unsent")
            place += 1
        if len(self.ended) < len(self.sent) and self.is_over:
            raise RuleError(
                f"{self.name}: {len(self.sent) - len(self.ended)} ended without a status"
            )
        if not reliable or not self.is_heard:
            return
        done = [
            self.sent[number] for number, status in sorted(self.ended.items()) if status == "done"
        ]
        missing = len(set(done) - set(self.came))
        if missing:
            raise RuleError(f"{self.name}: {missing} of {len(done)} messages done never came")


def refused(call):
    """What a library says to a call; None if it takes it.  Anything but a line is ``RuleError``."""
    try:
        call()
    except SimulationError as error:
        line = str(error)
        if "\n" in line or len(line) > 300:
            raise RuleError(f"no line: {line[:80]!r}") from None
        return line
    return None


def must_be(held, *what):
    """Raise ``RuleError`` unless it holds."""
    if not held:
        raise RuleError(" ".join(map(str, what)))
