"""The replay against the oracle: every count, every scheme, every setting."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Design, with_settings
from nicscope.config.scheme import USES, Scheme
from nicscope.drivers.replay import replay
from nicscope.drivers.translation.build import OFFSET_STEP
from oracle import replay as oracle
from oracle.strategies import cases

OPS = list(oracle.PATHS)
PINNING_POLICIES = ("lru", "mru", "lfu", "mfu", "random")


class Columns(NamedTuple):
    node: np.ndarray
    pid: np.ndarray
    receive: np.ndarray
    address: np.ndarray
    length: np.ndarray


def columns_of(rows):
    _, node, pid, op, address, length = zip(*rows, strict=True)
    return Columns(
        np.array(node, np.int32),
        np.array(pid, np.int32),
        np.array([oracle.PATHS[name] == "receive" for name in op], np.uint8),
        np.array(address, np.uint64),
        np.array(length, np.uint32),
    )


def pieces(columns, cuts):
    """The same rows in batches that end at ``cuts``."""
    edges = [0, *sorted({cut % (len(columns.node) + 1) for cut in cuts}), len(columns.node)]
    return [
        Columns(*(column[begin:end] for column in columns))
        for begin, end in pairwise(edges)
        if end > begin
    ]


def design_of(flat):
    scheme = Scheme(flat["scheme"])
    plain = Design(name="drawn", title="drawn", scheme=scheme)
    known = [
        f"{key}={'none' if value is None else value}"
        for key, value in flat.items()
        if key in USES[scheme] and not (value is None and key not in ("pin_limit", "high_water"))
    ]
    return with_settings(plain, known)


def offset(ordinal, sets):
    return ordinal * OFFSET_STEP % sets


def rows_as_tuples(rows):
    return [tuple(r[c] for c in oracle.COLUMNS) if isinstance(r, dict) else tuple(r) for r in rows]


def agree(rows, flat, cuts):
    rows = rows_as_tuples(rows)
    expected = oracle.replay(rows, flat, offset)
    result = replay(pieces(columns_of(rows), cuts), [design_of(flat)])[0]
    for want, got in [
        (expected["total"], result.total),
        *zip(expected["nodes"], result.nodes, strict=True),
    ]:
        assert {name: got[name] for name in want} == want


schemes = [s.value for s in Scheme if not s.value.startswith("utlb")]


@pytest.mark.requirement("UM-16", "UM-42", "UM-43", "UT-82", "MI-38", "MI-39", "MI-41", "MI-43")
@pytest.mark.parametrize("scheme", schemes)
@given(data=st.data())
def test_replay_counts_what_the_oracle_counts(scheme, data):
    rows, flat = data.draw(cases([scheme]))
    agree(rows, flat, data.draw(st.lists(st.integers(0, 50), max_size=3)))


@pytest.mark.requirement("UT-14", "UT-23", "UT-25", "UT-26", "UT-41", "UT-42", "UT-81", "UT-91")
@pytest.mark.parametrize("scheme", ["utlb", "utlb-shared", "utlb-process"])
@pytest.mark.parametrize("policy", PINNING_POLICIES[:-1])
@given(data=st.data())
def test_replay_of_user_managed_tables_counts_what_the_oracle_counts(scheme, policy, data):
    rows, flat = data.draw(cases([scheme], policies=[policy]))
    agree(rows, flat, data.draw(st.lists(st.integers(0, 50), max_size=3)))
