"""The bench that measures a host's costs: what it takes for the price of a copy."""

import importlib.util
from pathlib import Path

import pytest

from nicscope.config.costs import Evidence
from nicscope.config.platform import load_platform

FILE = Path(__file__).parents[2] / "bench" / "host_costs.py"
CACHE = 1 << 20
START_NS, FAST_NS, SLOW_NS = 20.0, 0.01, 0.25  # of a copy; of a byte within the cache, and beyond


@pytest.fixture
def bench(monkeypatch):
    """The bench on a machine of which is known what copies take."""
    spec = importlib.util.spec_from_file_location("host_costs", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "last_level_cache", lambda: CACHE)

    def copy_ns(length, in_use):
        each = FAST_NS if in_use <= CACHE else SLOW_NS
        return [START_NS + each * length] * 4

    monkeypatch.setattr(module, "copy_ns", copy_ns)
    return module


def test_a_copy_is_priced_as_it_is_beyond_the_last_level_cache(bench, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[costs]\n" + "\n".join(bench.copy_costs("2026-11-22, on a machine")) + "\n")

    costs = load_platform(file).costs

    assert costs["copy_per_byte"].low_ps == 1000 * SLOW_NS
    assert costs["copy_start"].low_ps == 1000 * START_NS
    assert costs["copy_per_byte"].origin.evidence is Evidence.MEASURED


def test_the_sizes_go_from_well_within_the_caches_to_many_times_as_much(bench):
    for cache in (1 << 20, 32 << 20, 400 << 20):
        sizes = bench.bytes_in_use(cache)
        assert sizes == sorted(set(sizes))
        assert sizes[0] <= cache // 16
        assert sizes[-1] >= 8 * cache


@pytest.mark.parametrize("length", [64, 4096])
def test_copies_of_a_round_go_through_all_that_is_in_use(bench, length):
    for in_use in (1 << 15, 1 << 24):
        assert set(bench.places(length, in_use)) == set(range(0, in_use // 2, length))
