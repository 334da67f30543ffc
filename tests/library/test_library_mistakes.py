"""Mistakes in calls of the library: errors of one kind, in one line, that say what is wrong."""

import pytest
from library_samples import GRID, TABLE

import nicscope as ns


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda: ns.replay("nosuch.parquet"), "nosuch.parquet: no such file"),
        (lambda: ns.replay("bundled:redis"), "no bundled trace 'redis'"),
        (lambda: ns.replay("redis_server"), "no such file; did you mean bundled:redis_server?"),
        (lambda: ns.latency(bytes=64), "latency() has no bytes=; --bytes is sizes= here"),
        (lambda: ns.rdma.plan(None), "pool: give a value"),
        (lambda: ns.rdma.cache(TABLE, policy=None), "policy: give a value; left out it is exact,"),
        (lambda: ns.replay(TABLE, "utbl"), "no design 'utbl'; did you mean 'utlb'?"),
        (lambda: ns.replay(TABLE, "utlb", "utbl"), "no platform 'utbl'"),
        (lambda: ns.replay(TABLE, "utlb", entires=3), "unknown key 'entires'"),
        (lambda: ns.replay(TABLE, "utlb", entries=object()), "entries: 'object' is none"),
        (lambda: ns.replay(3), "a int is no trace"),
        (lambda: ns.curve([]), "no trace; give a path"),
        (lambda: ns.curve(TABLE, ways=3), "--ways must list powers of two"),
        (lambda: ns.size(TABLE, "lots"), "--nic-memory must be a number of bytes"),
        (lambda: ns.sweep(TABLE, "utlb", {}), "an empty grid"),
        (lambda: ns.sweep(TABLE, "utlb", {"entries": "x"}), "entries must be a whole number"),
        (lambda: ns.sweep(TABLE, "utlb", {"pin_limit": []}), "pin_limit: an empty list"),
        (lambda: ns.sweep(TABLE, "utlb", GRID, workers="2"), "workers must be a whole number"),
        (lambda: ns.curve(TABLE, ways={1: 4}), "ways: 'dict' is none of its values"),
        (lambda: ns.curve(TABLE, sample="0.1"), "sample must be a number, got '0.1'"),
        (lambda: ns.curve(TABLE, sample=0.5, seed=1.5), "seed must be a whole number, got 1.5"),
        (lambda: ns.curve(TABLE, skip="3"), "skip must be a whole number, got '3'"),
        (lambda: ns.size(TABLE, "1KiB", target_us="3"), "target_us must be a number, got '3'"),
        (lambda: ns.simulate(TABLE, "utlb", requests="5"), "requests must be a whole number"),
        (lambda: ns.simulate(TABLE, "utlb", window=True), "window must be a whole number"),
        (lambda: ns.simulate(TABLE, "utlb", requests=0), "requests must be at least 1"),
        (lambda: ns.simulate(TABLE, "utlb", window=65), "window must be from 1 to 64"),
        (lambda: ns.flow(gap=130), "--gap: must be a number and a unit"),
        (lambda: ns.flow(count="8"), "count must be a whole number, got '8'"),
        (lambda: ns.flow(nodes=2.0), "nodes must be a whole number, got 2.0"),
        (lambda: ns.flow(minpulse="much"), "minpulse: 'much' is no whole number of bytes"),
        (lambda: ns.flow(ring="64"), "ring must be a whole number"),
        (lambda: ns.latency("edt", mtu="1500 B/s"), "mtu: '1500 B/s' is no whole number of bytes"),
        (lambda: ns.latency("edt", dma_rate="800"), "dma_rate must be a whole number"),
        (lambda: ns.latency("edt", pages="1"), "pages must be a whole number"),
        (lambda: ns.latency("pigeon"), "no mechanism 'pigeon'"),
        (lambda: ns.reproduce("ulb"), "no paper 'ulb'"),
        (lambda: ns.reproduce("utlb/table4", traces="nosuch"), "nosuch: no such folder"),
        (lambda: ns.replay(TABLE, "utlb").table("count"), "no table 'count'; did you mean"),
        (lambda: ns.replay(TABLE, "utlb").figure("x"), "no figure 'x'; choose from"),
    ],
)
def test_a_mistake_is_a_public_error_of_one_line_and_prints_nothing(wrong, complaint, capsys):
    with pytest.raises(ns.NicscopeError) as caught:
        wrong()

    assert complaint in str(caught.value)
    assert str(caught.value).isprintable()
    assert capsys.readouterr() == ("", "")
    assert [frame.name for frame in caught.traceback][1:] == ["<lambda>"]  # none of ours
