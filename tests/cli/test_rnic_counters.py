"""What ``nicscope replay`` tells of RDMA NICs: levels, pools, and counters by today's names."""

import json

import pyarrow.parquet as pq
import pytest

from nicscope.cli.app import main
from nicscope.studies.replaying import TOOLS
from nicscope.traces.writer import write_trace

PAGE = 4096
MIB = 1 << 20


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """One process that walks 64 pages twice, and one request that lies a mebibyte further."""
    path = tmp_path_factory.mktemp("traces") / "walk.parquet"
    addresses = [page * PAGE for page in [*range(64)] * 2] + [MIB]
    many = len(addresses)
    columns = {"time_ns": [0] * many, "node": [0] * many, "pid": [1] * many, "op": ["send"] * many}
    write_trace(path, columns | {"address": addresses, "length": [PAGE] * many})
    return str(path)


def counted(capsys, *words):
    assert main(["replay", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_pool_is_counted_whole_and_rejects_what_lies_beyond_it(trace, capsys):
    words = [trace, "--design", "rnic", "--registered", "1MiB", "--page-size", "4KiB"]
    total = counted(capsys, *words)["total"]
    # 256 pages in 32 lines of 64 bytes, and a region
    assert (total["mtt_entries"], total["icm_bytes"]) == (256, 32 * 64 + 64)
    assert (total["rejected"], total["lookups"]) == (1, 129)
    assert (total["mtt_l0_misses"], total["mtt_l0_hits"]) == (8, 120)
    larger = [*words[:-2], "--page-size", "2MiB"]
    assert counted(capsys, *larger)["total"]["mtt_entries"] == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_counters_have_the_names_of_a_tool_and_our_values(tool, trace, capsys):
    found = counted(capsys, trace, "--design", "rnic", "--counters", tool)
    names = TOOLS[tool].names
    assert found["counters"] == {its: found["total"][ours] for ours, its in names.items()}
    assert found["repeat"]["command"][-2:] == ["--counters", tool]


def test_counters_are_shown_and_what_the_tool_has_none_for_is_said(trace, capsys):
    assert main(["replay", trace, "--design", "rnic", "--counters", "neohost"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Level 0 MTT Cache Miss 9 " in text
    assert "Neo-Host does not show what is registered" in text
    assert main(["replay", trace, "--design", "rnic", "--counters", "rdma"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "rdma statistic does not show hits, misses and fetches" in text
    assert "Counters by the names" not in text


def test_a_sweep_over_pools_counts_what_a_replay_of_each_does(trace, capsys, tmp_path):
    out = tmp_path / "pools.parquet"
    pools = ["256KiB", "512KiB", "2MiB"]
    words = ["--design", "rnic", "--grid", f"registered={','.join(pools)}", "--out", str(out)]
    assert main(["sweep", trace, *words]) == 0
    capsys.readouterr()

    found = {row["registered"]: row for row in pq.read_table(out).to_pylist()}

    assert [*found] == [256 << 10, 512 << 10, 2 << 20]
    for text, row in zip(pools, found.values(), strict=True):
        total = counted(capsys, trace, "--design", "rnic", "--registered", text)["total"]
        told = ("rejected", "ni_misses", "lookups", "mtt_entries")
        assert {name: row[name] for name in told} == {name: total[name] for name in told}
    # The request that lies a mebibyte further is within the largest pool alone.
    assert [row["rejected"] for row in found.values()] == [1, 1, 0]
