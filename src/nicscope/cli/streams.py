"""The standard streams of the command: closed, full or in an encoding that lacks characters."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

from nicscope.errors import OutputError
from nicscope.outputs import Descriptor, ReaderGone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import ReadableBuffer

LOOKALIKE = "nicscope.lookalike"  # name of the encoding error handler
_OPEN_FOR = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_RDONLY}
# What nicscope draws with; each as wide as what it stands for, except for what cannot be.
_LOOKALIKES = {
    **dict(zip("░▒▓█▚", ".:%#x", strict=True)),
    **dict(zip("▏▎▍▌▋▊▉", "|||####", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇", "_.:-=+*", strict=True)),
    **dict(zip("─━╸╺│┃…✓✗", "----||~+x", strict=True)),
    "≥": ">=",
    "\N{EN DASH}": "-",
    "≤": "<=",
    "±": "+-",
}


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Let what goes wrong with standard output within the block be an error of nicscope's.

    ``OutputError`` if it is closed or takes no more, ``ReaderGone`` if nobody reads it.  What the
    error stream does not take is dropped.  Characters that an encoding lacks look like others.
    Streams that are not the process's own, such as a test's, only get such characters.
    """
    codecs.register_error(LOOKALIKE, lookalike)
    for number, flags in _OPEN_FOR.items():
        _keep_from_files(number, flags)
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(1, Descriptor(1, "standard output", is_file=False), before[0])
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(2, _Dropping(2, "standard error", is_file=False), before[1])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=LOOKALIKE)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(raw := getattr(getattr(stream, "buffer", None), "raw", None), Descriptor):
                with contextlib.suppress(OutputError, ReaderGone):
                    stream.flush()
                raw.give_up()
        sys.stdout, sys.stderr = before


def is_unicode(stream: Any) -> bool:
    """Whether ``stream`` takes every character."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def lookalike(error: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for one character that an encoding lacks: an error handler of ``codecs``.

    Bytes of a file's name that are no text are those bytes again.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return _plain(character), error.start + 1


def _plain(character: str) -> str:
    if character in _LOOKALIKES:
        return _LOOKALIKES[character]
    if unicodedata.name(character, "").startswith("BOX DRAWINGS"):
        return "+"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


class _Dropping(Descriptor):
    """The error stream: what it does not take is lost, and stops nothing."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except (OutputError, ReaderGone):
            return memoryview(data).nbytes


def _text(number: int, descriptor: Descriptor, like: Any) -> io.TextIOWrapper:
    """A text stream on ``descriptor`` that writes as ``like`` does, None if that was closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(descriptor),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors=LOOKALIKE,
        line_buffering=number == 2 or descriptor.isatty(),
        write_through=getattr(like, "write_through", False),
    )


def _keep_from_files(number: int, flags: int) -> None:
    """Fill the place of a closed stream, or the next file opened would get what is printed.

    It stays as unusable as it was: nothing can be written to it, or read from it.
    """
    try:
        os.fstat(number)
    except OSError:
        with contextlib.suppress(OSError):
            opened = os.open(os.devnull, flags | os.O_CLOEXEC)
            if opened != number:
                os.dup2(opened, number, inheritable=False)
                os.close(opened)
