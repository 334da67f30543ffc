"""``nicscope platforms`` and ``nicscope platforms show NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.cli.answer import print_json, print_table, print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.machine import Parameter
    from nicscope.config.platform import Platform, UnitCost
    from nicscope.reports.table import Rows

commands = typer.Typer()

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@commands.callback(invoke_without_command=True)
def platforms(context: typer.Context, as_json: _Json = False) -> None:
    """List the machines whose costs are printed; 'platforms show NAME' tells each cost.

    Example: nicscope platforms --json
    """
    if context.invoked_subcommand is not None:
        return
    from collections import Counter

    from nicscope.config.platform import load_platform, platform_names

    rows: list[dict[str, Any]] = []
    for name in platform_names():
        platform = load_platform(name)
        classes = Counter(cost.origin.evidence.value for cost in platform.costs.values())
        rows.append(
            {
                "name": name,
                "title": platform.title,
                "papers": list(platform.sources),
                "costs": len(platform.costs),
                "evidence": dict(sorted(classes.items())),
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table(platform_rows(rows))


@commands.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A platform of the catalog, or a .toml file.")],
    as_json: _Json = False,
) -> None:
    """Show one platform: every cost and parameter with its evidence and source.

    Example: nicscope platforms show utlb-prototype
    """
    from nicscope.config.cost_name import COSTS
    from nicscope.config.machine import MACHINE
    from nicscope.config.platform import load_platform

    platform = load_platform(name)
    if as_json:
        print_json(
            {
                "name": platform.name,
                "title": platform.title,
                "description": platform.description,
                "costs": [_as_json(cost) for cost in platform.costs.values()],
                "served_by": platform.served_by,
                "machine": [
                    {
                        "name": one.name,
                        "meaning": MACHINE[one.name].meaning,
                        "value": one.value,
                        "unit": MACHINE[one.name].unit,
                        **one.origin.to_json(),
                    }
                    for one in platform.machine.values()
                ],
                "not_applicable": platform.not_applicable,
                "not_stated": [
                    key
                    for key in COSTS
                    if key not in platform.costs and key not in platform.not_applicable
                ],
                "sources": platform.sources,
            }
        )
        return
    print_text(f"{platform.name}: {platform.title}")
    print_text(platform.description)
    print_text()
    if platform.served_by_origin is not None:
        print_text(
            f"ports are served by the {platform.served_by} ({platform.served_by_origin.source})"
        )
        print_text()
    print_table(cost_rows(platform))
    print_text()
    if platform.machine:
        print_table(machine_rows(platform))
        print_text()
    for key, citation in platform.sources.items():
        print_text(f"{key}: {citation}")


def platform_rows(rows: Sequence[dict[str, Any]]) -> Rows:
    """A row for each machine: what it is, and what is known of its costs."""
    from nicscope.reports.table import rows_of

    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "name": lambda row: row["name"],
        "machine": lambda row: row["title"],
        "paper": lambda row: ", ".join(row["papers"]),
        "costs": lambda row: ", ".join(f"{n} {kind}" for kind, n in row["evidence"].items()),
    }
    return rows_of("", rows, columns, words=columns, least=("paper", "costs"))


def cost_rows(platform: Platform) -> Rows:
    """A row for each cost of a machine, those that it cannot have included."""
    from nicscope.config.cost_name import COSTS
    from nicscope.reports.table import Rows

    cells = [
        [key, _shown(cost), COSTS[key].per, cost.origin.evidence.value, cost.origin.source]
        for key, cost in platform.costs.items()
    ]
    cells += [[key, "not applicable", "", "", why] for key, why in platform.not_applicable.items()]
    return Rows(
        "",
        ["cost", "us (or ns a byte)", "per", "evidence", "source"],
        cells,
        left=(0, 1, 2, 3, 4),
        prose=(1, 2, 4),
        least=("per", "evidence", "source"),
    )


def machine_rows(platform: Platform) -> Rows:
    """A row for each parameter of a coherent host, its interface and the messaging on it."""
    from nicscope.config.machine import MACHINE
    from nicscope.reports.table import rows_of

    columns: dict[str, Callable[[Parameter], str]] = {
        "parameter": lambda one: one.name,
        "value": lambda one: f"{one.value:,} {MACHINE[one.name].unit}",
        "meaning": lambda one: MACHINE[one.name].meaning,
        "evidence": lambda one: one.origin.evidence.value,
        "source": lambda one: one.origin.source,
    }
    return rows_of(
        "",
        platform.machine.values(),
        columns,
        words=columns,
        prose=(2, 4),
        least=("meaning", "evidence", "source"),
    )


def _as_json(cost: UnitCost) -> dict[str, Any]:
    from nicscope.config.cost_name import COSTS
    from nicscope.config.platform import in_us

    kind = COSTS[cost.name]
    bounds = [float(in_us(cost.low_ps)), float(in_us(cost.high_ps))]
    value = bounds[0] if bounds[0] == bounds[1] else bounds
    return {
        "name": cost.name,
        "meaning": kind.meaning,
        "per": kind.per,
        "size_of": kind.size_of,
        "cost_us": None if cost.points else value,
        "cost_us_by_size": [[size, float(in_us(ps))] for size, ps in cost.points] or None,
        "cited_unit": cost.unit,
        **cost.origin.to_json(),
    }


def _shown(cost: UnitCost) -> str:
    """Value or table: times in microseconds, those per byte in nanoseconds."""
    from nicscope.config.cost_name import COSTS
    from nicscope.config.platform import in_us

    kind = COSTS[cost.name]
    if cost.points:
        points = "  ".join(f"{size}: {in_us(ps):f}" for size, ps in cost.points)
        return f"by {kind.size_of} {points}"
    scale = 1000 if kind.by_byte else 1
    low, high = (f"{in_us(ps * scale):f}" for ps in (cost.low_ps, cost.high_ps))
    return low if low == high else f"{low} to {high}"
