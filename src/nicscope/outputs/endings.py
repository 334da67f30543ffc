"""The format in which a file is written is what its name says; no other rule decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import OutputError
from nicscope.outputs.target import target_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

COMPRESSED = {".zst": "zstd", ".gz": "gzip"}
PARQUET, CSV = "parquet", "csv"
TABLES = {PARQUET: (".parquet",), CSV: (".csv",)}


def named_format(path: Path, endings: Mapping[str, Sequence[str]]) -> str | None:
    """The format of ``endings`` whose ending the name has, before ``.zst`` or ``.gz``; or None."""
    name = path.name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    known = ((key, end.lower()) for key, ends in endings.items() for end in ends)
    return next((key for key, end in known if name.endswith(end)), None)


def named_compression(path: Path) -> str | None:
    """``zstd`` or ``gzip`` if the name says so."""
    return COMPRESSED.get(path.suffix.lower())


def format_to_write(
    path: Path,
    endings: Mapping[str, Sequence[str]],
    chosen: str | None = None,
    *,
    of_stream: str | None = None,
    otherwise: str = "",
) -> str:
    """The format to write ``path`` in: ``chosen``, or else of its name, or ``of_stream`` for one.

    Errors: ``OutputError`` if the name does not say, with ``otherwise`` what else would.
    """
    found = chosen or named_format(path, endings)
    if found is None and of_stream is not None and target_of(path).is_stream:
        found = of_stream
    if found is None:
        known = [ends[0] for ends in endings.values() if ends]
        raise OutputError(
            f"{path}: cannot tell which format to write; end the name in "
            f"{', '.join(known[:-1])} or {known[-1]}{otherwise}"
        )
    if found == PARQUET and named_compression(path):
        raise OutputError(f"{path}: Parquet is compressed within; end the name in .parquet")
    return found
