"""miNI's memory account adds up whatever the replay says its structures take."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicscope.config.scheme import Scheme
from nicscope.studies.reproduce.harness import reproduce


def lay_out(monkeypatch, tag_bytes, static_entry_bytes):
    """Let the replay report 4-byte entries, tags per line, and a fixed 100 bytes elsewhere."""

    def memory_of(design):
        entries = design.entries or 0
        if design.scheme is Scheme.STATIC:
            return {"table": static_entry_bytes * entries, "registers": 100}
        return {"entries": 4 * entries, "tags": tag_bytes * entries // (design.line or 1)}

    def replay(batches, designs, kinds):
        (batch,) = batches
        assert (batch.length.tolist(), kinds) == ([4096], False)
        return [SimpleNamespace(nic_memory_bytes=memory_of(design)) for design in designs]

    monkeypatch.setattr("nicscope.drivers.replay.replay", replay, raising=False)


@pytest.mark.parametrize(("tag_bytes", "meets"), [(44, True), (0, False), (100, False)])
def test_the_best_cache_meets_its_75_kb_with_44_bytes_of_tags_a_line(monkeypatch, tag_bytes, meets):
    lay_out(monkeypatch, tag_bytes, static_entry_bytes=4)

    found = reproduce(["mini/figure3"])

    (point,) = found.points
    assert (point.reproduced == 75) is point.ok is meets
    if meets:
        assert found.all_ok()
        assert "entries 65536, tags 11264" in found.shapes[1].evidence


@pytest.mark.requirement("MI-51", weak="all but what 64 GB would take")
@pytest.mark.parametrize(("entry_bytes", "mbytes"), [(4, 64), (2, 32), (8, 128)])
def test_64_gb_take_what_an_entry_takes_per_page(monkeypatch, entry_bytes, mbytes):
    lay_out(monkeypatch, tag_bytes=0, static_entry_bytes=entry_bytes)

    (point,) = reproduce(["mini/extrapolation"]).points

    assert point.reproduced == mbytes
    assert point.ok is (mbytes == 64)
