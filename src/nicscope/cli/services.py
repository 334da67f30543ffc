"""Options of commands that read a language model's service as it is: whose KV cache, kept how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nicscope.cli import completion
from nicscope.cli.arguments import option

if TYPE_CHECKING:
    from nicscope.traces.kv_layout import KvChoices
    from nicscope.traces.reader import Trace

PANEL = "Traces of a language model's service (Mooncake's, Azure's, BurstGPT's)"


def _option(metavar: str, told: str, *names: str, **more: Any) -> Any:
    return option(metavar, told, *names, rich_help_panel=PANEL, **more)


Model = Annotated[
    str | None,
    _option(
        "NAME|FILE",
        "The model whose KV cache a pool keeps, as llama-3-70b.",
        autocompletion=completion.language_models,
    ),
]
Ranks = Annotated[int, _option("N", "Ranks that share the model's heads.", "--tp", min=1)]
Layout = Annotated[
    str, _option("block|layer", "Whether a block's bytes or a layer's are together.")
]
Pool = Annotated[
    str | None, _option("BYTES", "Memory of the pool at each rank; left out: room for all.")
]
Slice = Annotated[
    str, _option("BYTES|whole", "A longer run of bytes is cut into these.", "--slice")
]
BlockTokens = Annotated[
    int, _option("N", "Of a block, where the file names none (Azure, BurstGPT).", min=1)
]
PrefixTokens = Annotated[
    int,
    _option(
        "N",
        "Assumed: all requests begin with the same N tokens (Azure, BurstGPT).",
        "--prefix",
        min=0,
    ),
]
Generated = Annotated[
    bool,
    typer.Option(
        "--generated",
        help="Assumed: what is generated is kept too (Azure, BurstGPT).",
        rich_help_panel=PANEL,
    ),
]


class Service(NamedTuple):
    """What the options said."""

    model: str | None
    ranks: int
    layout: str
    pool_bytes: str | None
    slice_bytes: str
    block_tokens: int
    prefix_tokens: int
    generated: bool

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


UNSAID = Service(None, 1, "block", None, "64K", 512, 0, False)
