"""Page by page and with real frames, a scheme counts what its replay counts."""

import numpy as np
import pytest
from clusters import FRAME_BASE, Memory, drive, frames_on_nic, of_trace, pinned_pages
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Design, Scheme, with_settings
from nicscope.drivers.replay import replay
from nicscope.drivers.translation import (
    counts_of,
    new_translations,
    nic_memory_bytes,
    pin_actions_needed,
    space_numbering,
)
from nicscope.errors import DesignError
from nicscope.interfaces.ways import IN_TIME
from oracle.strategies import cases, designs
from trace_columns import Columns, columns_of, design_of

SCHEMES = [scheme.value for scheme in IN_TIME if scheme is not Scheme.PINNED]


def room_for_log(rows, design):
    return int(rows[:, 3].sum() + len(rows)) * 2 * pin_actions_needed(design, int(rows[:, 3].max()))


def driven(translations, rows, design):
    log = np.zeros((room_for_log(rows, design), 4), np.int64)
    logged, most, wrong = drive(translations, rows, log)
    assert wrong == 0
    assert most <= pin_actions_needed(design, int(rows[:, 3].max()))
    return log[:logged].tolist()


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_asking_and_serving_page_by_page_counts_what_replay_counts(scheme, data):
    rows, flat = data.draw(cases([scheme], max_bursts=10))
    design = design_of(flat)
    columns = columns_of([tuple(row) for row in rows])
    translations, requests, numbers = of_trace(columns, design)

    log = driven(translations, requests, design)

    expected = replay([columns], [design])[0]
    counts = {number: counts_of(translations, n) for n, number in enumerate(numbers)}
    assert [{"node": number, **counts[number]} for number in sorted(counts)] == expected.nodes
    sizes = [nic_memory_bytes(translations, n) for n in range(len(numbers))]
    assert max(sum(each.values()) for each in sizes) == sum(expected.nic_memory_bytes.values())
    check_deeds(translations, log, design, len(numbers))


def check_deeds(translations, log, design, nodes):
    """The deeds tell what is pinned and on the NIC, and every frame there was filled in."""
    for n in range(nodes):
        memory = Memory(design.line or 1)
        for node, *deed in log:
            if node == n:
                memory.follow(*deed)
        assert memory.pinned == pinned_pages(translations, n)
        on_nic = frames_on_nic(translations, n, design.scheme)
        if design.scheme == "utlb-process":  # a stale entry stays until its index is taken again
            on_nic = {page: frame for page, frame in on_nic.items() if page in memory.on_nic}
        assert memory.on_nic == set(on_nic)
        assert all(frame == FRAME_BASE + page for page, frame in on_nic.items())
        counts = counts_of(translations, n)
        assert counts["pins"] - counts["unpins"] == len(memory.pinned)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_programs_know_their_address_spaces_beforehand(scheme, data):
    flat = {**data.draw(designs(scheme)), "page_size": 4096}
    flat.pop("prepin", None)  # replay knows no end of an address space
    design = design_of(flat)
    pages = 8 * data.draw(st.integers(1, 5))
    one = st.tuples(st.integers(0, 2), st.integers(0, pages - 1), st.integers(1, 6), st.booleans())
    known = [(process, 0, 1, False) for process in range(3)]  # ordinals are those of replay
    drawn = data.draw(st.lists(one, min_size=1, max_size=25))
    runs = [(p, first, min(n, pages - first), r) for p, first, n, r in [*known, *drawn]]
    rows = np.array([(n, *run) for run in runs for n in range(2)], np.int64)
    translations = new_translations(
        design, [space_numbering(design, 3, pages)] * 2, [3] * 2, 6, pages_per_space=pages
    )

    log = driven(translations, rows, design)

    node, pid, first, count, receive = rows.T
    columns = Columns(
        node.astype(np.int32),
        pid.astype(np.int32),
        receive.astype(np.uint8),
        (first * 4096).astype(np.uint64),
        (count * 4096).astype(np.uint32),
    )
    expected = replay([columns], [design])[0]
    assert [{"node": n, **counts_of(translations, n)} for n in range(2)] == expected.nodes
    check_deeds(translations, log, design, 2)


def test_lines_fill_an_address_space():
    plain = Design(name="lines", title="lines", scheme=Scheme.HANDLE, page_size=4096)
    design = with_settings(plain, ["entries=32", "line=8"])

    with pytest.raises(DesignError, match=r"^lines of 8 pages do not fill .* 20 pages; make"):
        space_numbering(design, 2, 20)
