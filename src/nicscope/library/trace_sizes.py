"""Sizes of a made trace's requests, spelt as every size is."""

from __future__ import annotations

from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import TraceError
from nicscope.traces.synthetic import LONGEST, weighted


def sizes_of(text: str) -> tuple[tuple[int, float], ...]:
    """Bytes and shares that ``--size`` spells; errors: ``TraceError``."""
    parts = weighted("--size", text)
    sizes = [(read_bytes(name), share) for name, share in parts]
    for (size, _), (name, _) in zip(sizes, parts, strict=True):
        if size is None or not 1 <= size <= LONGEST:
            raise TraceError(
                f"--size: {name!r} is no length of a request, {BYTE_SPELLINGS}, below 4 GiB"
            )
    return tuple((size, share) for size, share in sizes if size is not None)
