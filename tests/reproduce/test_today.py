"""What is measured today: arithmetic of the experiments, by hand, and the misses that are known."""

import pytest

from nicscope.studies.reproduce.harness import reproduce


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


@pytest.mark.parametrize(
    ("items", "missed"),
    [
        (
            (11, 12, 13, 14, 15, 16, 17),
            {
                "t11 total[order=ascending] s",
                "t12 each s",
                "t13 time[descriptors=4563] ms",
                "t15 write[queue_pairs=1] Gb/s",
                "t17 rate[block_kib=256] GB/s",
            },
        ),
        # Operations by the hundred thousand, and rates of a simulated NIC.
        pytest.param(
            (4, 5, 10, 18),
            {"t5 per_thread_peak_at threads", "t10 page_first us"},
            marks=pytest.mark.compiled,
        ),
    ],
)
def test_what_misses_is_known(items, missed):
    found = reproduce([f"today/t{item}" for item in items])

    assert found.as_known()
    assert missed == {
        *(f"{one.id} {one.quantity}" for one in found.points if not one.ok),
        *(f"{one.id} {one.name}" for one in found.shapes if not one.ok),
    }
    # Of rates nothing but what is arithmetic, or was not chosen by the answers, is predicted.
    of_rates = [one for one in [*found.points, *found.shapes] if one.id in ("t4", "t5", "t18")]
    assert sum(one.basis == "predicted" for one in of_rates) == 2 * (4 in items)
