"""Long requests, many processes and nodes, huge pages, the end of the address space."""

import numpy as np
import pytest
from test_against_oracle import Columns, agree, columns_of, design_of

from nicscope.drivers.replay import columns as partition
from nicscope.drivers.replay import replay

PAGE = 4096
END = 2**64
ONE_OF_EACH = [
    {"scheme": "pinned", "area_bytes": 8192},
    {"scheme": "static", "entries": 64},
    {"scheme": "interrupt", "entries": 16, "ways": 2, "pin_limit": 9},
    {"scheme": "unet-mm", "entries": 16, "victim_entries": 3},
    {"scheme": "utlb", "entries": 16, "prefetch": 3, "prepin": 4},
    {"scheme": "utlb", "entries": 16, "pin_limit": 9, "replacement": "lfu", "prepin": 4},
    {"scheme": "utlb-shared", "entries": 16, "ways": 4, "pin_limit": 9, "prefetch": 2},
    {"scheme": "utlb-process", "entries": 8, "prepin": 2},
    {"scheme": "handle", "entries": 64, "line": 4, "ways": 2, "high_water": 90},
]


def named(flat):
    return flat["scheme"]


@pytest.mark.parametrize("flat", ONE_OF_EACH, ids=named)
def test_the_last_bytes_of_the_address_space_are_like_any_others(flat):
    rows = []
    for i in range(40):
        length = 1 + 700 * (i % 17)
        rows.append((0, 0, i % 2, "send", END - length - PAGE * (i * i % 11), length))
    rows.append((0, 0, 0, "recv", END - 1, 1))
    agree(rows, flat, [13])


@pytest.mark.parametrize("page_size", [2 << 20, 1 << 30])
@pytest.mark.parametrize("flat", ONE_OF_EACH, ids=named)
def test_huge_pages_are_pages(flat, page_size):
    rows = []
    for i in range(60):
        page = (i * i) % 37 if i % 3 else 2**64 // page_size - 3
        rows.append((0, i % 2, 1, "write", page * page_size + page_size // 2, page_size))
    agree(rows, {**flat, "page_size": page_size}, [7, 20])


@pytest.mark.parametrize("flat", ONE_OF_EACH, ids=named)
def test_more_processes_and_nodes_than_the_directory_first_has_room_for(flat):
    rows = [(0, 3 * (i % 290), i % 3, "send", PAGE * (i % 5), PAGE) for i in range(600)]
    rows += [(0, 4, 10_000 + i, "recv", PAGE * (i % 3), PAGE) for i in range(300)]
    agree(rows, flat, [100, 777])


@pytest.mark.requirement("UM-59c")
def test_unet_mm_pins_as_much_for_three_hundred_processes_as_for_one():
    flat = {"scheme": "unet-mm", "entries": 64, "victim_entries": 16}
    peaks = []
    for processes in (1, 300):
        rows = [(0, 0, i % processes, "send", PAGE * (i // 3), PAGE) for i in range(900)]
        result = replay([columns_of(rows)], [design_of(flat)])[0]
        peaks.append(result.total["peak_pinned_pages"])
    assert peaks == [80, 80]


@pytest.mark.parametrize("kinds", [True, False])
@pytest.mark.parametrize(
    ("pages", "units"), [(3_000, 512), pytest.param(70_000, 65_536, marks=pytest.mark.compiled)]
)
def test_one_request_may_be_longer_than_any_stretch(pages, units, kinds, monkeypatch):
    monkeypatch.setattr(partition, "UNITS", units)
    rows = [
        (0, 0, 1, "send", PAGE, PAGE),
        (0, 0, 1, "recv", 0, pages * PAGE),
        (0, 0, 1, "send", 5 * PAGE, PAGE),
    ]
    flats = [
        {"scheme": "utlb", "entries": 1024},
        {"scheme": "utlb", "entries": 1024, "pin_limit": 100},
        {"scheme": "static", "entries": 2048},
        {"scheme": "handle", "entries": 1024, "line": 16},
    ]
    fetched, rejected, full, handled = (
        result.total
        for result in replay([columns_of(rows)], [design_of(flat) for flat in flats], kinds=kinds)
    )
    assert fetched["lookups"] == fetched["pins"] + 2 == pages + 2
    # page 1 is still there, page 5 is not when it is asked for again
    assert fetched["ni_misses"] == 1 + (pages - 1) + 1
    assert (rejected["rejected"], rejected["pins"]) == (1, 2)
    assert (full["pins"], full["rejected"]) == (2048, pages - 2048)
    lines = -(-pages // 16)
    assert (handled["ni_misses"], handled["pins"]) == (lines + 1, 16 * lines)


def many(rows):
    """Requests of three pages by three processes that come back to 3000 pages."""
    page = (np.arange(rows, dtype=np.uint64) * 7919) % 3000
    return Columns(
        np.zeros(rows, np.int32),
        np.arange(rows, dtype=np.int32) // 1000 % 3,
        (np.arange(rows) % 2).astype(np.uint8),
        page * PAGE,
        np.full(rows, 3 * PAGE, np.uint32),
    )


@pytest.mark.parametrize(
    ("rows", "stretch"), [(500, 64), pytest.param(100_000, 1 << 15, marks=pytest.mark.compiled)]
)
def test_a_trace_longer_than_a_stretch_counts_as_its_parts_do(rows, stretch, monkeypatch):
    columns = many(rows)
    designs = [design_of(flat) for flat in ONE_OF_EACH]
    whole = replay([columns], designs)
    step = stretch * 2 // 7
    small = [
        Columns(*(column[at : at + step] for column in columns)) for at in range(0, rows, step)
    ]
    monkeypatch.setattr(partition, "ROWS", stretch)
    monkeypatch.setattr(partition, "UNITS", 2 * stretch)
    assert replay(small, designs) == replay([columns], designs) == whole
    assert whole[0].total["requests"] == rows
