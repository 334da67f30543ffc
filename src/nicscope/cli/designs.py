"""``nicscope designs`` and ``nicscope designs show NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.cli.answer import print_json, print_table, print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.design import Design
    from nicscope.reports.table import Rows

commands = typer.Typer()

_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@commands.callback(invoke_without_command=True)
def designs(context: typer.Context, as_json: _Json = False) -> None:
    """List the published designs; 'designs show NAME' tells one number by number.

    Example: nicscope designs --json
    """
    if context.invoked_subcommand is not None:
        return
    from nicscope.config.design import design_names, load_design

    found = [load_design(name) for name in design_names()]
    if as_json:
        print_json(
            [
                design.to_json()
                | {
                    "parts": design.parts(),
                    "title": design.title,
                    "platform": design.platform,
                    "papers": list(design.sources.values()),
                }
                for design in found
            ]
        )
        return
    print_table(design_rows(found))


@commands.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A design of the catalog, or a .toml file.")],
    as_json: _Json = False,
) -> None:
    """Show one design: every setting and part with its evidence and source.

    Example: nicscope designs show utlb
    """
    from nicscope.config.delivery import PARTS
    from nicscope.config.design import load_design
    from nicscope.config.scheme import SETTINGS, Kind

    design = load_design(name)
    settings = [
        {
            "name": key,
            "value": value,
            "unit": "bytes" if SETTINGS[key].kind is Kind.BYTES else None,
            "meaning": SETTINGS[key].meaning,
            **(design.origins[key].to_json() if key in design.origins else _ABSENT),
        }
        for key, value in design.to_json().items()
        if key in SETTINGS
    ]
    origins = design.part_origins()
    parts = [
        {
            "name": key,
            "value": value,
            "meaning": PARTS[key].meaning,
            **origins[key].to_json(),
        }
        for key, value in design.parts().items()
    ]
    if as_json:
        print_json(
            {
                "name": design.name,
                "scheme": design.scheme.value,
                "title": design.title,
                "description": design.description,
                "platform": design.platform,
                "settings": settings,
                "parts": parts,
                "sources": design.sources,
            }
        )
        return
    print_text(f"{design.name}: {design.title}")
    print_text(design.description)
    print_text(f"scheme {design.scheme.value}, platform {design.platform or 'none printed'}")
    print_text()
    print_table(stated_rows("setting", settings, "none"))
    print_text()
    print_table(stated_rows("part", parts, "not said"))
    print_text()
    for key, citation in design.sources.items():
        print_text(f"{key}: {citation}")


def design_rows(found: Sequence[Design]) -> Rows:
    """A row for each of ``found``: what tells it from the others."""
    from nicscope.reports.table import rows_of

    columns: dict[str, Callable[[Design], str]] = {
        "name": lambda design: design.name,
        "scheme": lambda design: design.scheme.value,
        "settings": lambda design: _brief(design.to_json()),
        "paper": lambda design: ", ".join(design.sources),
        "platform": lambda design: design.platform or "none printed",
        "what it is": lambda design: design.title,
    }
    least = ("paper", "platform", "settings", "scheme")
    return rows_of("", found, columns, words=columns, least=least)


def stated_rows(what: str, stated: Sequence[dict[str, Any]], absent: str) -> Rows:
    """A row for each ``what``, setting or part of a design: its value, and where that is from."""
    from nicscope.reports.table import rows_of

    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        what: lambda one: one["name"],
        "value": lambda one: absent if one["value"] is None else _shown(one["value"]),
        "meaning": lambda one: one["meaning"],
        "evidence": lambda one: one["evidence"] or "",
        "source": lambda one: one["source"] or "",
    }
    return rows_of("", stated, columns, words=columns, prose=(2, 4))


_ABSENT = {"evidence": None, "source": None}
_BRIEF = ("area_bytes", "entries", "ways", "line", "victim_entries", "pin_limit", "high_water")


def _brief(settings: dict[str, object]) -> str:
    """Sizes that tell one design from another, in a line."""
    return " ".join(f"{key}={settings[key]}" for key in _BRIEF if settings.get(key) is not None)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
