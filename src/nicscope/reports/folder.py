"""A comparison as files: results.json, counts.parquet and figures, each whole or not there."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from nicscope.outputs import output_folder, whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nicscope.studies.replaying import Comparison


@contextlib.contextmanager
def folder_for(path: Path | None) -> Iterator[Path | None]:
    """``path`` as a writable folder, made if need be, and unmade again if the block fails.

    None stays None.  Errors: ``OutputError`` if it is a file or cannot be made or written to.
    """
    if path is None:
        yield None
        return
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield output_folder(path)
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):  # not empty: whole results stay
                folder.rmdir()
        raise


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """The files written to ``folder``; errors: ``OutputError`` for the first that cannot be."""
    results = folder / "results.json"
    with whole_file(results) as part:
        text = json.dumps(comparison.to_json(), indent=2, ensure_ascii=False) + "\n"
        part.write_text(text, encoding="utf-8")
    counts = folder / "counts.parquet"
    _write_counts(comparison, counts)
    return [results, counts, *_write_figures(comparison, folder)]


def _write_counts(comparison: Comparison, path: Path) -> None:
    """One row per design, node and count: tidy, for any table library."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        (priced.name, node["node"], name, value)
        for priced in comparison.priced
        for node in priced.result.nodes
        for name, value in node.items()
        if name != "node"
    ]
    design, number, count, value = zip(*rows, strict=True)
    table = pa.table(
        {
            "design": pa.array(design, pa.string()),
            "node": pa.array(number, pa.int32()),
            "count": pa.array(count, pa.string()),
            "value": pa.array(value, pa.int64()),
        }
    )
    with whole_file(path) as part:
        pq.write_table(table, part)


def _write_figures(comparison: Comparison, folder: Path) -> list[Path]:
    from nicscope.reports.figures import FIGURES
    from nicscope.reports.figures.style import save

    written = []
    for name, draw in FIGURES.items():
        figure = draw(comparison)
        for ending in ("png", "svg"):
            path = folder / f"{name}.{ending}"
            with whole_file(path) as part:
                save(figure, part, ending)
            written.append(path)
    return written
