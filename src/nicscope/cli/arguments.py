"""Arguments and options that several commands share, with their shell completion."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import printable
from nicscope.library import command
from nicscope.library import traces as read
from nicscope.library.traces import BUNDLED
from nicscope.outputs import STDOUT, check_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.library.command import Option
    from nicscope.studies.programs import ProgramRuns
    from nicscope.traces.imported import KvChoices
    from nicscope.traces.reader import Trace


# What a shell offers, by what an option asks for: a module, and its names or the function that has
# them.  The modules are imported when a shell asks.
OFFERED = {
    "designs": "config.design.design_names",
    "platforms": "config.platform.platform_names",
    "language_models": "config.language_model.language_model_names",
    "registrations": "config.costs.registration_names",
    "limits": "config.costs.limit_names",
    "hypotheses": "config.costs.hypothesis_names",
    "nics": "config.costs.nic_names",
    "faults": "config.costs.fault_names",
    "paths": "config.costs.path_names",
    "apps": "library.applications.app_names",
    "collectives": "library.measurements.collective_names",
    "programs": "studies.reproduce.traced.workloads.SIZES",
}


def offering(what: str) -> Callable[[str], list[str]]:
    """A function of what is ``OFFERED`` that begins with what was typed."""
    module, _, name = OFFERED[what].rpartition(".")

    def offer(incomplete: str) -> list[str]:
        names = getattr(importlib.import_module(f"nicscope.{module}"), name)
        every = names() if callable(names) else names
        return [each for each in every if each.startswith(incomplete)]

    return offer


def traces(incomplete: str) -> list[str]:
    """Bundled traces, offered after the first letter only, as most traces are files."""
    from nicscope.traces.bundled import bundled_traces

    names = [BUNDLED + name for name in bundled_traces()] if incomplete else []
    return [name for name in names if name.startswith(incomplete)]


DASH = "-"


def option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    """An option with a value shown as ``metavar``; ``told`` is its help."""
    return typer.Option(*names, metavar=metavar, help=told, **more)


def declared(option: Option, *names: str, **more: Any) -> Any:
    """The Typer argument or option of an ``Option``; ``names`` are an option's, with dashes."""
    if option.metavar:
        more["metavar"] = option.metavar
    if option.offers:
        more["autocompletion"] = traces if option.offers == "traces" else offering(option.offers)
    if option.is_argument:
        return typer.Argument(help=option.help, **more | {"show_default": False})
    return typer.Option(*names, help=option.help, min=option.least, max=option.most, **more)


def _option_of(parameter: Any) -> Any:
    """The same of a parameter that several functions of the library have."""
    option = get_args(parameter)[1]
    return declared(option, *option.names)


OneTrace = Annotated[str, _option_of(read.OneTrace)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Explain the terms of the tables below them.")
]


def byte_count(given: str | int) -> int:
    """Parse a size in bytes."""
    count = given if isinstance(given, int) else read_bytes(given)
    if count is None:
        raise typer.BadParameter(f"{given!r} is no whole number of bytes, {BYTE_SPELLINGS}")
    return count


def output_path(given: str) -> Path:
    """The output path; ``-`` is standard output, ``./-`` a file."""
    return STDOUT if given == DASH else Path(given)


@contextlib.contextmanager
def text_beside(out: Path, as_json: bool = False) -> Iterator[None]:
    """Redirect the block's text to the error stream if ``out`` is standard output.

    Errors: ``OutputError`` if ``out`` cannot be written, or if JSON would be mixed into it.
    """
    from nicscope.errors import OutputError

    aside: Any = contextlib.nullcontext()
    if check_output(out).is_standard_output():
        if as_json:
            raise OutputError(
                f"{out}: is where --json prints; name a file for the result, or leave --json out"
            )
        aside = contextlib.redirect_stdout(sys.stderr)
    with aside:
        yield


Timeline = Annotated[str | None, _option_of(command.Timeline)]


def beside_timeline(timeline: Path | None, as_json: bool) -> Any:
    """A block whose text does not mix with a timeline on standard output.

    Errors: ``OutputError`` if that could not be written.
    """
    return contextlib.nullcontext() if timeline is None else text_beside(timeline, as_json)


def report_omitted(found: ProgramRuns, path: Path) -> None:
    """Report on the error stream how much of a run a timeline omits."""
    from nicscope.studies.timeline import counts

    kept, every = counts(found)
    if kept < every:
        print(
            f"nicscope: {printable(str(path))}: the first {kept:,} of {every:,} records, which is "
            "as many as a browser holds",
            file=sys.stderr,
        )


SERVICE = "service"  # the parameter of a command that reads services
PANEL = "Traces of a language model's service (Mooncake's, Azure's, BurstGPT's)"


def _option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    return option(metavar, told, *names, rich_help_panel=PANEL, **more)


class Service(NamedTuple):
    """The options for LLM serving traces, declared here and nowhere else."""

    model: Annotated[
        str | None,
        _option(
            "NAME|FILE",
            "Language model whose KV cache the pool holds, such as llama-3-70b.",
            autocompletion=offering("language_models"),
        ),
    ] = None
    ranks: Annotated[
        int, _option("N", "Tensor-parallel ranks that share the model's heads.", "--tp", min=1)
    ] = 1
    layout: Annotated[
        str, _option("block|layer", "Whether the bytes of a block or of a layer are contiguous.")
    ] = "block"
    pool_bytes: Annotated[
        str | None,
        _option(
            "BYTES", "Memory of the pool at each rank. Default: enough for all blocks.", "--pool"
        ),
    ] = None
    slice_bytes: Annotated[
        str, _option("BYTES|whole", "Cut longer runs of bytes into slices of this size.", "--slice")
    ] = "64K"
    block_tokens: Annotated[
        int, _option("N", "Tokens of a block, for files that do not say (Azure, BurstGPT).", min=1)
    ] = 512
    prefix_tokens: Annotated[
        int,
        _option(
            "N",
            "Assume that all requests begin with the same N tokens (Azure, BurstGPT).",
            "--prefix",
            min=0,
        ),
    ] = 0
    generated: Annotated[
        bool,
        typer.Option(
            "--generated",
            help="Assume that generated tokens are kept, too (Azure, BurstGPT).",
            rich_help_panel=PANEL,
        ),
    ] = False

    def opened(self, given: str) -> str | Trace:
        """The trace ``given``, opened if it is a serving trace; any other stays a name."""
        from nicscope.library.traces import open_trace

        if self == UNSAID:
            return given
        return open_trace(given, **self._asdict())

    def choices(self) -> KvChoices | None:
        """The KV cache options; None if none was given.  Errors: ``TraceError``."""
        from nicscope.errors import TraceError
        from nicscope.library.kv_cache import kv_choices

        if self.model is None:
            if self != UNSAID:
                raise TraceError("name the --model that the other options of a service go with")
            return None
        return kv_choices(
            self.model,
            self.ranks,
            self.layout,
            self.pool_bytes,
            self.slice_bytes,
            block_tokens=self.block_tokens,
            prefix_tokens=self.prefix_tokens,
            generated=self.generated,
        )


UNSAID = Service()


def reads_services(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of a ``Service`` in place of its parameter ``service``."""
    own = inspect.signature(command, eval_str=True)
    declared = get_type_hints(Service, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        if parameter.name != SERVICE:
            parameters.append(parameter)
            continue
        parameters += [
            parameter.replace(name=name, annotation=declared[name], default=default)
            for name, default in Service._field_defaults.items()
        ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        service = Service(*(given.pop(name) for name in Service._fields))
        command(**given, service=service)

    # What Typer reads: the signature, and the annotations as they were evaluated.
    run.__dict__["__signature__"] = own.replace(parameters=parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
