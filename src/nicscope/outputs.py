"""Results are written whole or not at all.

A result grows under a temporary name beside its destination and takes its real name only when
it is complete and on disk; an error or Ctrl-C on the way leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it becomes ``path`` when the block ends well.

    Errors: ``OutputError`` if the file cannot be made, filled (a full disk) or renamed.
    """
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name a file")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    part = Path(name)
    try:
        os.close(handle)
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def output_folder(path: Path) -> Path:
    """``path`` as an existing, writable folder, made if need be.

    Errors: ``OutputError`` if it is a file or cannot be made or written to.
    """
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path}: exists and is not a folder; name a folder for the results")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
