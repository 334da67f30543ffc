"""Figures of ``nicscope flow``: what is drawn is what was recorded."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from flow_samples import answered
from nicscope.config.design import POLICIES
from nicscope.reports import flow
from nicscope.reports.figures.messages import (
    MOST_DRAWN,
    draw_bandwidth,
    draw_flow,
    drawn_transfers,
    flow_title,
)
from nicscope.reports.wording import BAND_SHADES
from nicscope.studies.flow_parts import BANDS, bandwidth_steps, receptions

PS_PER_US = 10**6


def boxes(collection):
    """(start, end) in ps of each bar, and their middle and height."""
    corners = [path.vertices for path in collection.get_paths()]
    spans = [
        (round(xy[:, 0].min() * PS_PER_US), round(xy[:, 0].max() * PS_PER_US)) for xy in corners
    ]
    middles = {round(float(np.mean([xy[:, 1].min(), xy[:, 1].max()])), 6) for xy in corners}
    return spans, middles


def pairs(transfers):
    return sorted(map(tuple, transfers[["start", "end"]].tolist()))


SEEN = 200  # pixels that a band takes at least


def pixels_of(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())


@pytest.mark.requirement("TR-61")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_flow_graph_draws_every_transfer_in_its_band_and_shade(policy):
    found = answered(policy=policy, count=4)

    [axes] = draw_flow(found).axes

    drawn = {one.get_gid(): one for one in axes.collections}
    for band, name in enumerate(BANDS):
        transfers = found.transfers[found.transfers["band"] == band]
        moving = receptions(found.transfers) if name == "netRcv" else transfers
        for parity in (0, 1):
            bars = drawn[f"{name}-moving-{parity}"]
            spans, middles = boxes(bars)
            assert sorted(spans) == pairs(moving[moving["packet"] % 2 == parity])
            assert middles == {band}
            assert tuple(bars.get_facecolor()[0][:3]) == pytest.approx(
                to_rgb(BAND_SHADES[name][parity])
            )
    posted = found.transfers[found.transfers["band"] == BANDS.index("netRcv")]
    thin = [boxes(drawn[f"netRcv-posted-{parity}"])[0] for parity in (0, 1)]
    assert sorted(thin[0] + thin[1]) == pairs(posted)
    assert axes.get_xlabel() == "us"
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "hostTx\nnode 0",
        "netTx\nnode 0",
        "netRcv\nnode 1",
        "hostRcv\nnode 1",
    ]


@pytest.mark.requirement("TR-61")
def test_bands_run_from_the_senders_bus_on_top_to_the_receivers():
    [axes] = draw_flow(answered(count=4)).axes

    bottom, top = axes.get_ylim()
    assert bottom > len(BANDS) - 1 > 0 > top


def test_a_long_stream_shows_its_first_packets_and_says_so():
    found = answered(count=40)

    figure = draw_flow(found)

    assert f"(first {MOST_DRAWN} packets)" in figure.get_suptitle()
    assert set(drawn_transfers(found)["packet"]) == set(range(MOST_DRAWN))


def test_of_several_flows_the_first_is_drawn():
    found = answered(topology="trunk", nodes=4, count=3)
    assert flow_title(found) == "lab, adaptive, 8,192 bytes (node 0 to node 2, one of 2 flows)"

    shown = drawn_transfers(found)

    assert set(shown["sender"]) == {0}
    assert set(shown["node"]) == {0, 2}


@pytest.mark.requirement("TR-62")
@pytest.mark.parametrize("policy", POLICIES)
def test_the_bandwidth_graph_draws_every_step(policy):
    found = answered(policy=policy, count=4)

    [axes] = draw_bandwidth(found).axes

    drawn = {one.get_label(): one.get_data() for one in axes.patches}
    assert len(drawn) == len(BANDS)
    for curve in bandwidth_steps(found.transfers):
        values, edges, _ = drawn[f"{curve.band}, node {curve.node}"]
        assert values.tolist() == curve.mb_per_s.tolist()
        assert [round(edge * PS_PER_US) for edge in edges] == curve.edges.tolist()
    assert axes.get_ylim()[0] == 0


STREAM = {"count": 4}
CONTROL = {"count": 1, "payload": "0"}
ABORTED = {"count": 2, "assignments": ("link_watchdog=1us",)}
APART = {"count": 40, "gap": "130us"}


@pytest.mark.parametrize(
    ("draw", "case"),
    [
        *((draw_flow, case) for case in (STREAM, CONTROL, ABORTED, APART)),
        *((draw_bandwidth, case) for case in (CONTROL, APART)),
    ],
)
def test_in_pictures_every_band_that_has_transfers_is_to_be_seen(draw, case):
    found = answered(**case)
    figure = draw(found)
    [axes] = figure.axes
    whole = pixels_of(figure)
    bands = {
        name: [
            one
            for one in (*axes.collections, *axes.patches)
            if (one.get_gid() or one.get_label()).startswith(name)
        ]
        for name in np.array(BANDS)[np.unique(drawn_transfers(found)["band"])]
    }

    assert bands
    for name, drawn in bands.items():
        for one in drawn:
            one.set_visible(False)
        hidden = pixels_of(figure)
        for one in drawn:
            one.set_visible(True)
        assert (whole != hidden).any(axis=-1).sum() > SEEN, name


def test_shades_of_a_band_differ_in_lightness_for_every_kind_of_colour_vision():
    for dark, light in BAND_SHADES.values():
        luminance = [np.dot(to_rgb(shade), (0.2126, 0.7152, 0.0722)) for shade in (dark, light)]
        assert luminance[1] - luminance[0] > 0.2


def test_a_figure_alone_does_not_wait_for_the_timeline(monkeypatch):
    def too_long(_):
        raise AssertionError("made though nobody wants it")

    monkeypatch.setattr(flow, "timeline", too_long)
    report = flow.ShownFlow(answered(count=1))

    assert report.figure("bandwidth").axes
    assert report._repr_html_()
