"""KV cache options of an LLM serving trace, by model name."""

from __future__ import annotations

from nicscope.config.language_model import load_language_model
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import TraceError, did_you_mean
from nicscope.traces.imported import BLOCK_TOKENS, LAYOUTS, PAGE_TOKENS, KvChoices

WHOLE = "whole"


def kv_choices(
    model: str,
    ranks: int = 1,
    layout: str = LAYOUTS[0],
    pool_bytes: str | int | None = None,
    slice_bytes: str = "64K",
    *,
    block_tokens: int = BLOCK_TOKENS,
    prefix_tokens: int = 0,
    generated: bool = False,
) -> KvChoices:
    """How a pool keeps ``model``'s cache at one of ``ranks``.

    ``model``: a name of the catalog or a TOML file; the last three are for traces that name no
    blocks.  Errors: ``TraceError`` if there is no such model or layout, if its heads do not divide,
    or a size is none.
    """
    if block_tokens < 1 or block_tokens % PAGE_TOKENS:
        raise TraceError(
            f"--block-tokens must be a multiple of {PAGE_TOKENS}, a page's; got {block_tokens}"
        )
    if prefix_tokens < 0:
        raise TraceError(f"--prefix must be tokens, got {prefix_tokens}")
    found = load_language_model(model)
    if layout not in LAYOUTS:
        raise TraceError(f"unknown --layout {layout!r}{did_you_mean(layout, LAYOUTS)}")
    size = None if slice_bytes == WHOLE else read_bytes(slice_bytes)
    if slice_bytes != WHOLE and not size:
        raise TraceError(
            f"--slice must be {WHOLE!r} or bytes, {BYTE_SPELLINGS}; got {slice_bytes!r}"
        )
    pool = None if pool_bytes is None else read_bytes(str(pool_bytes))
    if pool_bytes is not None and pool is None:
        raise TraceError(f"--pool must be bytes, {BYTE_SPELLINGS}; got {str(pool_bytes)!r}")
    return KvChoices(
        model=found.name,
        token_bytes=found.bytes_of_rank(ranks),
        ranks=ranks,
        regions=found.layers * found.parts,
        layout=layout,
        pool_bytes=pool,
        slice_bytes=size,
        block_tokens=block_tokens,
        prefix_tokens=prefix_tokens,
        generated=generated,
    )
