"""``nicscope latency`` as a person, a program and a folder see it."""

import json

import pyarrow.parquet as pq
import pytest

from nicscope.cli.app import main
from nicscope.interfaces.ways import INTERFACES

SMALL = ["latency", "--mechanism", "edt,cc-dma-intervention,pio", "--bytes", "8,16"]


@pytest.mark.usefixtures("no_pixels")
def test_a_table_and_a_folder_of_results_whose_parts_add_up(tmp_path, capsys):
    assert main([*SMALL, "--dma-rate", "800", "--out", str(tmp_path)]) == 0

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("sonic-via: DMA at 800 MB/s, MTU 1,500 bytes")
    table = lines[next(place for place, one in enumerate(lines) if "mechanism" in one) :]
    assert [line.split()[0] for line in table if "edt" in line] == ["8", "16"]
    assert err == "" or err.startswith("compiling kernels (first use only); seconds for a replay")
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["dma_mbytes_s"] == 800
    assert found["repeat"]["command"][:2] == ["nicscope", "latency"]
    totals = {}
    for one in found["latencies"]:
        assert sum(one["parts_ps"].values()) == one["total_ps"]
        totals[one["mechanism"], one["byte_count"]] = one["total_ps"]
    rows = pq.read_table(tmp_path / "latency.parquet").to_pylist()
    assert {(row["mechanism"], row["payload_bytes"]): row["total_ps"] for row in rows} == totals
    for key, total in totals.items():
        parts = [row["part_ps"] for row in rows if (row["mechanism"], row["payload_bytes"]) == key]
        assert sum(parts) == total


def test_help_names_exactly_the_translations_that_run(capsys):
    assert main(["latency", "--help"]) == 0

    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    named = text.partition("a table on the NIC: ")[2].partition(", or a design")[0]
    assert set(named.split(", ")) == set(INTERFACES["VIA"].schemes)


def test_combinations_say_what_was_combined(capsys):
    words = ["--bytes", "8", "--translation", "utlb", "--pages", "3", "--delivery", "cut-through"]
    assert main(["latency", *words, "--mechanism", "dma,edt"]) == 0

    out = capsys.readouterr().out
    assert "cut-through; host cycles" in out
    assert "utlb (utlb, 8,192 entries) at the costs of utlb-prototype; buffers in turn: 3" in out
    assert "misses: 0 of" in out
    assert "xlat" in out
