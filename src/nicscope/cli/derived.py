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
    from collections.abc import Callable, Mapping

    import typer

    from nicscope.library.command import Asked, Command
    from nicscope.reports.result import Report


def epilog(examples: tuple[str, ...]) -> str:
    """The examples that ``--help`` shows below the options, each in its own paragraph."""
    return "Examples:\n\n" + "\n\n".join(f"[bold]{example}[/bold]" for example in examples)


def parameter(one: Asked) -> inspect.Parameter:
    """The Typer option or argument of a parameter."""
    option = one.option
    must_be_given = one.default is inspect.Parameter.empty or option.is_required
    info = arguments.declared(
        option, *one.names, **({"show_default": False} if must_be_given else {})
    )
    kind = list[str] if option.is_repeated else one.kind
    default = inspect.Parameter.empty if must_be_given else one.default
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


def _answered(
    found: Callable[..., Report], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Write the result to the folder of ``--out`` if it was given, and print it."""
    answer(found, given.pop("out", None), as_json, explain)


def derived(
    function: Any, answering: Callable[..., None] = _answered, **more: Any
) -> Callable[..., None]:
    """A Typer command that calls ``function`` with the parsed options.

    ``answering`` gets a call of it without arguments, the options by name, which it may change
    before it calls, and whether JSON or explanations are wanted.  ``more``: annotations of options
    that are the command line's own; left out they are None.
    """
    command: Command = function.command
    asked = command.asked()
    services = [one for one in asked if one.option.reads_services]

    def run(
        *,
        as_json: bool = False,
        explain: bool = False,
        service: Service = UNSAID,
        **given: Any,
    ) -> None:
        for one in asked:
            if one.kind is bool:
                given[one.name] = one.default is not given[one.name]

        def found(**also: Any) -> Any:
            for one in services:
                traces = given[one.name]
                if isinstance(traces, list):
                    given[one.name] = [service.opened(each) for each in traces]
                else:
                    given[one.name] = service.opened(traces)
            return function(**given, **also)

        answering(found, given, as_json, explain)

    parameters = [parameter(one) for one in asked]
    if command.out:
        told = Annotated[Path | None, arguments.option("DIR", command.out)]
        parameters.append(_added("out", told, None))
    parameters += [_added(name, kind, None) for name, kind in more.items()]
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


def add(
    app: typer.Typer, *functions: Any, typer_options: Mapping[str, Any] = {}, **how: Any
) -> None:
    """Register the command of each of the ``functions`` with ``app``; ``how``: as ``derived``."""
    for function in functions:
        command: Command = function.command
        told = epilog(command.examples)
        app.command(command.words[-1], epilog=told, **typer_options)(derived(function, **how))
