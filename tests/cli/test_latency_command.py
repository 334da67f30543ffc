"""``nicscope latency`` as a person, a program and a folder see it."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from nicscope.cli.app import main
from nicscope.interfaces.ways import INTERFACES

SMALL = ["latency", "--mechanism", "edt,cc-dma-intervention,pio", "--bytes", "8,16"]


def test_one_table_of_at_most_100_columns(capsys):
    assert main(SMALL) == 0

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("sonic-via: DMA at 1,600 MB/s, MTU 1,500 bytes")
    table = lines[next(place for place, one in enumerate(lines) if "mechanism" in one) :]
    rows = [line.split() for line in table if "edt" in line]
    assert [row[0] for row in rows] == ["8", "16"]
    assert "…" not in out
    assert err == "" or err.startswith("compiling kernels (first use only); seconds for a replay")


def test_the_table_of_everything_is_not_cut(capsys):
    assert main(["latency", "--bytes", "300"]) == 0

    out = capsys.readouterr().out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_help_names_exactly_the_translations_that_run(capsys):
    assert main(["latency", "--help"]) == 0

    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    named = text.partition("a table on the NIC: ")[2].partition(", or a design")[0]
    assert set(named.split(", ")) == set(INTERFACES["VIA"].schemes)


def test_combinations_say_what_was_combined(capsys):
    words = ["--bytes", "8", "--translation", "utlb", "--pages", "3", "--delivery", "cut-through"]
    assert main(["latency", *words]) == 0

    out = capsys.readouterr().out
    assert "cut-through; host cycles" in out
    assert "utlb (utlb, 8,192 entries) at the costs of utlb-prototype; buffers in turn: 3" in out
    assert "misses: 0 of" in out
    assert "xlat" in out
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_for_programs_whose_parts_add_up(capsys):
    assert main([*SMALL, "--json", "--dma-rate", "800"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["dma_mbytes_s"] == 800
    assert found["repeat"]["command"][:2] == ["nicscope", "latency"]
    for one in found["latencies"]:
        assert sum(one["parts_ps"].values()) == one["total_ps"]


def test_a_folder_of_results(tmp_path, capsys):
    assert main([*SMALL, "--out", str(tmp_path / "found")]) == 0

    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == [
        "latency.parquet",
        "latency.png",
        "latency.svg",
        "results.json",
    ]
    table = pq.read_table(tmp_path / "found" / "latency.parquet").to_pylist()
    totals = {(row["mechanism"], row["payload_bytes"]): row["total_ps"] for row in table}
    for key, total in totals.items():
        parts = [row["part_ps"] for row in table if (row["mechanism"], row["payload_bytes"]) == key]
        assert sum(parts) == total
    assert "written:" in capsys.readouterr().out


def test_help_has_examples(capsys):
    assert main(["latency", "--help"]) == 0

    assert "nicscope latency --mechanism edt,cc-dma-intervention" in capsys.readouterr().out
