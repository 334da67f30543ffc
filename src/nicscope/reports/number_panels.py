"""Pictures of a paper's numbers: a panel of what is printed beside one of ours, as SVG."""

from __future__ import annotations

import math
import re
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from nicscope.reports.page import Markup, element, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nicscope.studies.reproduce.verdict import Point


_QUANTITY = re.compile(r"(.*?)(?:\[(.*)\])? (\S+)")


class Placed(NamedTuple):
    """A number of a paper, and where it stands on the axes of its quantity."""

    name: str
    unit: str
    at: dict[str, str]
    point: Point


def placed(point: Point) -> Placed:
    """``point`` with its quantity taken apart: ``pin[pages=8] us``."""
    match = _QUANTITY.fullmatch(point.quantity)
    if match is None:
        return Placed(point.quantity, "", {}, point)
    axes = [each.partition("=") for each in (match[2] or "").split(", ") if each]
    return Placed(match[1], match[3], {name: value for name, _, value in axes}, point)


WIDTH, HEIGHT = 400, 200
LEFT, RIGHT, TOP, BOTTOM = 56, 28, 14, 40
ROW = 34  # of a bar and the words above it
FEWEST = 2  # numbers that are worth a picture
STYLES = 6
MARK = 4.0


def figures(points: Sequence[Point]) -> Iterator[Markup]:
    """Yield a pair of panels for each quantity with places, and one for single numbers of a unit.

    What stands alone in its unit has no picture.
    """
    groups: dict[tuple[str, str], list[Placed]] = {}
    for each in map(placed, points):
        groups.setdefault((each.name if each.at else "", each.unit), []).append(each)
    for (name, unit), group in groups.items():
        if len(group) < FEWEST:
            continue
        axis = _axis(group)
        title = f"{name} ({unit})" if name else f"numbers in {unit}"
        draw = _bars if axis is None else _lines
        printed, ours, legend = draw(group, axis or "")
        yield element(
            "figure",
            element("figcaption", title),
            element("div", _panel("the paper", printed), _panel("here", ours), class_="pair"),
            legend,
        )


def _axis(group: Sequence[Placed]) -> str | None:
    """The axis of numbers along which most of the group differs; None: they are names."""
    found = None
    most = 2
    for name in dict.fromkeys(name for each in group for name in each.at):
        values = {each.at.get(name) for each in group}
        if len(values) > most and all(value is not None and _is_number(value) for value in values):
            found, most = name, len(values)
    return found


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _panel(name: str, drawn: Markup) -> Markup:
    return element("div", element("p", name, class_="panel"), drawn)


def _range(group: Sequence[Placed]) -> tuple[float, float]:
    """The scale that both panels have: from 0, or below, to the largest number."""
    values = [v for each in group for v in (each.point.published, each.point.reproduced)]
    low, high = min(0.0, *values), max(0.0, *values)
    return low, high if high > low else low + 1.0


def _steps(low: float, high: float) -> Iterator[float]:
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(each * power for each in (1, 2, 5, 10) if each * power * 5 >= high - low)
    first = math.ceil(low / step)
    yield from (each * step for each in range(first, math.floor(high / step + 1e-9) + 1))


def _lines(group: Sequence[Placed], axis: str) -> tuple[Markup, Markup, Markup | None]:
    """A line for each place on the other axes; the numbers of ``axis`` evenly spaced."""
    along = sorted({each.at[axis] for each in group}, key=float)
    series: dict[str, list[Placed]] = {}
    for each in group:
        rest = ", ".join(value for name, value in each.at.items() if name != axis)
        series.setdefault(rest, []).append(each)
    low, high = _range(group)

    def x(each: Placed) -> float:
        gap = (WIDTH - LEFT - RIGHT) / max(len(along) - 1, 1)
        return LEFT + gap * along.index(each.at[axis])

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def panel(is_ours: bool) -> Markup:
        pieces = []
        for value in _steps(low, high):
            d = f"M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"
            pieces.append(element("path", d=d, class_="grid"))
            pieces.append(_text(LEFT - 7, y(value) + 4, f"{value:g}", "end"))
        every = math.ceil(len(along) / 8)
        for place in along[::every]:
            spot = x(next(each for each in group if each.at[axis] == place))
            pieces.append(_text(spot, HEIGHT - BOTTOM + 18, place, "middle"))
        pieces.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, axis, "middle"))
        for style, each in zip(cycle(range(STYLES)), series.values(), strict=False):
            pieces += _joined(sorted(each, key=lambda one: float(one.at[axis])), style, is_ours)
        return _picture(WIDTH, HEIGHT, group, is_ours, pieces)

    def _joined(run: Sequence[Placed], style: int, is_ours: bool) -> Iterator[Markup]:
        spots = [(x(each), y(_value(each, is_ours))) for each in run]
        path = "L".join(f"{left:.1f} {up:.1f}" for left, up in spots)
        yield element("path", d=f"M{path}", class_=f"line s{style}")
        for each, (left, up) in zip(run, spots, strict=True):
            slack = each.point.tolerance * (abs(each.point.published) or 1.0)
            if is_ours and slack:
                ends = (each.point.published - slack, each.point.published + slack)
                top, end = (y(min(max(value, low), high)) for value in ends)
                yield element("path", d=f"M{left:.1f} {top:.1f}V{end:.1f}", class_="within")
            yield _mark(left, up, style, is_miss=is_ours and not each.point.ok, told=_told(each))

    names = [name for name in series if name]
    legend = None
    if len(names) > 1:
        samples = [
            element("li", _sample(style), name)
            for style, name in zip(cycle(range(STYLES)), series, strict=False)
        ]
        legend = element("ul", *samples, class_="legend")
    return panel(False), panel(True), legend


def _bars(group: Sequence[Placed], _: str) -> tuple[Markup, Markup, None]:
    """A bar for each number, its name above it."""
    low, high = _range(group)
    height = ROW * len(group) + 6

    def x(value: float) -> float:
        return 4 + (value - low) / (high - low) * (WIDTH - 76)

    def panel(is_ours: bool) -> Markup:
        pieces = []
        for place, each in enumerate(group):
            up = ROW * place
            axes = [f"{k} {v}" if _is_number(v) else v for k, v in each.at.items()]
            name = ", ".join(axes) or each.name
            value = _value(each, is_ours)
            left, right = sorted((x(0.0), x(value)))
            pieces.append(_text(4, up + 13, name, "start"))
            style = "bar miss" if is_ours and not each.point.ok else "bar"
            bar = {"x": f"{left:.1f}", "y": up + 18, "width": f"{right - left:.1f}", "height": 11}
            pieces.append(element("rect", element("title", _told(each)), class_=style, **bar))
            pieces.append(_text(right + 5, up + 28, _short(value), "start"))
        return _picture(WIDTH, height, group, is_ours, pieces)

    return panel(False), panel(True), None


def _short(value: float) -> str:
    """Four digits, or all before the point: a power of ten would be longer, and harder to read."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def _value(each: Placed, is_ours: bool) -> float:
    return each.point.reproduced if is_ours else each.point.published


def _told(each: Placed) -> str:
    point = each.point
    return f"{point.quantity}: printed {point.published:g}, here {point.reproduced:.6g}"


def _picture(
    width: int, height: int, group: Sequence[Placed], is_ours: bool, pieces: Iterable[Markup]
) -> Markup:
    whose = "what comes out here" if is_ours else "what the paper prints"
    label = f"{whose}: {len(group)} numbers, which the table below has too"
    kind = "ours" if is_ours else "printed"
    box = {"viewBox": f"0 0 {width} {height}"}
    return element("svg", joined(pieces), role="img", aria_label=label, class_=kind, **box)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _mark(x: float, y: float, style: int, *, is_miss: bool, told: str) -> Markup:
    """A point: each style has a shape of its own, and a miss a ring around it."""
    r = MARK
    shapes = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z",
        f"M{x:.1f} {y - r:.1f}l{r} {2 * r}h{-2 * r}z",
        f"M{x:.1f} {y - r:.1f}l{r} {r}l{-r} {r}l{-r} {-r}z",
        f"M{x:.1f} {y + r:.1f}l{r} {-2 * r}h{-2 * r}z",
        f"M{x - r:.1f} {y - 1:.1f}h{2 * r}v2h{-2 * r}z",
    )
    mark = element("path", element("title", told), d=shapes[style], class_=f"mark s{style}")
    if not is_miss:
        return mark
    ring = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": 2 * MARK}
    return joined([mark, element("circle", class_="missed", **ring)])


def _sample(style: int) -> Markup:
    line = element("path", d="M0 6H34", class_=f"line s{style}")
    mark = _mark(17, 6, style, is_miss=False, told="")
    box = {"viewBox": "0 0 34 12"}
    return element("svg", line, mark, aria_hidden="true", class_="ours", **box)
