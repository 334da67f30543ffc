"""Files a little, or very, unlike good ones: cut, flipped, spliced, extended, with odd values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from random import Random

ODD_NUMBERS = [
    b"0", b"-1", b"1", b"255", b"65536", b"2147483647", b"2147483648", b"4294967295",
    b"4294967296", b"4611686018427387904", b"9223372036854775807", b"9223372036854775808",
    b"18446744073709551615", b"18446744073709551616", b"-9223372036854775809", b"1e9", b"1e400",
    b"-0.0", b"nan", b"inf", b"0x7fffffffffffffff", b"0xffffffffffffffffff", b"1" * 30, b"9" * 5000,
    b"0x" + b"f" * 5000, b"", b"\xd9\xa3",
]  # fmt: skip
ODD_BYTES = [
    b"\0", b"\xff", b"\x80", b"\n", b"\r", b'"', b"'", b",", b"=", b"<", b"(", b"\x1b[2J", b"\\",
    b"\xc3\x28", b"\xed\xa0\x80", "\N{RIGHT-TO-LEFT OVERRIDE}".encode(), b"{", b"[", b"%s", b" ",
    "é\N{LINE SEPARATOR}".encode(),
]  # fmt: skip
_NUMBER = re.compile(rb"0x[0-9a-f]+|-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_]{3,}")
MOST_BYTES = 1 << 20
LONG = (100, 3000, 70_000)


class Given(NamedTuple):
    """What a change is made from."""

    random: Random
    samples: list[bytes]
    near_end: int


def mutated(random, samples, near_end=0):
    """One of ``samples``, changed in one to six ways; ``near_end``: bytes that matter most."""
    given = Given(random, samples, near_end)
    data = bytearray(random.choice(samples))
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = bytearray(random.choice(WAYS)(given, data))[:MOST_BYTES]
    return bytes(data)


def with_flips(random, samples, near_end=0):
    """One of ``samples`` in which one to three bits are not what they were."""
    given = Given(random, samples, near_end)
    data = bytearray(random.choice(samples))
    for _ in range(random.choice((1, 1, 2, 3))):
        place = min(_place(given, data), len(data) - 1)
        data[place] ^= 1 << random.randrange(8)
    return bytes(data)


def _place(given, data):
    if given.near_end and given.random.random() < 0.6:
        return given.random.randrange(max(0, len(data) - given.near_end), len(data) + 1)
    return given.random.randrange(len(data) + 1)


def _cut(given, data):
    return data[: _place(given, data)]


def _remove(given, data):
    begin = _place(given, data)
    return data[:begin] + data[begin + given.random.choice((1, 2, 4, 8, 100)) :]


def _flip(given, data):
    for _ in range(given.random.choice((1, 1, 1, 2, 8))):
        place = _place(given, data)
        if place < len(data):
            data[place] ^= 1 << given.random.randrange(8)
    return data


def _overwrite(given, data):
    begin = _place(given, data)
    odd = given.random.choice(ODD_BYTES + ODD_NUMBERS)
    data[begin : begin + len(odd)] = odd
    return data


def _insert(given, data):
    begin = _place(given, data)
    odd = given.random.choice(ODD_BYTES + ODD_NUMBERS)
    many = given.random.choice((1, 1, 2, *LONG)) if len(odd) < 10 else 1
    return data[:begin] + odd * many + data[begin:]


def _splice(given, data):
    other = given.random.choice(given.samples)
    begin, end = sorted(given.random.randrange(len(other) + 1) for _ in range(2))
    place = _place(given, data)
    return data[:place] + other[begin:end] + data[given.random.choice((place, len(data))) :]


def _repeat(given, data):
    begin = _place(given, data)
    piece = data[begin : begin + given.random.choice((1, 10, 100, len(data)))]
    return data[:begin] + piece * given.random.choice((2, 3, 50)) + data[begin:]


def _swap_lines(given, data):
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        a, b = (given.random.randrange(len(lines)) for _ in range(2))
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def _odd_number(given, data):
    return _replaced(given, data, _NUMBER, given.random.choice(ODD_NUMBERS))


def _odd_word(given, data):
    words = _WORD.findall(bytes(given.random.choice(given.samples))) or [b"x"]
    return _replaced(given, data, _WORD, given.random.choice(words + ODD_BYTES))


def _replaced(given, data, pattern, by):
    found = list(pattern.finditer(data))
    if not found:
        return data
    one = given.random.choice(found)
    return data[: one.start()] + by + data[one.end() :]


WAYS = [
    _cut, _remove, _flip, _flip, _overwrite, _insert, _splice, _repeat, _swap_lines, _odd_number,
    _odd_number, _odd_word,
]  # fmt: skip


def odd_tree(random, depth=0):
    """Something that JSON can say, or TOML but for null: nested, odd, now and then deep."""
    if depth > 40 or random.random() < 0.4:
        return random.choice(
            [0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e300, True, False, "", "x", "é\x1b[2J",
             "4096", "utlb", "\0", "a" * 3000, [], {}]
        )  # fmt: skip
    if random.random() < 0.5:
        return [odd_tree(random, depth + 1) for _ in range(random.choice((1, 1, 2, 3)))]
    keys = ("value", "at", "unit", "evidence", "source", "a", "", "é", "origin", "x" * 300)
    return {random.choice(keys): odd_tree(random, depth + 1) for _ in range(random.choice((1, 2)))}


def changed_tree(random, tree):
    """``tree`` with one of its values, anywhere, removed, replaced or doubled; it is changed."""
    holders = []
    left = [tree]
    while left:
        value = left.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in list(inner):
            holders.append((value, key))
            if isinstance(part, dict | list):
                left.append(part)
    if not holders:
        return tree
    holder, key = random.choice(holders)
    way = random.random()
    if way < 0.2:
        del holder[key]
    elif way < 0.4 and isinstance(holder, dict):
        holder[random.choice(("", "x", "é", "value", "costs", "entries"))] = holder.pop(key)
    else:
        holder[key] = odd_tree(random)
    return tree
