"""What is measured today: arithmetic of the experiments, by hand."""

from __future__ import annotations

import pytest

from nicscope.studies.reproduce.harness import reproduce

GIB = 1 << 30


def points_of(item):
    return {point.quantity: point.reproduced for point in reproduce([item]).points}


def test_orders_of_registration_take_what_is_registered_before_each():
    def taken(sizes):
        return sum(0.26 * sum(sizes[:place]) / 1024 for place in range(len(sizes)))

    small, large = [2.79] * 24, [391] * 24
    found = points_of("today/t11")
    assert found["total[order=ascending] s"] == pytest.approx(taken(small + large), rel=1e-6)
    assert found["total[order=descending] s"] == pytest.approx(taken(large + small), rel=1e-6)


def test_tensors_of_their_own_take_calls_and_pages():
    each = 51 * 10**9 // 1265
    pages = 1265 * -(-each // 65536)
    by_hand = (1265 * 21.3 + pages * (0.052 + 0.35)) * 1e-6
    assert points_of("today/t12")["each s"] == pytest.approx(by_hand)


def test_blocks_are_posted_at_one_rate_until_the_links_are_full():
    found = [*points_of("today/t17").values()]
    assert found == pytest.approx([97, 194, 388, 392.8, 392.8], rel=1e-3)  # with headers


def test_what_misses_is_known():
    found = reproduce(["today/t10", "today/t11", "today/t12", "today/t16", "today/t17"])
    missed = {point.quantity for point in found.points if not point.ok}
    assert missed == {
        "page_first us",
        "total[order=ascending] s",
        "each s",
        "rate[block_kib=256] GB/s",
    }
    assert found.as_known()
