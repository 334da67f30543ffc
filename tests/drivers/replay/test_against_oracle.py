"""The replay against the oracle: every count, every scheme, every setting."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Scheme
from nicscope.drivers.replay import replay
from nicscope.drivers.translation import OFFSET_STEP
from oracle import replay as oracle
from oracle.strategies import cases
from trace_columns import Columns, columns_of, design_of

OPS = list(oracle.PATHS)
PINNING_POLICIES = ("lru", "mru", "lfu", "mfu", "random")


def pieces(columns, cuts):
    """The same rows in batches that end at ``cuts``."""
    edges = [0, *sorted({cut % (len(columns.node) + 1) for cut in cuts}), len(columns.node)]
    return [
        Columns(*(column[begin:end] for column in columns))
        for begin, end in pairwise(edges)
        if end > begin
    ]


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


@pytest.mark.requirement(
    "SH-7", "UM-16", "UM-42", "UM-43", "UT-82", "MI-38", "MI-39", "MI-41", "MI-43"
)
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


@pytest.mark.requirement("UT-40", "UT-41", "UT-45")
@pytest.mark.parametrize("scheme", ["utlb", "utlb-shared", "utlb-process"])
@pytest.mark.parametrize("policy", PINNING_POLICIES[:-1])
@given(data=st.data())
def test_a_library_with_a_limit_alone_counts_what_the_oracle_counts(scheme, policy, data):
    rows, flat = data.draw(cases([scheme], policies=[policy]))
    flat.pop("prefetch", None)
    flat.pop("prepin", None)
    if scheme == "utlb-process":
        flat["replacement"] = policy
    else:
        flat |= {"pin_limit": data.draw(st.integers(1, 12)), "replacement": policy}
    if data.draw(st.booleans()):  # requests of a page each go another way
        rows = [(*row[:5], min(row[5], 512 - row[4] % 512)) for row in rows]
    agree(rows, flat, data.draw(st.lists(st.integers(0, 50), max_size=3)))
