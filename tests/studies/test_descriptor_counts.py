"""Descriptors of a trace against a plain list of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.studies.descriptor_counts import RULES, DescriptorCounts, Rule
from nicscope.traces.schema import Requests
from oracle.descriptor_counts import descriptors

KIND = {"node": np.int32, "pid": np.int32, "receive": np.uint8, "op": np.uint8}


def batch(rows):
    count = len(rows)
    columns = {name: np.zeros(count, kind) for name, kind in KIND.items()}
    columns["pid"][:] = [who for who, _, _ in rows]
    return Requests(
        time_ns=np.zeros(count, np.int64),
        **columns,
        address=np.array([address for _, address, _ in rows], np.uint64),
        length=np.array([length for _, _, length in rows], np.uint32),
    )


def counted(rows, rule, pieces=1):
    counts = DescriptorCounts(rule, 7, 3)
    for part in np.array_split(np.arange(len(rows)), pieces):
        if len(part):
            counts.feed(batch([rows[place] for place in part]))
    counts.end()
    return counts


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 25)), max_size=40)


@given(ROWS, st.booleans(), st.sampled_from((None, 1, 4, 8, 13)), st.integers(1, 5))
def test_it_counts_what_a_plain_list_has(rows, joins, size, pieces):
    rule = Rule(joins, size, 16)

    counts = counted(rows, rule, pieces)

    sizes = descriptors(rows, joins, size, 16)
    assert counts.descriptors == len(sizes)
    assert counts.byte_count == sum(sizes)
    assert counts.packets == sum(-(-one // 7) for one in sizes)
    assert counts.pcie_packets == sum(-(-one // 3) for one in sizes)
    assert (counts.smallest, counts.largest) == (min(sizes, default=0), max(sizes, default=0))
    assert counts.by_size.tolist()[:6] == [
        sum(1 << power <= one < 2 << power for one in sizes) for power in range(6)
    ]


@pytest.mark.parametrize(
    ("length", "many"), [(1 << 16, 1), ((1 << 16) + (1 << 14), 1), ((1 << 16) + (1 << 14) + 1, 2)]
)
def test_mooncake_lets_the_last_slice_be_a_quarter_longer(length, many):
    assert counted([(0, 0, length)], RULES["mooncake"]).descriptors == many
    assert counted([(0, 0, length)], RULES["nixl"]).descriptors == 1
