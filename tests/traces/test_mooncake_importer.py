"""Mooncake's traces: what a pool finds, where it lies, how transfers cut it."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.language_model import language_model_names, load_language_model
from nicscope.library.kv_cache import kv_choices
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices, KvChoices
from nicscope.traces.importers.services import ALIGNED, BASE, Pool, place
from oracle import kv_pool as oracle

# Of a token, as the makers of traces and stores print it (KiB where they do).
PRINTED = {
    "llama-3.1-8b": 131_072,
    "llama-3-70b": 327_680,
    "llama-3.1-405b": 516_096,
    "qwen2.5-7b": 57_344,
    "qwen2.5-72b": 327_680,
    "qwen3-32b": 262_144,
    "qwen3-235b": 192_512,
    "deepseek-v3": 70_272,
    "kimi-k2": 70_272,
}
PAGES = 512 // 16  # of a block in each region
TINY = KvChoices("tiny", token_bytes=256, ranks=1, regions=4)


def line(timestamp, tokens, ids, output=1):
    return json.dumps(
        {
            "timestamp": timestamp,
            "input_length": tokens,
            "output_length": output,
            "hash_ids": ids,
        }
    )


def imported(folder, lines, kv=TINY):
    source = folder / "service.jsonl"
    source.write_text("\n".join(lines) + "\n")
    done = convert(source, folder / "out.parquet", choices=Choices(kv=kv))
    return pq.read_table(folder / "out.parquet").to_pylist(), done


@st.composite
def services(draw):
    """Requests whose blocks stand for all before them: paths from the root of a tree."""
    number, requests = {}, []
    for _ in range(draw(st.integers(1, 12))):
        path, blocks = (), []
        for step in draw(st.lists(st.integers(0, 2), min_size=0, max_size=6)):
            path = (*path, step)
            blocks.append(number.setdefault(path, len(number) * 7 - 3))
        requests.append(blocks)
    return requests


@given(services(), st.one_of(st.none(), st.integers(1, 12)))
def test_a_pool_finds_and_places_what_an_ordered_dictionary_does(requests, capacity):
    firsts = np.cumsum([0, *map(len, requests)]).astype(np.int64)
    ids = np.array([block for blocks in requests for block in blocks], np.int64)

    placed = place(firsts, ids, capacity)

    expected = oracle.serve(requests, capacity)
    assert placed.found.tolist() == [found for found, _ in expected]
    assert placed.slots.tolist() == [slot for _, slots in expected for slot in slots]


@given(st.integers(1, 400), st.one_of(st.none(), st.integers(4, 64)))
def test_a_run_is_cut_as_the_transfer_engine_does(token_bytes, size):
    kv = TINY._replace(token_bytes=token_bytes, slice_bytes=size)

    address, length = Pool(kv, 3).requests(np.array([2, 0]))

    run = token_bytes * 512
    cut = oracle.pieces(run, size)
    assert [*zip(address.tolist(), length.tolist(), strict=True)] == [
        (BASE + slot * run + at, count) for slot in (2, 0) for at, count in cut
    ]


def test_layer_by_layer_a_block_has_pages_of_every_region_and_shares_none():
    kv = TINY._replace(layout="layer", slice_bytes=None)
    cutter = Pool(kv, 5)

    address, length = cutter.requests(np.arange(5))

    page = 256 * 16 // 4
    assert set(length.tolist()) == {page}
    assert len(set(address.tolist())) == 5 * 4 * PAGES == len(address)
    region, offset = np.divmod(address.astype(np.int64) - BASE, ALIGNED)
    assert sorted(set(region.tolist())) == [0, 1, 2, 3]
    assert (offset % page == 0).all()
    assert offset.max() == (5 * PAGES - 1) * page
    by_block = (offset // page).reshape(5, 4, PAGES)
    assert (by_block == by_block[:, :1]).all()  # the same pages in each region
    assert (np.diff(by_block[0, 0]) != 1).any()  # which need not lie together


def test_what_is_found_is_read_and_the_rest_written(tmp_path):
    lines = [
        line(0, 1_100, [0, 1, 2]),  # its last block is not full: engines do not keep it
        line(2, 1_024, [0, 1]),
        line(5, 1_536, [0, 3, 4]),
    ]

    rows, done = imported(tmp_path, lines, TINY._replace(slice_bytes=None))

    block = 512 * 256
    assert [
        (row["time_ns"], row["op"], (row["address"] - BASE) // block, row["length"]) for row in rows
    ] == [
        (0, "serve_write", 0, block),
        (0, "serve_write", 1, block),
        (2_000_000, "serve_read", 0, block),
        (2_000_000, "serve_read", 1, block),
        (5_000_000, "serve_read", 0, block),
        (5_000_000, "serve_write", 2, block),
        (5_000_000, "serve_write", 3, block),
    ]
    observed = done.metadata.observed
    assert (observed["blocks_read"], observed["blocks_written"]) == (3, 4)
    assert (observed["block_references"], observed["distinct_blocks"]) == (8, 5)
    assert done.metadata.regions == [{"address": BASE, "bytes": 4 * block}]


def test_a_pool_that_is_full_gives_the_place_of_what_was_used_least_lately(tmp_path):
    lines = [line(0, 512, [0]), line(1, 512, [1]), line(2, 512, [0]), line(3, 512, [2])]
    small = TINY._replace(slice_bytes=None, pool_bytes=2 * 512 * 256)

    rows, done = imported(tmp_path, [*lines, line(4, 512, [1])], small)

    assert [(row["address"] - BASE) // (512 * 256) for row in rows] == [0, 1, 0, 1, 0]
    assert done.metadata.observed["blocks_evicted"] == 2


def test_models_have_the_bytes_that_their_users_print():
    assert {
        name: load_language_model(name).bytes_per_token for name in language_model_names()
    } == PRINTED
    # What all ranks keep whole is not shared out.
    assert kv_choices("deepseek-v3", 8).token_bytes == 70_272
    assert kv_choices("llama-3-70b", 8).token_bytes == 40_960


# Counted on the public files themselves: github.com/kvcache-ai/Mooncake, FAST25-release.
COUNTED = {
    "conversation": (12_031, 288_500, 182_790, 276_491, 170_899, 105_592, 170_899),
    "synthetic": (3_993, 121_877, 43_924, 117_888, 40_148, 77_740, 40_148),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_public_traces_have_the_counts_that_are_known(tmp_path, name):
    folder = os.environ.get("NICSCOPE_PUBLIC_TRACES")
    if folder is None:
        pytest.skip("needs data: NICSCOPE_PUBLIC_TRACES names no folder of public traces")
    source = Path(folder) / f"mooncake_{name}.jsonl"

    done = convert(
        source,
        tmp_path / "out.parquet",
        choices=Choices(kv=kv_choices("llama-3-70b", 8, slice_bytes="whole")),
    )

    observed = done.metadata.observed
    assert COUNTED[name] == tuple(
        observed[key]
        for key in (
            "service_requests",
            "block_references",
            "distinct_blocks",
            "full_block_references",
            "distinct_full_blocks",
            "blocks_read",
            "blocks_written",
        )
    )
