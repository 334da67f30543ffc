"""Finds and opens TOML files: the catalog's by name, a user's by path."""

from __future__ import annotations

import functools
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import NicscopeError, did_you_mean, printable
from nicscope.inputs import STDIN, read_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CATALOG = Path(__file__).parent.parent / "catalog"
MOST_BYTES = 1 << 18  # of a file; the largest of the catalog has 19 KB
MOST_DOTS = 200  # in a line: what tomllib does with a dotted key takes the square of its parts
MOST_DIGITS = 40


def shelf_names(shelf: str) -> list[str]:
    """Names of the catalog's files in the folder ``shelf``, sorted."""
    folder = CATALOG / shelf
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def is_path(name: str) -> bool:
    """Whether ``name`` is a file's path and not a catalog name."""
    return "/" in name or name.endswith(".toml")


def beside(file: str | Path, named: str) -> str:
    """Resolve a file name that ``file`` states relative to its folder.

    Names of the catalog and whole paths stay as they are, and so does what a stream names, which
    lies in no folder.
    """
    path, at, changes = named.partition("@")
    is_file = isinstance(file, Path) or is_path(str(file))
    is_stream = str(file).startswith(("/dev/", "/proc/"))
    if not path or not is_path(path) or not is_file or is_stream:
        return named
    found = Path(file).parent / path
    # With a slash in any case: a name alone would be looked for in the catalog.
    text = str(found) if "/" in str(found) else f"./{found}"
    return f"{text}{at}{changes}"


def _one_of(shelf: str) -> str:
    """The singular of a shelf's name."""
    return "hypothesis" if shelf == "hypotheses" else shelf.removesuffix("s")


def open_shelf(
    shelf: str, name_or_path: str | Path, error: type[NicscopeError]
) -> tuple[str, str, dict[str, Any]]:
    """Open a catalog entry or a ``.toml`` file: name, label for messages, and content.

    ``-`` is a file on standard input.  Numbers with a point arrive as ``Decimal``.  Errors:
    ``error`` if it does not exist, cannot be read, or is not TOML.
    """
    text = str(name_or_path)
    is_file = isinstance(name_or_path, Path) or is_path(text)
    if not is_file and text != STDIN and text not in shelf_names(shelf):
        said = _nearest(text, shelf_names(shelf))
        if shelf == "designs" and "," in text and {*text.split(",")} <= {*shelf_names(shelf)}:
            said = f"; name each by itself, as in --design {' --design '.join(text.split(','))}"
        raise error(f"no {_one_of(shelf)} {text!r}{said}")
    if text == STDIN:
        path, called = text, "standard input"
    elif is_file:
        path, called = text, printable(text)
    else:
        path, called = str(CATALOG / shelf / f"{text}.toml"), f"{_one_of(shelf)} {text!r}"
    content = _parsed(read_whole(path, MOST_BYTES, error), called, error)
    return "stdin" if text == STDIN else printable(Path(path).stem), called, content


def _parsed(raw: bytes, called: str, error: type[NicscopeError]) -> dict[str, Any]:
    try:
        content, refused = _content_of(raw)
    except UnicodeDecodeError as problem:
        raise error(f"{called}: is not a text file in UTF-8") from problem
    except RecursionError as problem:
        raise error(f"{called}: is nested too deeply to read") from problem
    except ArithmeticError as problem:
        raise error(f"{called}: is not TOML: a number is too large to read") from problem
    except ValueError as problem:  # a syntax error, or an integer of thousands of digits
        raise error(f"{called}: is not TOML: {problem}") from problem
    if refused is not None:
        raise error(f"{called}: {refused}")
    return dict(content)


@functools.lru_cache(maxsize=64)
def _content_of(raw: bytes) -> tuple[dict[str, Any], str | None]:
    """Parse a TOML file; its content, and why it is refused, if it is.

    Kept, because a platform that combines others is six files to read, half of the time in which a
    cluster was made.  Nobody may change what it holds.
    """
    text = raw.decode()
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            return {}, f"line {number}: more than {MOST_DOTS} dots; is it TOML?"
    content = tomllib.loads(text, parse_float=Decimal)
    return content, _unusable_number(content)


def _unusable_number(content: Any) -> str | None:
    """Whether it holds a number that no check can handle."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            return "holds an integer of more than 64 bits"
        elif isinstance(value, Decimal) and len(value.as_tuple().digits) > MOST_DIGITS:
            return f"holds a number of more than {MOST_DIGITS} digits"
    return None


def read_text(
    content: Mapping[str, Any], key: str, default: str, called: str, error: type[NicscopeError]
) -> str:
    """Text under ``key``, or ``default`` if there is none; ``error`` if it is no text."""
    given = content.get(key, default)
    if not isinstance(given, str):
        raise error(f"{called}: {key} must be text, got {given!r}")
    return given


def read_texts(
    content: Mapping[str, Any], key: str, called: str, error: type[NicscopeError]
) -> dict[str, str]:
    """Table of texts under ``key``, empty if there is none; ``error`` if it is no such table."""
    given = content.get(key, {})
    if not isinstance(given, dict):
        raise error(f"{called}: {key} must be a table of texts, got {given!r}")
    return {name: read_text(given, name, "", f"{called}: {key}", error) for name in given}


def _nearest(text: str, names: Sequence[str]) -> str:
    return f"{did_you_mean(text, names)} (or give the path of a .toml file)"
