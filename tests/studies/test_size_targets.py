"""``nicscope size --target-miss``: the fewest entries that miss so little, cache by cache."""

from __future__ import annotations

import json
from collections import OrderedDict
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import nicscope as ns
from nicscope.cli.app import app
from nicscope.studies.size_targets import CLIFF
from oracle.runs import traces_of_runs
from refusals import refused_command

NAMES = ("time_ns", "node", "pid", "op", "address", "length")


def table(rows):
    return pa.table(
        {name: list(column) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}
    )


def touched(rows, page_size):
    """The pages that each row looks up, and whose: plainly."""
    return [
        (node, pid, page)
        for _, node, pid, _, address, length in rows
        for page in range(address // page_size, (address + length - 1) // page_size + 1)
    ]


def missed(rows, page_size, entries, skip):
    """Misses and first lookups behind the first ``skip`` rows, with so many entries on each NIC."""
    caches: dict[int, OrderedDict] = {}
    seen, misses, firsts, lookups = set(), 0, 0, 0
    for place, row in enumerate(rows):
        for node, pid, page in touched([row], page_size):
            cache, key = caches.setdefault(node, OrderedDict()), (pid, page)
            counts = place >= skip
            lookups += counts
            misses += counts and key not in cache
            firsts += counts and (node, key) not in seen
            seen.add((node, key))
            cache[key] = True
            cache.move_to_end(key)
            if len(cache) > entries:
                cache.popitem(last=False)
    return lookups, misses, firsts


def fewest(rows, page_size, skip, allowed):
    pages = len(set(touched(rows, page_size)))
    for entries in range(1, pages + 1):
        if missed(rows, page_size, entries, skip)[1] <= allowed:
            return entries
    return None


@given(
    rows=traces_of_runs(4096, most=6), percent=st.sampled_from([0, 5, 30, 60, 100]), data=st.data()
)
def test_so_many_entries_are_the_fewest_that_a_cache_needs(rows, percent, data):
    skip = data.draw(st.integers(0, len(rows) - 1))
    page_size = data.draw(st.sampled_from([4096, 16384]))
    lookups, _, firsts = missed(rows, page_size, 1, skip)

    shown = ns.size(table(rows), target_miss=f"{percent}%", page_size=page_size, skip=skip)

    [found] = shown.as_json()["targets"]
    share = percent / 100
    assert (found["lookups"], found["ni_misses_compulsory"]) == (lookups, firsts)
    assert found["entries"] == fewest(rows, page_size, skip, share * lookups)
    rest = firsts + share * (lookups - firsts)
    assert found["steady_entries"] == fewest(rows, page_size, skip, rest)
    if found["entries"] is not None:
        assert found["ni_misses"] == missed(rows, page_size, found["entries"], skip)[1]


def loop(pages, rounds=4):
    return table(
        [(0, 0, 0, "send", 4096 * 3 * page, 4096) for _ in range(rounds) for page in range(pages)]
    )


def test_a_loop_has_a_cliff_where_it_fits():
    shown = ns.size(loop(64), target_miss=0.3, page_size=4096)

    [found] = shown.as_json()["targets"]
    assert (found["entries"], found["ni_misses"]) == (64, 64)
    cliff = found["cliff"]
    assert cliff["entries"] < 64 <= 2 * cliff["entries"]
    assert (cliff["ni_misses"], cliff["ni_misses_of_twice"]) == (256, 64)
    told = " ".join(shown.summary())
    assert "In pages of 4 KiB 64 entries miss at most 30 % of lookups." in told
    assert "There is a cliff:" in told
    assert "100.00 of 100 lookups, twice as many 25.00" in told


def test_a_gentle_curve_has_none():
    rows = [
        (0, 0, 0, "send", 4096 * 2 * page, 4096)
        for far in (1, 4, 16, 64, 256)
        for page in [*range(far), *range(far)]
    ]
    [found] = ns.size(table(rows), target_miss="50%", page_size=4096).as_json()["targets"]
    pages = [2**bits for bits in range(9)]
    misses = [missed(rows, 4096, entries, 0)[1] for entries in pages]
    falls = [before - after for before, after in pairwise(misses)]
    assert (found["cliff"] is None) == (max(falls) < CLIFF * (misses[0] - misses[-1]))


def test_where_first_lookups_are_too_many_that_is_said():
    told = " ".join(ns.size(loop(64), target_miss="1%", page_size=4096).summary())

    assert "no cache misses as few as 1 % of lookups: 25.00 % are the first of a page" in told
    assert "of all others 64 entries miss at most 1 %" in told


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--target-miss", "much"], ["--target-miss", "share"]),
        (["--target-miss", "101%"], ["--target-miss", "share"]),
        (["--target-miss", "1%", "--nic-memory", "1M"], ["--nic-memory", "--target-miss"]),
        (["--target-miss", "1%", "--page-size", "5K"], ["page_size"]),
        (["--target-miss", "1%", "--skip", "99999999"], ["nothing"]),
        (["--nic-memory", "1M", "--skip", "3"], ["--skip", "--target-miss"]),
        ([], ["--nic-memory BYTES", "--target-miss SHARE"]),
    ],
)
def test_a_mistake_is_one_line(words, facts, capsys):
    refused_command(capsys, ["size", "bundled:redis_server", *words], *facts)


@pytest.mark.compiled
def test_the_command_that_is_told_gives_the_same():
    shown = ns.size("bundled:redis_server", target_miss="5%", page_size="4KiB,2MiB", skip=1000)
    command = shown.as_json()["repeat"]["command"]

    again = CliRunner().invoke(app, [*command[1:], "--json"])

    assert json.loads(again.stdout)["targets"] == shown.as_json()["targets"]
