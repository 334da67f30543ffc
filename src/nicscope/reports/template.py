"""Designs and platforms as complete, commented TOML files, which read back unchanged.

What is stated stands there with its unit and evidence; what is not stands there as a comment, with
who would ask for it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.config.costs import COSTS, Origin, UnitCost
from nicscope.config.design import PARTS, SCHEMES, SETTINGS, Design, Kind
from nicscope.config.platform import BYTES, MACHINE, PER_BYTE_UNITS, SIZES, TIME_UNITS
from nicscope.studies.pricing import charged_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nicscope.config.platform import Parameter, Platform

EVIDENCE = (
    "# evidence: published, derived and fitted ones begin their source with a key of [sources];",
    "# measured and assumed ones say how, or why.",
)


def platform_file(platform: Platform) -> str:
    """``platform`` as a file: every known cost, stated or as a comment."""
    lines = [
        f"# Begun from {platform.name} by: nicscope platforms new --from {platform.name}",
        "# What each operation costs on a machine; docs/platforms.md says how it is written, and",
        "# docs/costs.md lists every cost by who charges it.  A number of your own may stand bare:",
        '# user_pin = "27us" counts as assumed.  What has a table by size may be one number too.',
        *EVIDENCE,
        "",
        f"title = {_text(platform.title)}",
        f"description = {_text(platform.description)}",
    ]
    if platform.served_by_origin is not None:
        lines += ["", "# Who can serve ports: the NIC's firmware, or the host's kernel."]
        cell = {"value": platform.served_by, **platform.served_by_origin.to_json()}
        lines.append(f"served_by = {_table(cell)}")
    lines += ["", "[costs]", *_costs(platform)]
    lines += ["", "# Steps that this machine does not have, and why; no cost may be named twice."]
    lines += ["[not_applicable]"]
    lines += [f"{name} = {_text(why)}" for name, why in platform.not_applicable.items()]
    lines += ["", "# What is no time: sizes, clocks, counts.", "[machine]"]
    lines += _machine(platform.machine)
    return "\n".join([*lines, *_sources(platform.sources)]) + "\n"


def _costs(platform: Platform) -> Iterator[str]:
    stated = {*platform.costs, *platform.not_applicable}
    order = [*platform.costs, *(name for name in COSTS if name not in stated)]
    for name in order:
        kind = COSTS[name]
        size = f", by {kind.size_of}" if kind.size_of else ""
        yield f"# {kind.meaning}; per {kind.per}{size}.  Used by: {charged_by(name)}"
        if name in platform.costs:
            yield f"{name} = {_table(_cost(platform.costs[name]))}"
        else:
            unit = "ns/B" if kind.by_byte else "us"
            yield f'# {name} = "1{unit}"  # not known of {platform.name}'


def _cost(cost: UnitCost) -> dict[str, Any]:
    units = PER_BYTE_UNITS if COSTS[cost.name].by_byte else TIME_UNITS
    ps = units[cost.unit]
    cell: dict[str, Any] = {}
    if cost.points:
        cell["at"] = [size for size, _ in cost.points]
        cell["value"] = [Decimal(each) / ps for _, each in cost.points]
    elif cost.low_ps == cost.high_ps:
        cell["value"] = Decimal(cost.low_ps) / ps
    else:
        cell["value"] = [Decimal(each) / ps for each in (cost.low_ps, cost.high_ps)]
    return {**cell, "unit": cost.unit, **cost.origin.to_json()}


def _machine(machine: Mapping[str, Parameter]) -> Iterator[str]:
    for name in [*machine, *(name for name in MACHINE if name not in machine)]:
        word = MACHINE[name]
        yield f"# {word.meaning}; {word.unit}"
        if name in machine:
            one = machine[name]
            value = one.value // SIZES[one.unit] if word.unit == BYTES else one.value
            yield f"{name} = {_table({'value': value, 'unit': one.unit, **one.origin.to_json()})}"
        else:
            yield f"# {name} = 1"


def design_file(design: Design, said: Iterable[str] = ()) -> str:
    """``design`` as a file: every setting of its scheme and every part, stated or as a comment.

    ``said``: what its first lines say of where it is from, each as a comment.
    """
    others = ", ".join(SCHEMES)
    begun = [f"Begun from {design.name} by: nicscope designs new --from {design.name}"]
    lines = [
        *(f"# {' '.join(each.split())}" for each in [*said] or begun),
        "# docs/designs.md says what each name means, and which scheme knows it.",
        "# A number of your own may stand bare: entries = 4096 counts as assumed.",
        *EVIDENCE,
        "",
        f"title = {_text(design.title)}",
        f"description = {_text(design.description)}",
        f"# One of: {others}",
        f"scheme = {_text(design.scheme.value)}",
        "# Whose costs apply: a name of `nicscope platforms`, or a .toml file beside this one.",
        f"platform = {_text(_platform_of(design))}",
    ]
    if design.interface is not None:
        lines.append(f"interface = {_text(design.interface)}")
    lines += ["", "# The translation."]
    plain = design.to_json()
    for name in design.settings():
        setting = SETTINGS[name]
        unit = ", bytes" if setting.kind is Kind.BYTES else ""
        limits = "" if setting.kind in (Kind.SWITCH, Kind.POLICY) else (
            f"{unit}; {setting.low} to {setting.high}" + ", or none" * setting.optional
        )  # fmt: skip
        lines.append(f"# {setting.meaning}{limits}")
        value = "none" if plain[name] is None else plain[name]
        lines.append(_stated(name, value, design.origins.get(name)))
    lines += ["", "# Beside it: who serves, when bytes go on, what is lost, which way in."]
    for name, choice in design.parts().items():
        lines.append(f"# {PARTS[name].meaning}; one of: {', '.join(PARTS[name].choices)}")
        said = choice or PARTS[name].choices[0]
        lines.append(_stated(name, said, design.origins.get(name)))
    return "\n".join([*lines, *_sources(design.sources)]) + "\n"


def _platform_of(design: Design) -> str:
    """As it was named; a file by its whole path, as nobody knows where this one will lie."""
    named = design.platform or ""
    path, at, changes = named.partition("@")
    if path.endswith(".toml") or "/" in path:
        return f"{Path(path).resolve()}{at}{changes}"
    return named


def _stated(name: str, value: object, origin: Origin | None) -> str:
    """A line for a stated value with its evidence, a comment for an unstated one."""
    if origin is None:
        return f"# {name} = {_value(value)}"
    return f"{name} = {_table({'value': value, **origin.to_json()})}"


def _sources(sources: Mapping[str, str]) -> list[str]:
    return ["", "[sources]", *(f"{_key(key)} = {_text(text)}" for key, text in sources.items())]


def _table(cell: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in cell.items()) + " }"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Decimal):
        plain = f"{value:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return str(value)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else _text(name)


def _text(text: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON, and one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
