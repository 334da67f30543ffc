"""Files a little, or very, unlike good ones: cut, flipped, spliced, extended, with odd values."""

from __future__ import annotations

import re

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
LONG = (100, 3000, 70_000)


def mutated(random, samples, near_end=0):
    """One of ``samples``, changed in one to six ways; ``near_end``: bytes that matter most."""
    data = bytearray(random.choice(samples))
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = bytearray(random.choice(WAYS)(random, data, samples, near_end))
    return bytes(data)


def _place(random, data, near_end):
    if near_end and random.random() < 0.6:
        return random.randrange(max(0, len(data) - near_end), len(data) + 1)
    return random.randrange(len(data) + 1)


def _cut(random, data, samples, near_end):
    return data[: _place(random, data, near_end)]


def _remove(random, data, samples, near_end):
    begin = _place(random, data, near_end)
    return data[:begin] + data[begin + random.choice((1, 2, 4, 8, 100)) :]


def _flip(random, data, samples, near_end):
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        place = _place(random, data, near_end)
        if place < len(data):
            data[place] ^= 1 << random.randrange(8)
    return data


def _overwrite(random, data, samples, near_end):
    begin = _place(random, data, near_end)
    odd = random.choice(ODD_BYTES + ODD_NUMBERS)
    data[begin : begin + len(odd)] = odd
    return data


def _insert(random, data, samples, near_end):
    begin = _place(random, data, near_end)
    odd = random.choice(ODD_BYTES + ODD_NUMBERS)
    many = random.choice((1, 1, 2, *LONG)) if len(odd) < 10 else 1
    return data[:begin] + odd * many + data[begin:]


def _splice(random, data, samples, near_end):
    other = random.choice(samples)
    begin, end = sorted(random.randrange(len(other) + 1) for _ in range(2))
    place = _place(random, data, near_end)
    return data[:place] + other[begin:end] + data[random.choice((place, len(data))) :]


def _repeat(random, data, samples, near_end):
    begin = _place(random, data, near_end)
    piece = data[begin : begin + random.choice((1, 10, 100, len(data)))]
    return data[:begin] + piece * random.choice((2, 3, 50)) + data[begin:]


def _swap_lines(random, data, samples, near_end):
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        a, b = (random.randrange(len(lines)) for _ in range(2))
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


def _odd_number(random, data, samples, near_end):
    return _replaced(random, data, _NUMBER, random.choice(ODD_NUMBERS))


def _odd_word(random, data, samples, near_end):
    words = _WORD.findall(bytes(random.choice(samples))) or [b"x"]
    return _replaced(random, data, _WORD, random.choice(words + ODD_BYTES))


def _replaced(random, data, pattern, by):
    found = list(pattern.finditer(data))
    if not found:
        return data
    one = random.choice(found)
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
