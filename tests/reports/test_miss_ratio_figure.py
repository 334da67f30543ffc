import io
from itertools import pairwise

import pytest

from nicscope.reports.figures.messages import SIZE_LOOKS, draw_miss_ratio
from nicscope.reports.figures.style import save
from nicscope.studies.handle_misses import MissPoint, Trip


def curves(sizes):
    return {
        size: [
            MissPoint(size, ratio, (Trip(20.0 + size / 100 + 600 * ratio, None),), 0, 0)
            for ratio in (0.0, 0.5, 1.0)
        ]
        for size in sizes
    }


@pytest.mark.requirement("MI-52")
def test_each_size_has_a_line_in_both_panels_and_its_name_beside_it():
    figure = draw_miss_ratio(curves([64, 4096, 65536]), "mini-cluster")

    latency, bandwidth = figure.axes
    assert [line.get_ydata()[0] for line in latency.lines] == [10.32, 30.48, 337.68]
    assert bandwidth.lines[1].get_ydata()[2] == pytest.approx(4096 / 330.48)
    for axes in (latency, bandwidth):
        assert {text.get_text() for text in axes.texts} == {"64 B", "4 KiB", "64 KiB"}


def test_names_of_lines_that_end_together_keep_their_distance():
    figure = draw_miss_ratio(curves([64, 65, 66]), "mini-cluster")

    heights = sorted(text.xy[1] for text in figure.axes[0].texts)
    assert min(b - a for a, b in pairwise(heights)) > 10


def test_more_sizes_than_looks_are_refused():
    with pytest.raises(ValueError, match=f"{len(SIZE_LOOKS) + 1} sizes were given"):
        draw_miss_ratio(curves(range(64, 64 + len(SIZE_LOOKS) + 1)), "mini-cluster")


def test_the_same_points_are_the_same_file():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        save(draw_miss_ratio(curves([64, 4096]), "mini-cluster"), file, "svg")

    assert files[0].getvalue() == files[1].getvalue()
