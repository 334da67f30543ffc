"""``nicscope designs`` and ``nicscope platforms``, each alone or with ``show NAME``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nicscope.cli.answer import tell
from nicscope.cli.arguments import offering, option
from nicscope.cli.usage import Commands

designs = typer.Typer(cls=Commands)
platforms = typer.Typer(cls=Commands)

_From = Annotated[
    str,
    option("NAME|FILE", "Entry of the catalog to begin with.", "--from", show_default=False),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _named(what: str) -> Any:
    """The argument of an entry of the catalog's ``what``, as ``offering`` has them."""
    told = f"A {what[:-1]} of the catalog, or a .toml file."
    return typer.Argument(metavar="NAME|FILE", help=told, autocompletion=offering(what))


@designs.callback(invoke_without_command=True)
def list_designs(context: typer.Context, as_json: _Json = False) -> None:
    """List the published designs of NICs.

    'designs show NAME' shows each of its numbers with its source.

    Example: nicscope designs --json
    """
    if context.invoked_subcommand is not None:
        return
    from nicscope.config.design import design_names, load_design
    from nicscope.reports.catalog import ShownDesigns

    tell(ShownDesigns([load_design(name) for name in design_names()]), [], as_json)


@designs.command("show")
def show_design(name: Annotated[str, _named("designs")], as_json: _Json = False) -> None:
    """Show every setting of a design with evidence and source.

    Example: nicscope designs show utlb
    """
    from nicscope.config.design import load_design
    from nicscope.reports.catalog import ShownDesign

    tell(ShownDesign(load_design(name)), [], as_json)


@designs.command("new")
def new_design(name: _From) -> None:
    """Print a design as a file to begin a new one with.

    Example: nicscope designs new --from utlb > mine.toml
    """
    from nicscope.config.design import load_design
    from nicscope.reports.template import design_file

    print(design_file(load_design(name)), end="")


@platforms.callback(invoke_without_command=True)
def list_platforms(context: typer.Context, as_json: _Json = False) -> None:
    """List the machines whose costs are known.

    'platforms show NAME' shows each cost with its source.

    Example: nicscope platforms --json
    """
    if context.invoked_subcommand is not None:
        return
    from nicscope.config.platform import load_platform, platform_names
    from nicscope.reports.catalog import ShownPlatforms

    tell(ShownPlatforms([load_platform(name) for name in platform_names()]), [], as_json)


@platforms.command("show")
def show_platform(name: Annotated[str, _named("platforms")], as_json: _Json = False) -> None:
    """Show every cost of a platform with evidence and source.

    Example: nicscope platforms show utlb-prototype
    """
    from nicscope.config.platform import load_platform
    from nicscope.reports.catalog import ShownPlatform

    tell(ShownPlatform(load_platform(name)), [], as_json)


@platforms.command("new")
def new_platform(name: _From) -> None:
    """Print a platform as a file to begin a new one with.

    Example: nicscope platforms new --from utlb-prototype > mine.toml
    """
    from nicscope.config.platform import load_platform
    from nicscope.reports.template import platform_file

    print(platform_file(load_platform(name)), end="")
