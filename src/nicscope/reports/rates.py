"""Misses per 100 lookups (or requests): the numbers behind both the table and the figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nicscope.studies.denominator import Denominator
    from nicscope.studies.replaying import Comparison, Priced

_KINDS = {
    "compulsory": "ni_misses_compulsory",
    "invalidated": "ni_misses_invalidated",
    "capacity": "ni_misses_capacity",
    "conflict": "ni_misses_conflict",
}
_WITHOUT_KINDS = {
    "compulsory": "ni_misses_compulsory",
    "not compulsory": "ni_misses_noncompulsory",
}


class MissRates(NamedTuple):
    """A design's NI misses per 100 lookups or requests: in all, by path, by kind, which add up."""

    design: str
    misses: float
    by_path: dict[str, float]
    by_kind: dict[str, float]


def kind_names(comparison: Comparison) -> list[str]:
    """Kinds that were told apart."""
    return list(_KINDS if comparison.kinds else _WITHOUT_KINDS)


def miss_rates(comparison: Comparison) -> list[MissRates]:
    """Rates of every design, in the order of the comparison."""
    kinds = _KINDS if comparison.kinds else _WITHOUT_KINDS
    per = comparison.denominator
    return [
        MissRates(
            priced.name,
            _rate(priced, "ni_misses", per),
            {path: _rate(priced, f"ni_misses_{path}", per) for path in ("send", "receive")},
            {kind: _rate(priced, count, per) for kind, count in kinds.items()},
        )
        for priced in comparison.priced
    ]


def _rate(priced: Priced, name: str, per: Denominator) -> float:
    count, parts = priced.total(name), priced.cost.count_of(per)
    assert count is not None
    return 100 * count / parts if parts else 0.0
