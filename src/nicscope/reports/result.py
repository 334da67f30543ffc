"""Results for people and programs: on a terminal, as JSON, in a notebook, as files.

What a command finds is a ``Report``, which says once what it is made of: its parts, tables and
paragraphs, and its files.  Text, pages and folders all come of that.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import json
from abc import ABC, abstractmethod
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from nicscope.errors import OutputError, StudyError, did_you_mean, in_one_line
from nicscope.outputs import OutputFolder, whole_folder
from nicscope.reports.printing import Note, Printed, Rows, heading, is_blank, said, show, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure

    from nicscope.config.glossary import Meaning


def drawing(place: str) -> Callable[..., Any]:
    """The function ``module.name`` of ``reports.figures``, where Matplotlib is imported."""
    module, _, name = place.partition(".")
    found: Callable[..., Any] = getattr(
        importlib.import_module(f"nicscope.reports.figures.{module}"), name
    )
    return found


class Report(ABC):
    """A result, ``found``, that shows itself; each kind of result has a class of its own.

    ``print`` shows what the command does, a notebook the same with figures; ``table``,
    ``to_pandas`` and ``to_polars`` have the numbers, ``figure`` the figures, ``save`` the files.
    """

    found: Any
    is_headed = True  # its first part says what it is about, and the summary goes below that
    topic = ""  # by which the glossary tells headings apart that others use otherwise
    # Figures of all that was found, by name: each a ``drawing``, which may draw none.
    drawn: ClassVar[Mapping[str, str]] = {}

    def __init__(self, found: Any, command: Sequence[str] | None = None) -> None:
        """``command``: arguments that give ``found`` again, where that is to be told."""
        self.found = found
        self.command = command

    def as_json(self) -> Any:
        """What ``--json`` prints, as plain values."""
        plain = self.found.to_json()
        if self.command is None:
            return plain
        from nicscope.studies.sources import repeat

        return plain | {"repeat": repeat(self.command)}

    def summary(self) -> list[str]:
        """The answer in words: sentences whose numbers are the tables'."""
        return []

    @abstractmethod
    def parts(self) -> Iterable[Printed]:
        """The parts of its text below the summary, from top to bottom."""

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, Arrow table) of its numbers; the first is what it is about."""
        yield from ()

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, content) of each file beside results.json: at first tables and figures.

        The content is text, an Arrow table, a function that writes into an open file, or a
        Matplotlib figure, whose name has no ending, as it becomes two files.
        """
        for name, table in self.tables():
            yield f"{name}.parquet", table
        for name, place in self.drawn.items():
            figure = drawing(place)(self.found)
            if figure is not None:
                yield name, figure

    def printed(self, *, explain: bool = False) -> Iterator[Printed]:
        """The summary, the parts, and with ``explain`` the definitions of headings."""
        shown = list(self.parts())
        if sentences := self.summary():
            if self.is_headed:
                yield shown[0]
                yield ""
            yield said(" ".join(sentences))
            rest = shown[1:] if self.is_headed else shown
            if not is_blank(rest[0]):
                yield ""
            yield from rest
        else:
            yield from shown
        if explain:
            yield from explained(shown, self.topic)

    def show(self, *, explain: bool = False) -> None:
        """Print the text on stdout."""
        show(self.printed(explain=explain))

    def __str__(self) -> str:
        return text_of(self.printed())

    def __repr__(self) -> str:
        sentences = self.summary()
        return f"<{type(self).__name__}: {sentences[0]}>" if sentences else super().__repr__()

    @in_one_line
    def table(self, name: str | None = None) -> Any:
        """The Arrow table of that name, or the first.  Errors: ``StudyError`` if there is none."""
        names = []
        for called, table in self.tables():
            if name in (None, called):
                return table
            names.append(called)
        what = "table" if name is None else f"table {name!r}"
        raise StudyError(f"a {type(self).__name__} has no {what}{did_you_mean(name or '', names)}")

    @in_one_line
    def to_pandas(self, name: str | None = None) -> Any:
        """The table of that name, or the first, as pandas has it.

        Errors: ``StudyError`` if there is none, or no pandas.
        """
        _installed("pandas")
        return self.table(name).to_pandas()

    @in_one_line
    def to_polars(self, name: str | None = None) -> Any:
        """The table of that name, or the first, as Polars has it.

        Errors: ``StudyError`` if there is none, or no Polars.
        """
        return _installed("polars").from_arrow(self.table(name))

    def write(self, folder: OutputFolder) -> list[Path]:
        """The files added to ``folder``; errors: ``OutputError`` for the first that cannot be."""
        written = write_file(folder, "results.json", json_text(self.as_json()))
        for name, content in self.files():
            written += write_file(folder, name, content)
        return written

    @in_one_line
    def save(self, path: str | Path) -> list[Path]:
        """The files of ``--out``, written to the folder ``path``; errors: ``OutputError``."""
        with whole_folder(Path(path)) as folder:
            return self.write(folder)

    @in_one_line
    def figure(self, name: str | None = None) -> Figure:
        """The Matplotlib figure of that name, or the first.

        Errors: ``StudyError`` if there is none.
        """
        names = []
        for called, content in self.files():
            if hasattr(content, "savefig"):
                if name in (None, called):
                    figure: Figure = content
                    return figure
                names.append(called)
        what = "figure" if name is None else f"figure {name!r}"
        raise StudyError(f"a {type(self).__name__} has no {what}{did_you_mean(name or '', names)}")

    def figures(self) -> dict[str, Figure]:
        """Every figure, by name."""
        return {name: content for name, content in self.files() if hasattr(content, "savefig")}

    def _repr_html_(self) -> str:
        from nicscope.reports.figures.style import save
        from nicscope.reports.page import notebook_page

        pictures = {}
        for name, figure in self.figures().items():
            save(figure, content := io.BytesIO(), "svg")
            pictures[name] = base64.b64encode(content.getvalue()).decode()
        return notebook_page(self.printed(), pictures)

    def _repr_markdown_(self) -> str:
        from nicscope.reports.page import markdown_of

        return markdown_of(self.printed())


def _installed(library: str) -> Any:
    """Import the optional ``library``; errors: ``StudyError`` if it is not installed."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise StudyError(f"{library} is not installed; 'pip install {library}'") from error


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


# Of a column: its type, and the attribute that it shows or the function that says it.
Column: TypeAlias = tuple[str, "str | Callable[[Any], Any]"]


def of_totals(*counts: str) -> dict[str, Column]:
    """Columns of ``counts``, by name, of things that have a ``total``; null: not counted."""

    def total(one: Any, name: str) -> Any:
        return one.total.get(name)

    return {name: ("int64", partial(total, name=name)) for name in counts}


def table_of(things: Iterable[Any], columns: Mapping[str, Column]) -> Any:
    """An Arrow table with a row for each of ``things``."""
    reads = [attrgetter(one) if isinstance(one, str) else one for _, one in columns.values()]
    kinds = {name: kind for name, (kind, _) in columns.items()}
    return tidy(kinds, ([read(one) for read in reads] for one in things))


def table_of_rows(
    rows: Iterable[Mapping[str, Any]],
    kinds: Mapping[str, str] | None = None,
    words: Collection[str] = (),
) -> Any:
    """An Arrow table of ``rows``, with columns of the types ``kinds``.

    Left out: ``words`` are text, the ends of a range, ``_low`` and ``_high``, may be broken
    numbers, and all others are whole ones.
    """
    every = list(rows)
    if kinds is None:
        kinds = {
            name: "float64" if name.endswith(("_low", "_high")) else "int64" for name in every[0]
        } | dict.fromkeys(words, "string")
    return tidy(kinds, ([row.get(name) for name in kinds] for row in every))


def tidy(kinds: Mapping[str, str], rows: Iterable[Iterable[Any]]) -> Any:
    """An Arrow table of ``rows``, with columns of the types ``kinds``."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    return pa.table(
        {
            name: pa.array(column, pa.type_for_alias(kind))
            for (name, kind), column in zip(kinds.items(), columns, strict=True)
        }
    )


def json_text(plain: Any, *, ascii_only: bool = False) -> str:
    """One JSON document, with a newline; undecodable bytes of file names are escaped."""
    text = json.dumps(plain, indent=2, ensure_ascii=ascii_only)
    return text.encode("utf-8", "backslashreplace").decode() + "\n"


def distinct_headings(parts: Iterable[Printed]) -> list[str]:
    """The distinct headings of the tables among ``parts``, in order of first use."""
    tables = [part for part in parts if isinstance(part, Rows)]
    return list(dict.fromkeys(heading for rows in tables for heading in rows.headings if heading))


def explained(parts: Iterable[Printed], topic: str) -> Iterator[Printed]:
    """A paragraph for each term in the tables among ``parts``, on ``topic``."""
    from nicscope.config.glossary import meaning_of

    told: dict[str, tuple[Meaning, list[str]]] = {}
    for word in distinct_headings(parts):
        found = meaning_of(word, topic)
        if found is not None:
            told.setdefault(found.name, (found, []))[1].append(word)
    if told:
        yield ""
        yield heading("What the tables' words mean")
    for (name, term), headings in told.values():
        source = f"  [{term.source}]" if term.source else ""
        yield Note(f"{_term_in_words(name, headings)}: {term.means}{source}")


def _term_in_words(name: str, headings: Sequence[str]) -> str:
    """The headings as the tables have them, with the term's name if that is another word."""
    if set(headings) <= set(name.split(", ")):
        return name
    words = ", ".join(headings)
    return words if name in headings else f"{words} ({name})"
