"""Runs of requests that are joined and looked up group by group, against page after page."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.replay import replay
from nicscope.drivers.replay.page_numbering import LEAST_BITS, NO_GRAIN, alignments_of
from nicscope.drivers.translation import OFFSET_STEP
from oracle import replay as oracle
from oracle.runs import edges_of, traces_of_runs
from trace_columns import Columns, columns_of, design_of

PAGE = 4096


def offset(ordinal, sets):
    return ordinal * OFFSET_STEP % sets


def halves(columns):
    middle = len(columns.node) // 2
    return [
        Columns(*(column[rows] for column in columns))
        for rows in (slice(0, middle), slice(middle, None))
        if len(columns.node[rows])
    ]


shapes = st.tuples(st.integers(0, 7), st.integers(0, 6)).map(
    lambda bits: (1 << max(bits), 1 << min(bits))
)


@given(rows=traces_of_runs(PAGE), shape=shapes, spread=st.booleans())
def test_replaying_groups_counts_what_the_oracle_counts_page_by_page(rows, shape, spread):
    entries, ways = shape
    flat = {"scheme": "utlb", "entries": entries, "ways": ways, "index_offset": spread}
    expected = oracle.replay(rows, flat, offset)
    batches = halves(columns_of(rows))
    alignments = alignments_of(batches, [PAGE])

    [result] = replay(batches, [design_of(flat)], page_size=PAGE, alignments=alignments)
    [plain] = replay(batches, [design_of(flat)], page_size=PAGE)

    for want, got in [
        (expected["total"], result.total),
        *zip(expected["nodes"], result.nodes, strict=True),
    ]:
        assert {name: got[name] for name in want} == want
    assert result == plain


@given(rows=traces_of_runs(PAGE), by_process=st.booleans(), bits=st.integers(12, 16))
def test_the_grain_is_the_coarsest_to_which_all_runs_are_aligned(rows, by_process, bits):
    edges = edges_of(rows, 1 << bits, by_process)
    bits_of = min((edge & -edge).bit_length() - 1 for edge in edges if edge)

    found = alignments_of(halves(columns_of(rows)), [1 << bits], by_process=by_process)[1 << bits]

    assert found.plain == (bits_of if bits_of >= LEAST_BITS else 0)
    ordinals = (
        1
        if by_process
        else max(len({(r[1], r[2]) for r in rows if r[1] == n}) for n in {row[1] for row in rows})
    )
    assert by_process or found.spread == (found.plain if ordinals == 1 else 0)


def test_requests_without_runs_are_not_read_to_their_end():
    rows = [(0, 0, 0, "send", PAGE * page, PAGE) for page in (5, 9, 2, 7)]
    columns = columns_of(rows)

    def batches():
        yield columns
        raise AssertionError("it was known that there is no grain")

    assert alignments_of(batches(), [PAGE]) == {PAGE: NO_GRAIN}


def test_runs_that_do_not_keep_to_the_grain_are_refused():
    aligned = columns_of([(0, 0, 0, "send", 16 * PAGE, 16 * PAGE)])
    other = columns_of([(0, 0, 0, "send", 3 * PAGE, PAGE), (0, 0, 0, "send", 0, PAGE)])
    flat = {"scheme": "utlb", "entries": 64, "ways": 1}

    with pytest.raises(ValueError, match="not aligned"):
        replay([aligned, other], [design_of(flat)], alignments=alignments_of([aligned], [PAGE]))


def test_a_run_over_many_pieces_is_looked_up_group_by_group():
    each, many = 1 << 14, 40_000  # bytes, requests: 10 MB in all, and twice
    address = np.arange(many, dtype=np.uint64) * np.uint64(each)
    columns = Columns(
        np.zeros(2 * many, np.int32),
        np.zeros(2 * many, np.int32),
        np.zeros(2 * many, np.uint8),
        np.concatenate([address, address]),
        np.full(2 * many, each, np.uint32),
    )
    alignments = alignments_of([columns], [PAGE])
    flat = {"scheme": "utlb", "entries": 1024, "ways": 1}

    [result] = replay([columns], [design_of(flat)], alignments=alignments)

    assert alignments[PAGE].plain == 8
    assert result.total["lookups"] == result.total["ni_misses"] == 2 * many * 4
    assert result.total["pin_calls"] == many
