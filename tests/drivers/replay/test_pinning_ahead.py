"""Pinning ahead under a limit: what a trace of FFT's kind pays for it (UTLB 6.5, Table 7)."""

import pytest
from test_mechanisms import result, touch

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price

STRIDE, TIMES = 16, 4
LIMIT = 256  # pages; the paper's 16 MB, and a footprint as large, take sixteen times as long
PIN = {1: 27, 16: 70}  # us of a call; UTLB, Table 1
UNPIN = 25


def paid(prepin):
    """(us to pin, us to unpin) by lookup, and calls to unpin by call to pin, in steady state."""
    settings = {"scheme": "utlb", "entries": 1024, "prepin": prepin, "pin_limit": LIMIT}
    rows = [touch(STRIDE * place) for place in range(LIMIT) for _ in range(TIMES)]
    counts = result(rows, **settings).total
    design = with_settings(load_design("utlb"), [f"prepin={prepin}", f"pin_limit={LIMIT}"])
    cost = price(counts, design, load_platform("utlb-prototype"))
    us = {part.name: part.low_ps / 1e6 / counts["lookups"] for part in cost.components}
    return us["user_pin"], us.get("user_unpin", 0.0), counts


@pytest.mark.requirement("UT-91", "UT-92")
def test_fft_pays_for_sixteen_pages_at_each_miss_and_unpins_as_many():
    """As many pages are used as the limit has, so who pins one at a time never unpins."""
    one, none, counts = paid(1)
    many, unpinning, ahead = paid(16)

    assert (one, none) == (pytest.approx(PIN[1] / TIMES), 0)
    assert many == pytest.approx(PIN[16] / TIMES)
    calls = LIMIT - LIMIT // 16  # the first sixteen find room
    assert unpinning == pytest.approx(16 * calls * UNPIN / (LIMIT * TIMES))
    assert (counts["unpin_calls"], ahead["unpin_calls"]) == (0, 16 * calls)
    assert counts["pin_calls"] == ahead["pin_calls"] == LIMIT


@pytest.mark.parametrize("scheme", ["utlb", "utlb-shared"])
def test_what_is_pinned_never_exceeds_the_limit(scheme):
    rows = [touch(7 * place % 50, 1 + place % 3) for place in range(80)]
    counts = result(rows, scheme=scheme, entries=64, prepin=5, pin_limit=9).total

    assert counts["peak_pinned_pages"] == 9
    assert counts["pins"] - counts["unpins"] <= 9
