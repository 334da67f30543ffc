"""Commands made of the library's functions: their options, and how results are printed."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from nicscope.cli import arguments
from nicscope.cli.arguments import (
    SERVICE,
    UNSAID,
    AsJson,
    Explain,
    Service,
    beside_timeline,
    output_path,
    reads_services,
    report_omitted,
    text_beside,
)
from nicscope.cli.streams import exit_resumable, is_unicode
from nicscope.errors import OutputError, SimulationError, printable
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nicscope.library.command import Asked, Command
    from nicscope.outputs import OutputFolder
    from nicscope.reports.reproduction import ShownReproduction
    from nicscope.reports.result import Report
    from nicscope.reports.sweep import ShownSweep
    from nicscope.studies.sweep.sweeping import Done


Shown = TypeVar("Shown", bound="Report")


def answer(
    work: Callable[[], Shown],
    out: Path | None,
    as_json: bool,
    explain: bool = False,
    also: Sequence[Path] = (),
) -> Shown:
    """Run ``work``, write its result to the folder ``out`` if given, and print it.

    ``also``: what else ``work`` has written then.  That the folder cannot be had is told before
    any work is done.
    """
    from nicscope.reports.result import folder_for

    check_explained(explain, as_json)
    with folder_for(out) as folder:
        report = work()
        written = [] if folder is None else report.write(folder)
    tell(report, [*written, *also], as_json, explain)
    return report


def check_explained(explain: bool, as_json: bool) -> None:
    """Errors: ``OutputError`` for ``--explain`` together with ``--json``."""
    if explain and as_json:
        raise OutputError("--explain is for people, --json for programs; leave one of them out")


def tell(report: Report, written: list[Path], as_json: bool, explain: bool = False) -> None:
    """Print ``report``, and the paths of its files unless as JSON."""
    if as_json:
        print_json(report.as_json())
    else:
        report.show(explain=explain)
        print_written(written)


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    from nicscope.reports.result import json_text

    print(json_text(result, ascii_only=not is_unicode(sys.stdout)), end="")


def print_written(files: list[Path]) -> None:
    """Print the paths of written files."""
    if files:
        print("\nwritten:")
    for file in files:
        print(f"  {printable(str(file))}")


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


def _answer_with_folder(
    found: Callable[..., Report], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Write the result to the folder of ``--out`` if it was given, and print it."""
    answer(found, given.pop("out", None), as_json, explain)


def derived(
    function: Any, answering: Callable[..., None] = _answer_with_folder, **more: Any
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


def add_commands(
    app: typer.Typer, *functions: Any, typer_options: Mapping[str, Any] = {}, **how: Any
) -> None:
    """Register the command of each of the ``functions`` with ``app``; ``how``: as ``derived``."""
    for function in functions:
        command: Command = function.command
        told = epilog(command.examples)
        app.command(command.words[-1], epilog=told, **typer_options)(derived(function, **how))


PROGRAM = ".py"


def answer_simulation(
    found: Callable[..., Report], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Run the program that was named, or simulate the trace, and print what was found."""
    what, out, timeline = given["trace"], given.pop("out"), given.pop("timeline")
    timeline = timeline and output_path(timeline)
    if not what.endswith(PROGRAM):
        if timeline is not None:
            raise SimulationError(f"{what}: --timeline is for programs; name a .py file")
        answer(found, out, as_json, explain)
        return
    check_explained(explain, as_json)
    options = {"designs": "--design", "assignments": "--set", "window": "--window"}
    for name, value in given.items():
        if name != "trace" and value and value != {"window": 1}.get(name):
            option = options.get(name, f"--{name}")
            raise SimulationError(f"{what} makes its own clusters; {option} is for traces")
    with beside_timeline(timeline, as_json):
        _run_program(Path(what), as_json, out, timeline, explain)


def _run_program(
    path: Path, as_json: bool, out: Path | None, timeline: Path | None, explain: bool
) -> None:
    from nicscope.reports.result import folder_for
    from nicscope.reports.simulation import ShownProgram

    # What the program prints is its own; with --json the standard output is one object.
    aside: Any = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    with folder_for(out) as folder, progress("running", "", always_say=True):
        from nicscope.studies.programs import run_program

        records = 0
        if timeline is not None:
            from nicscope.studies.timeline import MOST_RECORDS

            records = MOST_RECORDS
        with aside:
            report = ShownProgram(run_program(path, records))
        written = [] if folder is None else report.write(folder)
        if timeline is not None:
            from nicscope.studies.timeline import write_timeline

            written.append(write_timeline(report.found, timeline))
            report_omitted(report.found, timeline)
    tell(report, written, as_json, explain)


def answer_sweep(
    found: Callable[..., ShownSweep], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Print what was found beside the table, and say which earlier run it continues."""
    from nicscope.studies.sweep.table import journal_path

    check_explained(explain, as_json)
    out = given["out"] = output_path(given["out"])
    with text_beside(out, as_json):
        try:
            report = found(begun=_say_found)
        except KeyboardInterrupt:
            exit_resumable(journal_path(out))
            raise
        if report.done.was_there:
            print(f"nicscope: {out}: this sweep is there already, complete", file=sys.stderr)
        tell(report, [out], as_json, explain)


def _say_found(done: Done) -> None:
    if done.found:
        print(
            f"nicscope: continuing: {done.found:,} of {done.replays:,} replays were done before",
            file=sys.stderr,
        )


LISTED = 12  # files


def answer_reproduction(
    found: Callable[..., ShownReproduction], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Print what was found and write its files; exit status 1 if it is not as known."""
    from nicscope.library.reproduce import check
    from nicscope.reports.result import folder_for
    from nicscope.studies.reproduce.keeping import journal_path, kept_beside

    check_explained(explain, as_json)
    out = given.pop("out")
    check(**given)  # a name that is wrong leaves no folder
    try:
        with kept_beside(out) as kept, folder_for(out) as folder:
            if kept.earlier:
                several = "results were" if kept.earlier > 1 else "was"
                said = f"continuing: {kept.earlier} {several} found before"
                print(f"nicscope: {said}", file=sys.stderr)
            report = found(kept=kept)
            written = [] if folder is None else _write_reproduction(report, folder)
    except KeyboardInterrupt:
        exit_resumable(None if out is None else journal_path(out))
        raise
    if len(written) <= LISTED or as_json:
        tell(report, written, as_json, explain)
    else:
        tell(report, [], as_json, explain)
        print(f"\nwritten: {len(written)} files in {out}, among them {written[0].name}")
    if not report.found.as_known():
        raise typer.Exit(1)


def _write_reproduction(report: ShownReproduction, folder: OutputFolder) -> list[Path]:
    from nicscope.library.reproduce import Count

    count = len(report.found.tables)
    with progress("writing", "tables") as watch:
        report.tell = Count(watch, count)
        return report.write(folder)
