"""Why large regions are slow: predictions by hypothesis, and what would discriminate them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import Evidence
from nicscope.errors import StudyError
from nicscope.studies.registering import LARGEST_PAGE, MOST_BYTES, SMALLEST_PAGE
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.costs import Hypothesis

MOST_REGIONS = 1 << 24
OTHER_LIBRARY = "verbs"  # nothing between the program and the driver
LARGER_PAGE = 2 << 20
PAGE = 4096


class Setting(NamedTuple):
    """A pool as it is registered."""

    told: str  # in words, what is changed; "": nothing
    slice_bytes: int  # of the largest region
    regions: int
    page: int
    stack: str
    version: str

    def predicted(self, hypothesis: Hypothesis) -> bool:
        """Whether that hypothesis predicts slow access."""
        return hypothesis.is_slow(self.slice_bytes, self.page, self.stack, self.version)


class RegionSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions for a pool as it is, and for changes that discriminate the hypotheses."""

    byte_count: int
    hypotheses: list[Hypothesis]
    asked: list[Setting]  # as they were asked for
    tests: list[Setting]  # changes of the first, of which not all hypotheses say the same
    fast_gb_s: float | None
    slow_gb_s: float | None
    repeat: dict[str, Any]

    @property
    def lost_us(self) -> float | None:
        """Microseconds lost per 4 KiB where access is slow; None if not given."""
        if self.fast_gb_s is None or self.slow_gb_s is None:
            return None
        return PAGE / 1000 * (1 / self.slow_gb_s - 1 / self.fast_gb_s)

    def likeliest(self) -> Hypothesis | None:
        """The single hypothesis that explains and rests on more than an assumption."""
        known = [
            one
            for one in self.hypotheses
            if self.explains(one) and one.slows.evidence is not Evidence.ASSUMED
        ]
        return known[0] if len(known) == 1 else None

    def explains(self, hypothesis: Hypothesis) -> bool:
        """Whether it predicts that some of the ways asked for are slow, and others are not."""
        return len({setting.predicted(hypothesis) for setting in self.asked}) > 1

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "bytes": self.byte_count,
            "hypotheses": [
                {
                    "name": one.name,
                    "title": one.title,
                    "slow_from": one.least,
                    "slow_from_of": one.of,
                    "counter": one.counter,
                    "cure": one.cure,
                    "explains": self.explains(one),
                    "slows": one.slows.to_json(),
                    **one.origin.to_json(),
                }
                for one in self.hypotheses
            ],
            "asked": [self._plain(setting) for setting in self.asked],
            "tests": [self._plain(setting) for setting in self.tests],
            "likeliest": likeliest.name if (likeliest := self.likeliest()) else None,
            "lost_us_per_4_kib": self.lost_us,
            "repeat": self.repeat,
        }

    def _plain(self, setting: Setting) -> dict[str, Any]:
        return {
            **setting._asdict(),
            "predicted": [
                {"hypothesis": one.name, "is_slow": setting.predicted(one)}
                for one in self.hypotheses
            ],
        }


def explain_sizes(
    byte_count: int,
    slices: Sequence[int],
    hypotheses: Sequence[Hypothesis],
    *,
    page: int = PAGE,
    stack: str = "ucx",
    version: str = "",
    fast_gb_s: float | None = None,
    slow_gb_s: float | None = None,
    command: Sequence[str] = (),
) -> RegionSizes:
    """What each of ``hypotheses`` says of a pool cut into slices of so many bytes at most.

    Errors: ``StudyError`` for sizes and rates that cannot be.
    """
    if not 1 <= byte_count <= MOST_BYTES:
        raise StudyError(f"--mr must be from 1 to {MOST_BYTES:,} bytes, got {byte_count}")
    if not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
        raise StudyError(
            f"--page-size must be a power of two from {SMALLEST_PAGE} to {LARGEST_PAGE}, got {page}"
        )
    rates = (fast_gb_s, slow_gb_s)
    if None in rates and rates != (None, None):
        raise StudyError("--fast and --slow: give both, or neither")
    if fast_gb_s is not None and slow_gb_s is not None and not 0 < slow_gb_s <= fast_gb_s < 1e6:
        raise StudyError("--fast must be at least --slow, and both above 0 (GB/s)")
    asked = [_cut(byte_count, each, page, stack, version) for each in slices]
    first = asked[0]
    changes = [
        first._replace(told=f"pages of {LARGER_PAGE >> 20} MiB", page=LARGER_PAGE),
        first._replace(told=f"without {stack}, by verbs alone", stack=OTHER_LIBRARY, version=""),
    ]
    changes += [
        first._replace(told=f"{stack} {off}", version=off)
        for one in hypotheses
        if one.stack == stack
        for off in one.off_versions
    ]
    return RegionSizes(
        byte_count=byte_count,
        hypotheses=list(hypotheses),
        asked=asked,
        tests=[
            one for one in changes if one._replace(told="") != first and _parts(one, hypotheses)
        ],
        fast_gb_s=fast_gb_s,
        slow_gb_s=slow_gb_s,
        repeat=repeat(command),
    )


def _parts(setting: Setting, hypotheses: Sequence[Hypothesis]) -> bool:
    return len({setting.predicted(one) for one in hypotheses}) > 1


def _cut(byte_count: int, most: int, page: int, stack: str, version: str) -> Setting:
    regions = -(-byte_count // most)
    if regions > MOST_REGIONS:
        raise StudyError(f"--slices: {regions:,} regions are too many; give larger slices")
    return Setting("", min(byte_count, most), regions, page, stack, version)
