"""The users' scripts of a session: actions and think times, drawn ahead from a seed.

Numbers that are somebody's: sizes of files, and pauses between pages, are those of Barford and
Crovella's model of the web (SIGMETRICS 1998).  All others are assumptions and say so.
"""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import NamedTuple

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


def arrives_after(seed: int, user: int, seconds: float) -> float:
    """When the user arrives: all have arrived after a tenth of the time (assumed)."""
    return Random(f"{seed}/begin/{user}").uniform(0, seconds / 10)


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
        pictures = [f"p{page}-{place}.img" for place in range(_embedded(random))]
        files.update({name: random.randbytes(file_size(random)) for name in pictures})
        shown = "".join(f'<img src="{name}">\n' for name in pictures)
        body = words(random, file_size(random) // 2)
        files[f"p{page}.html"] = f"<html><body>\n{shown}<pre>{body}</pre></body></html>\n".encode()
    return files


def _embedded(random: Random) -> int:
    """How many pictures a page has: Pareto with shape 2.43, from 1."""
    return min(int(random.paretovariate(2.43)), 20)


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
