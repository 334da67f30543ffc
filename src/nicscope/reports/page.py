"""Tables and paragraphs as HTML, for notebooks, and as Markdown."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from nicscope.reports.printing import Bar, Note, Printed, Rows, is_blank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.text import Text

LONGEST_BAR = 200  # pixels


def html_of(parts: Iterable[Printed]) -> str:
    """``parts`` as HTML: headings, paragraphs, tables, and commands to copy."""
    found = ""
    for part in parts:
        if is_blank(part):
            continue
        if isinstance(part, Rows):
            found += html_table(part)
        elif isinstance(part, Note):
            found += f"<p>{escape(part.text)}</p>"
        elif isinstance(part, str):
            found += f"<pre>{escape(part)}</pre>"
        elif part.plain.strip():
            found += f"<p>{_styled(part)}</p>"
    return found


# Of a notebook, in light and in dark: what it inherits, and lines that show on both.
_STYLE = """<style>
.nicscope table {border-collapse:collapse; margin:.3em 0 1em; font-variant-numeric:tabular-nums}
.nicscope th, .nicscope td {padding:.15em .7em; border:0; background:transparent; color:inherit}
.nicscope th {border-bottom:1px solid rgba(128,128,128,.6)}
.nicscope tr + tr td {border-top:1px solid rgba(128,128,128,.18)}
.nicscope h4 {margin:.8em 0 .2em}
.nicscope p {max-width:60em}
.nicscope img {max-width:100%; background:#fff; border-radius:4px; margin:.3em 0}
</style>"""


def notebook_page(parts: Iterable[Printed], pictures: Mapping[str, str]) -> str:
    """``parts`` in the colours of the notebook around them, then ``pictures``, SVG in base 64."""
    drawn = "".join(
        f'<img alt="{escape(name)}" width="800" src="data:image/svg+xml;base64,{data}">'
        for name, data in pictures.items()
    )
    return f'{_STYLE}<div class="nicscope">{html_of(parts)}{drawn}</div>'


def _styled(text: Text) -> str:
    """``text`` with its colours."""
    from io import StringIO

    from rich.console import Console

    console = Console(force_jupyter=False, record=True, file=StringIO(), highlight=False)
    console.print(text, soft_wrap=True, end="")
    return console.export_html(inline_styles=True, code_format="{code}").strip()


def html_table(rows: Rows) -> str:
    """A table, its bars in a last column without a heading."""
    headings = "".join(
        f'<th style="text-align:{"left" if place in rows.left else "right"}">{escape(heading)}</th>'
        for place, heading in enumerate(rows.headings)
    )
    headings += "<th></th>" if rows.bars else ""
    body = ""
    for number, cells in enumerate(rows.cells):
        body += "<tr>"
        for place, cell in enumerate(cells):
            side = "left" if place in rows.left else "right"
            body += f'<td style="text-align:{side}">{escape(cell)}</td>'
        body += "".join(f"<td>{_html_bar(bar)}</td>" for bar in rows.bars[number : number + 1])
        body += "</tr>"
    title = f"<h4>{escape(rows.title)}</h4>" if rows.title else ""
    return f"{title}<table><tr>{headings}</tr>{body}</table>"


def _html_bar(bar: Bar) -> str:
    pieces = ""
    for piece in bar.pieces:
        style = f"display:inline-block;height:1em;width:{LONGEST_BAR * piece.share:.1f}px"
        pieces += f'<span style="{style};background:{piece.colour}"></span>'
    return pieces


def markdown_of(parts: Iterable[Printed]) -> str:
    """``parts`` as Markdown."""
    shown = ("\n".join(_markdown(part)) for part in parts if not is_blank(part))
    return "\n\n".join(piece for piece in shown if piece) + "\n"


def _markdown(part: Printed) -> Iterator[str]:
    if isinstance(part, Rows):
        if part.title:
            yield from (f"**{part.title}**", "")
        yield from markdown_table(part)
    elif isinstance(part, Note):
        yield part.text
    elif isinstance(part, str):
        yield f"    {part}"
    elif part.plain.strip():
        yield part.plain.strip()


def markdown_table(rows: Rows) -> Iterator[str]:
    """The lines of a table, numbers right-aligned."""
    yield _line(rows.headings)
    yield (
        "|" + "|".join("---" if n in rows.left else "--:" for n in range(len(rows.headings))) + "|"
    )
    for cells in rows.cells:
        yield _line([cell.replace("|", "\\|") for cell in cells])


def _line(cells: Iterable[str]) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


_WITHOUT_END = ("meta", "input", "img", "br")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: object) -> Markup:
    """One element; text among ``children`` is escaped, None is left out.

    A trailing underscore of an attribute's name is dropped (``class_``) and others are hyphens
    (``data_label``).  An attribute that is True has no value; those that are None or False are not
    there.
    """
    said = ""
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = name.rstrip("_").replace("_", "-")
        said += f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'
    if tag in _WITHOUT_END:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[str | None]) -> Markup:
    """Several pieces one after the other."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(each, quote=False)
            for each in children
            if each is not None
        )
    )
