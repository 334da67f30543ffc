"""One file: whole or not there, through links, or the bytes of a stream."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.errors import OutputError
from nicscope.outputs.sink import BUFFER_BYTES, Descriptor, Sink, unwritable
from nicscope.outputs.target import Target, target_of
from nicscope.outputs.temporary import Part, nameless

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def whole_file(path: Path | str) -> Iterator[Sink]:
    """Yield a binary file to write to; what it holds becomes ``path`` when the block ends well.

    A stream gets the bytes as they are written; it is told by ``seekable()``.  Errors:
    ``OutputError`` if there cannot be such a file or it is not taken, as by a full disk;
    ``ReaderGone`` if the reader of a stream has gone.
    """
    target = target_of(path)
    with _streamed(target) if target.is_stream else _replaced(target) as sink:
        yield sink


def check_output(path: Path | str) -> Target:
    """What ``path`` leads to, before there is anything to write.

    Errors: ``OutputError`` if it could never be written, as far as can be told without trying.
    """
    target = target_of(path)
    folder = target.path.parent
    if not target.is_stream and not folder.is_dir():
        raise OutputError(f"{target.shown}: there is no folder {folder}; make it, or name another")
    return target


@contextlib.contextmanager
def scratch_file(path: Path | str) -> Iterator[io.BufferedRandom]:
    """Yield a file without a name, to be read and written, for what ``path`` is made from.

    It lies on the same disk, or for a stream where temporary files do.  Errors: ``OutputError``
    if there cannot be one or it cannot grow.
    """
    target = target_of(path)
    try:
        folder = Path(tempfile.gettempdir()) if target.is_stream else target.path.parent
        number = nameless(folder)
    except OSError as error:
        raise unwritable(target.shown, error) from error
    descriptor = Descriptor(number, target.shown, is_file=True)
    try:
        yield io.BufferedRandom(descriptor, BUFFER_BYTES)
    finally:
        descriptor.give_up()
        os.close(number)


@contextlib.contextmanager
def _replaced(target: Target) -> Iterator[Sink]:
    part = Part(target.path, target.shown)
    try:
        yield part.sink
        part.finish()
        part.place(target.path)
    finally:
        part.discard()


@contextlib.contextmanager
def _streamed(target: Target) -> Iterator[Sink]:
    for text in (sys.stdout, sys.stderr):
        if text is not None:
            text.flush()  # what was said before the bytes comes before them
    number = target.open_stream()
    sink = Sink(Descriptor(number, target.shown, is_file=False))
    is_file = stat.S_ISREG(os.fstat(number).st_mode)  # that somebody opened for us
    try:
        with _taken_back(number, sink) if is_file else contextlib.nullcontext():
            yield sink
            sink.flush()
            if is_file:
                _sync(number, target)
    finally:
        sink.raw.give_up()
        os.close(number)


@contextlib.contextmanager
def _taken_back(number: int, sink: Sink) -> Iterator[None]:
    """Cut what was added to an open file off again if the block fails and nobody else added."""
    size = os.fstat(number).st_size
    position = os.lseek(number, 0, os.SEEK_CUR)
    try:
        yield
    except BaseException:
        sink.raw.give_up()
        with contextlib.suppress(OSError):
            if os.fstat(number).st_size == size + sink.raw.tell():
                os.ftruncate(number, size)
                os.lseek(number, position, os.SEEK_SET)
        raise


def _sync(number: int, target: Target) -> None:
    try:
        os.fsync(number)
    except OSError as error:
        raise unwritable(target.shown, error) from error
