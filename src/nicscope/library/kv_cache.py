"""A language model's KV cache by name: what a trace of its service needs besides the file."""

from __future__ import annotations

from nicscope.config.byte_size import SPELLINGS, read_bytes
from nicscope.config.language_model import load_language_model
from nicscope.errors import TraceError, did_you_mean
from nicscope.traces.kv_layout import LAYOUTS, KvChoices

WHOLE = "whole"


def kv_choices(
    model: str,
    ranks: int = 1,
    layout: str = LAYOUTS[0],
    pool_bytes: int | None = None,
    slice_bytes: str = "64K",
    seed: int = 0,
) -> KvChoices:
    """How a pool keeps ``model``'s cache at one of ``ranks``.

    ``model``: a name of the catalog or a TOML file.  Errors: ``TraceError`` if there is no such
    model or layout, if its heads do not divide, or a size is none.
    """
    found = load_language_model(model)
    if layout not in LAYOUTS:
        raise TraceError(f"unknown --layout {layout!r}{did_you_mean(layout, LAYOUTS)}")
    size = None if slice_bytes == WHOLE else read_bytes(slice_bytes)
    if slice_bytes != WHOLE and not size:
        raise TraceError(f"--slice must be {WHOLE!r} or bytes, {SPELLINGS}; got {slice_bytes!r}")
    return KvChoices(
        model=found.name,
        token_bytes=found.bytes_of_rank(ranks),
        ranks=ranks,
        regions=found.layers * found.parts,
        layout=layout,
        pool_bytes=pool_bytes,
        slice_bytes=size,
        seed=seed,
    )
