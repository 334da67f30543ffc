"""Language models: the size of their KV cache per token.

A file states either heads of keys and values, or the latent vector and the rotary part that a
model with latent attention keeps instead of them, which every rank of a group keeps whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.costs import Origin, open_file, read_origin, read_table
from nicscope.config.toml_files import shelf_names
from nicscope.errors import TraceError
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from pathlib import Path

_BY_HEADS = ("layers", "heads", "head_size", "element")
_LATENT = ("layers", "latent", "rotary", "element")
_MOST = 1 << 20


class LanguageModel(msgspec.Struct, frozen=True):
    """The parameters that determine a token's KV cache size, with their sources."""

    name: str
    title: str
    layers: int
    parts: int  # of a layer that are kept apart: keys and values, or the latent vector alone
    width: int  # elements of a part
    element: int  # bytes
    is_divided: bool  # whether the ranks of a group each keep a part of the heads
    heads: int | None
    origins: dict[str, Origin]

    @property
    def bytes_per_token(self) -> int:
        """KV cache bytes per token of the whole model."""
        return self.layers * self.parts * self.width * self.element

    def bytes_of_rank(self, ranks: int) -> int:
        """Bytes of a token at each of ``ranks`` tensor-parallel ranks.

        Errors: ``TraceError`` if the heads cannot be shared out among so many.
        """
        if not self.is_divided:
            return self.bytes_per_token
        if ranks < 1 or self.heads is None or self.heads % ranks:
            raise TraceError(
                f"{self.name} has {self.heads} heads of keys and values, which {ranks} ranks do "
                f"not share evenly; choose a divisor of {self.heads}"
            )
        return self.bytes_per_token // ranks


def language_model_names() -> list[str]:
    """Names of the catalog's models, sorted."""
    return shelf_names("models")


@TrimmedTraceback()
def load_language_model(name_or_path: str | Path) -> LanguageModel:
    """Load a model by catalog name, or from a ``.toml`` file.

    Errors: ``TraceError`` naming the file and the key that is wrong.
    """
    file = open_file("models", name_or_path, ["cache"], TraceError)
    cells = file.content.get("cache")
    is_latent = isinstance(cells, dict) and "latent" in cells
    keys = _LATENT if is_latent else _BY_HEADS
    cells = read_table(file, "cache", keys, TraceError)
    numbers, origins = {}, {}
    for key in keys:
        where, cell = f"{file.called}: cache.{key}", cells.get(key)
        value = cell.get("value") if isinstance(cell, dict) else None
        if type(value) is not int or not 1 <= value <= _MOST:
            raise TraceError(f"{where} must be a table whose value is an integer from 1 to {_MOST}")
        numbers[key] = value
        origins[key] = read_origin(cell, file.sources, where, TraceError)
    if is_latent:
        parts, width = 1, numbers["latent"] + numbers["rotary"]
    else:
        parts, width = 2, numbers["heads"] * numbers["head_size"]
    return LanguageModel(
        name=file.name,
        title=file.title,
        layers=numbers["layers"],
        parts=parts,
        width=width,
        element=numbers["element"],
        is_divided=not is_latent,
        heads=numbers.get("heads"),
        origins=origins,
    )
