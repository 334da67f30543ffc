"""Typer commands derived from functions declared by ``nicscope.library.command``."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import SERVICE, UNSAID, AsJson, Explain, Service, reads_services

if TYPE_CHECKING:
    from collections.abc import Callable

    import typer

    from nicscope.library.command import Asked, Command


def epilog(examples: tuple[str, ...]) -> str:
    """The examples that ``--help`` shows below the options, each in its own paragraph."""
    return "Examples:\n\n" + "\n\n".join(f"[bold]{example}[/bold]" for example in examples)


def parameter(one: Asked) -> inspect.Parameter:
    """The Typer option or argument of a parameter."""
    option = one.option
    must_be_given = one.default is inspect.Parameter.empty
    info = arguments.declared(
        option, *one.names, **({"show_default": False} if must_be_given else {})
    )
    kind = list[str] if option.is_repeated else one.kind
    default = one.default
    if one.kind is bool:
        default = False  # the option says what is not the default
    elif not must_be_given:
        default = one.read(default) or None if option.is_repeated else one.read(default)
        kind = kind if default is not None else kind | None
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def derived(function: Any) -> Callable[..., None]:
    """A Typer command that calls ``function`` with the parsed options."""
    command: Command = function.command
    asked = command.asked()
    services = [one for one in asked if one.option.reads_services]

    def run(
        *,
        out: Path | None = None,
        as_json: bool = False,
        explain: bool = False,
        service: Service = UNSAID,
        **given: Any,
    ) -> None:
        for one in asked:
            if one.kind is bool:
                given[one.name] = one.default is not given[one.name]

        def found() -> Any:
            for one in services:
                traces = given[one.name]
                if isinstance(traces, list):
                    given[one.name] = [service.opened(each) for each in traces]
                else:
                    given[one.name] = service.opened(traces)
            return function(**given)

        answer(found, out, as_json, explain)

    parameters = [parameter(one) for one in asked]
    if command.out:
        told = Annotated[Path | None, arguments.option("DIR", command.out)]
        parameters.append(_added("out", told, None))
    if services:
        parameters.append(_added(SERVICE, Service, UNSAID))
    parameters += [_added("as_json", AsJson, False), _added("explain", Explain, False)]
    functools.update_wrapper(run, command.function)
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return reads_services(run) if services else run


def _added(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def add(app: typer.Typer, *functions: Any) -> None:
    """Register the command of each of the ``functions`` with ``app``."""
    for function in functions:
        command: Command = function.command
        app.command(command.words[-1], epilog=epilog(command.examples))(derived(function))
