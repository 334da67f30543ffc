"""A result as people and programs get it: on a terminal, as JSON, in a notebook, as files.

What a command finds is a ``Report``, which says once what it is made of: its parts, tables and
paragraphs, and its files.  Text, pages and folders all come of that.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from nicscope.errors import OutputError
from nicscope.outputs import OutputFolder, whole_folder
from nicscope.reports.printing import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from nicscope.reports.printing import Printed


class Report(ABC):
    """A result, ``found``, that shows itself; each kind of result has a class of its own."""

    found: Any

    def __init__(self, found: Any) -> None:
        self.found = found

    def to_json(self) -> Any:
        """What programs read of it."""
        return self.found.to_json()

    @abstractmethod
    def parts(self) -> Iterable[Printed]:
        """What people read of it, from top to bottom."""

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, content) of each file beside results.json.

        The content is text, an Arrow table, a function that writes into an open file, or a
        Matplotlib figure, whose name has no ending, as it becomes two files.
        """
        yield from ()

    def show(self) -> None:
        """Print everything that people want of it on stdout."""
        show(self.parts())

    def write(self, folder: OutputFolder) -> list[Path]:
        """The files added to ``folder``; errors: ``OutputError`` for the first that cannot be."""
        written = write_file(folder, "results.json", json_text(self.to_json()))
        for name, content in self.files():
            written += write_file(folder, name, content)
        return written

    def save(self, path: Path) -> list[Path]:
        """The files written to the folder ``path``; errors: ``OutputError``."""
        with whole_folder(path) as folder:
            return self.write(folder)

    def figure(self, name: str) -> Figure:
        """The Matplotlib figure of that name.  Errors: ``KeyError`` if there is none."""
        return self._figures()[name]

    def _figures(self) -> dict[str, Figure]:
        return {name: content for name, content in self.files() if hasattr(content, "savefig")}

    def _repr_html_(self) -> str:
        from nicscope.reports.figures.style import save
        from nicscope.reports.page import html_of

        pictures = []
        for name, figure in self._figures().items():
            save(figure, content := io.BytesIO(), "png")
            data = base64.b64encode(content.getvalue()).decode()
            pictures.append(f'<img alt="{name}" width="800" src="data:image/png;base64,{data}">')
        return html_of(self.parts()) + "".join(pictures)

    def _repr_markdown_(self) -> str:
        from nicscope.reports.page import markdown_of

        return markdown_of(self.parts())


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


def write_file(folder: OutputFolder, name: str, content: Any) -> list[Path]:
    """The file ``name`` with ``content``, as ``Report.files`` has it; of a figure both files."""
    if hasattr(content, "savefig"):
        from nicscope.reports.figures.style import save

        written = []
        for ending in ("png", "svg"):
            with folder.file(f"{name}.{ending}") as file:
                save(content, file, ending)
            written.append(folder.path / f"{name}.{ending}")
        return written
    with folder.file(name) as file:
        if isinstance(content, str):
            file.write(content.encode("utf-8", "backslashreplace"))
        elif callable(content):
            content(file)
        else:
            import pyarrow.parquet as pq

            pq.write_table(content, file)
    return [folder.path / name]


def tidy(kinds: Mapping[str, str], rows: Iterable[Iterable[Any]]) -> Any:
    """An Arrow table of ``rows``, with a column of that type for each of ``kinds``."""
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    return pa.table(
        {
            name: pa.array(column, pa.type_for_alias(kind))
            for (name, kind), column in zip(kinds.items(), columns, strict=True)
        }
    )


def json_text(plain: Any, *, ascii_only: bool = False) -> str:
    """One JSON document, with a newline; bytes of a file's name that are no text are escaped."""
    text = json.dumps(plain, indent=2, ensure_ascii=ascii_only)
    return text.encode("utf-8", "backslashreplace").decode() + "\n"
