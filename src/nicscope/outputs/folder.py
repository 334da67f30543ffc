"""A folder of results, replaced as a whole: all files of a set, or the previous ones.

A set is written without names, then given names in a folder of its own.  A new folder appears in
one step.  Into one that was there already its files move by renaming: ``results.json`` leaves
first and comes last, so a set without it is not whole; and should the process be killed in
between, the next one that writes there finds the complete set and moves the rest of it in.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.errors import OutputError
from nicscope.outputs.target import Sink, is_read_only, unwritable
from nicscope.outputs.temporary import (
    ENDING,
    Part,
    abandoned,
    lock,
    nameless,
    remove_abandoned,
    temporary_path,
    temporary_paths,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


LAST = "results.json"
COMPLETE = ".set"  # ending of a folder that holds all that is left to be moved in
PATIENCE_S = 10.0  # while another set moves in
_AGAIN_S = 0.02
_BEFORE = ".before"  # in that folder: files that were in the new ones' places
_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_IS_THERE = {errno.EEXIST, errno.ENOTEMPTY}


class OutputFolder:
    """The files being written for the folder ``path``."""

    def __init__(self, path: Path, home: Path, parts: dict[Path, Part]) -> None:
        self.path = path
        self._home = home  # a folder on the same disk that is there
        self._parts = parts
        self._within = Path()

    def within(self, name: str) -> OutputFolder:
        """A subfolder of the same set."""
        inner = OutputFolder(self.path / name, self._home, self._parts)
        inner._within = self._within / name
        return inner

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[Sink]:
        """Yield a binary file that becomes ``name`` in the set.

        Errors: ``OutputError`` if it cannot be made or is not taken, as by a full disk.
        """
        part = Part(self._home / name, self.path / name)
        try:
            yield part.sink
            part.finish()
        except BaseException:
            part.discard()
            raise
        self._parts[self._within / name] = part


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[OutputFolder]:
    """Yield a set of files that appear in the folder ``path`` when the block succeeds.

    The folder is made if need be, with its parents; what else it holds stays.  Errors:
    ``OutputError`` if it is a file or cannot be made or written to.
    """
    with _told(path):
        folder = Path(os.path.realpath(path))
        if os.path.lexists(path) and not folder.is_dir():
            raise OutputError(f"{path}: exists and is not a folder; name a folder for the results")
        _recover_moves(folder)
        home = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
        os.close(nameless(home))
    parts: dict[Path, Part] = {}
    try:
        yield OutputFolder(path, home, parts)
        if parts:
            with _told(path):
                _place(folder, parts)
    finally:
        for part in parts.values():
            part.discard()


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Attribute operating system errors within the block to ``path``."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


def _place(folder: Path, parts: dict[Path, Part]) -> None:
    """Move the files into ``folder``, all of them or none."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        for each in reversed(made[1:]):
            each.mkdir(exist_ok=True)
        if not made:
            _place_into(folder, parts)
            return
        with _staged(folder, folder, parts) as stage:
            if not stage.appears_as(folder):
                with _folder_locked(folder):
                    _check_replaceable(folder, parts)
                    _move_in(stage, folder, list(parts))
    except BaseException:
        for each in made:
            with contextlib.suppress(OSError):  # somebody else's is in it
                each.rmdir()
        raise


def _place_into(folder: Path, parts: dict[Path, Part]) -> None:
    """Move the files into an existing folder.

    Nobody else moves files in or out of it while it is looked at, nor takes away those whose
    permissions the new ones get.
    """
    with _folder_locked(folder):
        _check_replaceable(folder, parts)
        with _staged(_inside(folder), folder, parts) as stage:
            _move_in(stage, folder, list(parts))


class _Stage:
    """A staging folder beside the target, or in it; locked while this process lives."""

    def __init__(self, beside: Path) -> None:
        self.is_needed = False  # by the next process, to finish what this one could not
        while True:
            self.path = temporary_path(beside)
            self.path.mkdir()
            try:
                self._number = os.open(self.path, _OPENED)
            except FileNotFoundError:
                continue  # another one took it for abandoned, as it was not locked yet
            if lock(self._number) and self.path.exists():
                return
            os.close(self._number)

    def appears_as(self, folder: Path) -> bool:
        """Rename it to ``folder``; False if that exists by now and is not empty."""
        try:
            self.path.rename(folder)
        except OSError as error:
            if error.errno not in _IS_THERE:
                raise
            return False
        return True

    def complete(self) -> None:
        """Mark it complete, by a rename."""
        (self.path / _BEFORE).mkdir()
        path = self.path.with_name(self.path.name.removesuffix(ENDING) + COMPLETE)
        self.path.rename(path)
        self.path = path

    def remove(self) -> None:
        if not self.is_needed:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._number)


@contextlib.contextmanager
def _staged(beside: Path, folder: Path, parts: dict[Path, Part]) -> Iterator[_Stage]:
    """Yield a staging folder that holds the files of the set."""
    stage = _Stage(beside)
    try:
        for name, part in parts.items():
            (stage.path / name).parent.mkdir(exist_ok=True)
            part.place(stage.path / name, like=folder / name)
        yield stage
    finally:
        stage.remove()


def _move_in(stage: _Stage, folder: Path, names: list[Path]) -> None:
    """Move the files of ``stage`` into ``folder``; restore the previous ones on failure."""
    made = {folder / name.parent for name in names if not (folder / name.parent).exists()}
    stage.complete()
    try:
        for name in _last_first(names):
            _move_away(folder / name, stage.path / _BEFORE / name)
        for name in reversed(_last_first(names)):
            (folder / name).parent.mkdir(exist_ok=True)
            (stage.path / name).rename(folder / name)
    except BaseException:
        stage.is_needed = not _roll_back(stage.path, folder, names)
        for each in made:
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def _check_replaceable(folder: Path, names: Iterable[Path]) -> None:
    """Errors: ``OutputError`` if one of ``names`` exists and is not a plain file."""
    for name in names:
        path = folder / name
        with contextlib.suppress(FileNotFoundError):
            if not path.parent.is_dir() and os.path.lexists(path.parent):
                raise OutputError(f"{path.parent}: is in the way of a folder; move it away")
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OutputError(f"{path}: is in the way and no plain file; move it away")
            if is_read_only(path):
                raise OutputError(f"{path}: cannot be written: it is read-only")


def _last_first(names: Iterable[Path]) -> list[Path]:
    return sorted(names, key=lambda name: (name.name != LAST, name))


def _move_away(path: Path, there: Path) -> None:
    if path.exists():
        there.parent.mkdir(exist_ok=True)
        path.rename(there)


def _roll_back(complete: Path, folder: Path, names: Iterable[Path]) -> bool:
    """Roll a move back, however far it came; whether all previous files are restored."""
    for name in reversed(_last_first(names)):
        with contextlib.suppress(OSError):
            if not (complete / name).exists():
                (folder / name).rename(complete / name)
            if (complete / _BEFORE / name).exists():
                (complete / _BEFORE / name).rename(folder / name)
    return all((complete / name).exists() for name in names) and not any(
        (complete / _BEFORE / name).exists() for name in names
    )


def _recover_moves(folder: Path) -> None:
    """Complete or clean up the move of a process that was killed."""
    for beside in (folder, _inside(folder)):
        for left in temporary_paths(beside, COMPLETE) if folder.is_dir() else ():
            with _folder_locked(folder), abandoned(left) as is_abandoned:
                if is_abandoned:
                    _move_in_rest(left, folder)
        for left in temporary_paths(beside):
            remove_abandoned(left)


def _inside(folder: Path) -> Path:
    """The prefix of temporary names within ``folder``."""
    return folder / (folder.name or "results")


def _move_in_rest(complete: Path, folder: Path) -> None:
    names = [
        Path(top, name).relative_to(complete)
        for top, _, files in os.walk(complete)
        for name in files
    ]
    rest = [name for name in names if name.parts[0] != _BEFORE]
    _check_replaceable(folder, rest)
    for name in reversed(_last_first(rest)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (complete / name).rename(folder / name)
    shutil.rmtree(complete)


@contextlib.contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    """Lock ``folder`` against other sets within the block."""
    number = os.open(folder, _OPENED)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not lock(number):
            if time.monotonic() > deadline:
                raise OutputError(f"{folder}: another run writes results there; wait for its end")
            time.sleep(_AGAIN_S)
        yield
    finally:
        os.close(number)
