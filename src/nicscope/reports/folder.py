"""Results as a set of files; a comparison's are results.json, counts.parquet and figures."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nicscope.errors import OutputError
from nicscope.outputs import OutputFolder, whole_folder
from nicscope.reports.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.figure import Figure

    from nicscope.studies.replaying import Comparison


@contextlib.contextmanager
def folder_for(path: Path | None) -> Iterator[OutputFolder | None]:
    """A set of files that is in the folder ``path`` when the block ends well; None stays None.

    Errors: ``OutputError`` if it is no folder, or cannot be made or written to.
    """
    if path is None:
        yield None
        return
    if str(path) == "-":
        raise OutputError("--out -: standard output takes no folder of results; name a folder")
    with whole_folder(path) as folder:
        yield folder


def write_json(folder: OutputFolder, name: str, plain: dict[str, Any]) -> Path:
    """The file ``name`` with one JSON object."""
    return write_text(folder, name, json_text(plain))


def write_text(folder: OutputFolder, name: str, text: str) -> Path:
    """The file ``name`` with ``text``."""
    with folder.file(name) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return folder.path / name


def write_parquet(folder: OutputFolder, name: str, table: Any) -> Path:
    """The file ``name`` with an Arrow table."""
    import pyarrow.parquet as pq

    with folder.file(name) as file:
        pq.write_table(table, file)
    return folder.path / name


def write_figure(folder: OutputFolder, name: str, figure: Figure) -> list[Path]:
    """The files ``name.png`` and ``name.svg``."""
    from nicscope.reports.figures.style import save

    written = []
    for ending in ("png", "svg"):
        with folder.file(f"{name}.{ending}") as file:
            save(figure, file, ending)
        written.append(folder.path / f"{name}.{ending}")
    return written


def write_comparison(comparison: Comparison, folder: OutputFolder) -> list[Path]:
    """The files of ``folder``; errors: ``OutputError`` for the first that cannot be written."""
    from nicscope.reports.figures import FIGURES

    written = [write_json(folder, "results.json", comparison.to_json())]
    written.append(write_parquet(folder, "counts.parquet", _counts(comparison)))
    for name, draw in FIGURES.items():
        written += write_figure(folder, name, draw(comparison))
    return written


def _counts(comparison: Comparison) -> Any:
    """One row per design, node and count: tidy, for any table library."""
    import pyarrow as pa

    rows = [
        (priced.name, node["node"], name, value)
        for priced in comparison.priced
        for node in priced.result.nodes
        for name, value in node.items()
        if name != "node"
    ]
    design, number, count, value = zip(*rows, strict=True)
    return pa.table(
        {
            "design": pa.array(design, pa.string()),
            "node": pa.array(number, pa.int32()),
            "count": pa.array(count, pa.string()),
            "value": pa.array(value, pa.int64()),
        }
    )
