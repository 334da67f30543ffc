"""What a replay counts and a platform prices, with numbers as they are printed beside it."""

import itertools
import re

import pytest

from nicscope.drivers.replay import replay
from nicscope.reports.wording import significant
from recomputed import recomputed
from suite import INTERPRETED

ROWS = 40 if INTERPRETED else 150


PLATFORMS = ["utlb-prototype", "mini-cluster", "pca200-linux", "linux-host"]


class Counted:
    """A design on a trace, replayed, and its cost recomputed."""

    def __init__(self, trace, design, platform):
        [found] = replay(trace.batches(), [design], kinds=False)
        self.trace = trace
        self.design = found.design
        self.total = found.total
        self.nic_bytes = sum(found.nic_memory_bytes.values())
        self.page_size = found.design.page_size
        self.pinned = [node["peak_pinned_pages"] * self.page_size for node in found.nodes]
        self.cost = None
        if platform is not None:
            self.cost = recomputed(found.total, found.design.scheme.value, platform)

    @property
    def has_whole_price(self):
        return self.cost is not None and not self.cost.missing

    def us(self, parts=1):
        """As it is printed: a number, a range, a bound or nothing."""
        if not self.cost.parts and self.cost.missing:
            return None
        low, high = (significant(end / parts) for end in (self.cost.low, self.cost.high))
        if self.cost.missing:
            return f"≥ {low}"
        return low if low == high else f"{low} to {high}"


def same(printed, expected):
    """Whether two cells say the same: floats may differ in a last digit that is rounded."""
    if printed == expected:
        return True
    number = r"\d[\d,]*\.?\d*"
    if re.sub(number, "#", printed) != re.sub(number, "#", expected):
        return False
    pairs = zip(re.findall(number, printed), re.findall(number, expected), strict=True)
    return all(
        float(one.replace(",", "")) == pytest.approx(float(other.replace(",", "")), rel=0.006)
        for one, other in pairs
    )


def assert_same(printed, expected):
    assert len(printed) == len(expected)
    for one, other in zip(printed, expected, strict=True):
        assert same(one, other), (printed, expected)


def tables(text):
    """The cells of each table in ``text``, whose columns stand two blanks apart, by its title."""
    found, lines = {}, text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("───"):
            rows = itertools.takewhile(str.strip, lines[place + 1 :])
            title = next(
                one for one in reversed(lines[: place - 1]) if one and "  " not in one.strip()
            )
            found[title] = [re.split(r" {2,}", row.strip()) for row in rows]
    return found
