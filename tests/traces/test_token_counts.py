"""Traces that count tokens and name no blocks: Azure's and BurstGPT's."""

import os
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_kinds import AZURE, BURST

from nicscope.errors import TraceError
from nicscope.inputs import Input
from nicscope.traces.formats import convert, input_format
from nicscope.traces.imported import Choices, KvChoices
from nicscope.traces.importers.services import BASE, read_azure, read_burstgpt
from oracle import kv_pool as oracle

TINY = KvChoices("tiny", token_bytes=8, ranks=1, regions=4, slice_bytes=None, block_tokens=16)
SESSIONS = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens\n"
BLOCK = 8 * 16


def written(folder, text, name="service.csv"):
    path = folder / name
    path.write_text(text)
    return path


def imported(folder, text, kv=TINY):
    source = written(folder, text)
    done = convert(source, folder / "out.parquet", choices=Choices(kv=kv))
    return pq.read_table(folder / "out.parquet").to_pylist(), done


def test_azure_lines_become_writes_of_full_blocks_at_their_times(tmp_path):
    text = (
        AZURE
        + "2023-11-16 23:59:59.9999999,40,3\n"
        + "2023-11-17 00:00:00.5000000,15,9\n"
        + "2024-05-10 00:00:00.009930+00:00,16,0"  # no line end
    )

    rows, done = imported(tmp_path, text)

    later = (
        np.datetime64("2024-05-10T00:00:00.00993") - np.datetime64("2023-11-16T23:59:59")
    ).item()
    assert [
        (row["time_ns"], row["op"], (row["address"] - BASE) // BLOCK, row["length"]) for row in rows
    ] == [
        (0, "serve_write", 0, BLOCK),
        (0, "serve_write", 1, BLOCK),
        ((later.days * 86_400 + later.seconds) * 10**9 + later.microseconds * 1_000 - 999_999_900,
         "serve_write", 2, BLOCK),
    ]  # fmt: skip
    observed, origin = done.metadata.observed, done.metadata.origin
    assert (observed["input_tokens"], observed["output_tokens"]) == (71, 12)
    assert origin["assumed"] == ["no two requests share a block", "what is generated is not kept"]
    assert done.from_format == "azure-llm"


@pytest.mark.parametrize(
    "text",
    [
        BURST
        + "5,ChatGPT,32,18,50,Conversation log\n45,GPT-4,16,0,16,API log\n50.25,a,16,1,17,b\n",
        SESSIONS + "5.0,x,3,a,32,18,50\n45.0,y,1,b,16,0,16\n50.25,z,2,c,16,1,17\n",
    ],
)
def test_burstgpt_lines_that_failed_are_counted_and_left_out(tmp_path, text):
    rows, done = imported(tmp_path, text)

    assert [row["time_ns"] for row in rows] == [0, 0, 45_250_000_000]
    assert done.metadata.observed["failed_requests"] == 1
    assert done.metadata.observed["input_tokens"] == 48
    assert done.from_format == "burstgpt"


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 60)), min_size=1, max_size=9),
    st.sampled_from([16, 32]),
    st.integers(0, 90),
    st.booleans(),
    st.sampled_from([read_azure, read_burstgpt]),
)
def test_blocks_are_shared_as_is_assumed_and_no_further(
    tmp_path_factory, requests, block, prefix, generated, read
):
    kv = TINY._replace(block_tokens=block, prefix_tokens=prefix, generated=generated)
    if read is read_azure:
        lines = [f"2023-11-16 18:15:{i:02d},{a},{b}" for i, (a, b) in enumerate(requests)]
        text = AZURE
    else:
        lines = [f"{i},m,{a},{b},0,l" for i, (a, b) in enumerate(requests)]
        text, requests = BURST, [one for one in requests if one[1]]
    path = written(tmp_path_factory.mktemp("t"), text + "\n".join(lines))

    served = read(Input(path, TraceError), kv)

    found = [
        served.ids[a:b].tolist() for a, b in zip(served.firsts, served.firsts[1:], strict=False)
    ]
    named = oracle.blocks_of(requests, block, prefix, generated)
    assert [len(one) for one in found] == [len(one) for one in named]
    flat = [*zip(chain(*found), chain(*named), strict=True)]
    assert len(set(flat)) == len({one for one, _ in flat}) == len({other for _, other in flat})


# Counted on the public files themselves: github.com/Azure/AzurePublicDataset, 2023.
COUNTED = {
    "conv": (19_366, 22_361_870, 4_088_665, 1_154.7, 211.1, 3_501_721_937_000),
    "code": (8_819, 18_059_974, 245_896, 2_047.8, 27.9, 3_435_948_056_000),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_public_traces_have_the_counts_that_are_known(name):
    folder = os.environ.get("NICSCOPE_PUBLIC_TRACES")
    if folder is None:
        pytest.skip("needs data: NICSCOPE_PUBLIC_TRACES names no folder of public traces")
    source = Input(Path(folder) / f"azure_llm_2023_{name}.csv", TraceError)
    assert input_format(source).name == "azure-llm"

    served = read_azure(source, TINY)

    requests, brought, made, mean_brought, mean_made, last_ns = COUNTED[name]
    assert len(served.lines) == requests
    assert served.observed == {"input_tokens": brought, "output_tokens": made}
    assert round(brought / requests, 1) == mean_brought
    assert round(made / requests, 1) == mean_made
    assert served.time_ns[-1] == last_ns
