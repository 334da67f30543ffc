"""Options of commands that read a language model's service as it is: whose KV cache, kept how."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from nicscope.cli import completion
from nicscope.cli.arguments import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.traces.kv_layout import KvChoices
    from nicscope.traces.reader import Trace

SERVICE = "service"  # the parameter of a command that reads services
PANEL = "Traces of a language model's service (Mooncake's, Azure's, BurstGPT's)"


def _option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    return option(metavar, told, *names, rich_help_panel=PANEL, **more)


class Service(NamedTuple):
    """What the options said, each of which is declared here and nowhere else."""

    model: Annotated[
        str | None,
        _option(
            "NAME|FILE",
            "The model whose KV cache a pool keeps, as llama-3-70b.",
            autocompletion=completion.language_models,
        ),
    ] = None
    ranks: Annotated[int, _option("N", "Ranks that share the model's heads.", "--tp", min=1)] = 1
    layout: Annotated[
        str, _option("block|layer", "Whether a block's bytes or a layer's are together.")
    ] = "block"
    pool_bytes: Annotated[
        str | None,
        _option("BYTES", "Memory of the pool at each rank; left out: room for all.", "--pool"),
    ] = None
    slice_bytes: Annotated[
        str, _option("BYTES|whole", "A longer run of bytes is cut into these.", "--slice")
    ] = "64K"
    block_tokens: Annotated[
        int, _option("N", "Of a block, where the file names none (Azure, BurstGPT).", min=1)
    ] = 512
    prefix_tokens: Annotated[
        int,
        _option(
            "N",
            "Assumed: all requests begin with the same N tokens (Azure, BurstGPT).",
            "--prefix",
            min=0,
        ),
    ] = 0
    generated: Annotated[
        bool,
        typer.Option(
            "--generated",
            help="Assumed: what is generated is kept too (Azure, BurstGPT).",
            rich_help_panel=PANEL,
        ),
    ] = False

    def opened(self, given: str) -> str | Trace:
        """The trace ``given``, open if it is a service's; any other stays a name."""
        from nicscope.library.traces import open_trace

        if self == UNSAID:
            return given
        return open_trace(given, **self._asdict())

    def choices(self) -> KvChoices | None:
        """Whose KV cache it is; None if nobody said.  Errors: ``TraceError``."""
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
    """``command`` with the options of a ``Service`` in the place of its parameter ``service``."""
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
