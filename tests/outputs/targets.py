"""Every sort of thing that the name of an output may lead to, made and read back."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Received:
    """What a stream got, once its writer has closed it."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self._content = b""
        self._thread = threading.Thread(target=self._keep, args=(read,), daemon=True)
        self._thread.start()

    def _keep(self, read: Callable[[], bytes]) -> None:
        self._content = read()

    def content(self) -> bytes:
        self._thread.join(30)
        assert not self._thread.is_alive(), "the stream was not closed"
        return self._content


def a_new_file(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    return folder / name, (folder / name).read_bytes


def an_old_file(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    (folder / name).write_bytes(b"old")
    (folder / name).chmod(0o604)

    def content() -> bytes:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o604
        return (folder / name).read_bytes()

    return folder / name, content


def a_link_to_a_file(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    return _linked(folder, name, folder / "elsewhere" / f"real-{name}", old=True)


def a_link_to_nothing(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    return _linked(folder, name, folder / "elsewhere" / f"real-{name}", old=False)


def a_link_to_a_link(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    middle, content = a_link_to_a_file(folder, f"middle-{name}")
    (folder / name).symlink_to(middle.name)
    return folder / name, content


def _linked(folder: Path, name: str, final: Path, *, old: bool) -> tuple[Path, Callable[[], bytes]]:
    final.parent.mkdir()
    if old:
        final.write_bytes(b"old")
    link = folder / name
    link.symlink_to(os.path.relpath(final, folder))

    def content() -> bytes:
        assert link.is_symlink()
        assert not final.is_symlink()
        return final.read_bytes()

    return link, content


def a_fifo(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    os.mkfifo(folder / name)
    got = Received((folder / name).read_bytes)

    def content() -> bytes:
        assert stat.S_ISFIFO((folder / name).lstat().st_mode)
        return got.content()

    return folder / name, content


def a_socket(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    listening = socket.socket(socket.AF_UNIX)
    before = Path.cwd()
    os.chdir(folder)  # the path of a socket must be short
    try:
        listening.bind(name)
    finally:
        os.chdir(before)
    listening.listen()
    got = Received(lambda: _all_of(listening))

    def content() -> bytes:
        assert stat.S_ISSOCK((folder / name).lstat().st_mode)
        return got.content()

    return folder / name, content


def _all_of(listening: socket.socket) -> bytes:
    with listening, listening.accept()[0] as connection, connection.makefile("rb") as stream:
        return stream.read()


def a_pipes_descriptor(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    """With a name that links to it: as of ``/dev/stdout``."""
    read, write = os.pipe()
    (folder / name).symlink_to(f"/dev/fd/{write}")
    got = Received(lambda: _drained(read))

    def content() -> bytes:
        os.close(write)
        return got.content()

    return folder / name, content


def a_files_descriptor(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    """As a shell opens it: ``{ echo before; nicscope ...; } > file``."""
    file = (folder / f"redirected-{name}").open("w+b", buffering=0)
    file.write(b"before;")
    (folder / name).symlink_to(f"/proc/self/fd/{file.fileno()}")

    def content() -> bytes:
        whole = (folder / f"redirected-{name}").read_bytes()
        assert whole.startswith(b"before;")
        file.close()
        return whole.removeprefix(b"before;")

    return folder / name, content


def a_terminal(folder: Path, name: str) -> tuple[Path, Callable[[], bytes]]:
    """In raw mode, or it would change the bytes; a link to it has the name."""
    import pty
    import tty

    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    (folder / name).symlink_to(os.ttyname(theirs))
    got = Received(lambda: _drained(ours))

    def content() -> bytes:
        os.close(theirs)
        return got.content()

    return folder / name, content


def _drained(number: int) -> bytes:
    content = b""
    with contextlib.suppress(OSError):  # how a terminal says that the other end has gone
        while piece := os.read(number, 1 << 16):
            content += piece
    os.close(number)
    return content


def a_null_device(folder: Path, name: str) -> tuple[Path, None]:
    """One of the test's own, never the machine's."""
    os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return folder / name, None


FILES = [a_new_file, an_old_file, a_link_to_a_file, a_link_to_nothing, a_link_to_a_link]
STREAMS = [
    a_fifo,
    a_socket,
    a_pipes_descriptor,
    a_files_descriptor,
    a_terminal,
]
TARGETS = FILES + STREAMS
OLD = [an_old_file, a_link_to_a_file, a_link_to_a_link]


def tree(folder: Path) -> dict[str, Any]:
    """All that is in ``folder`` and below: kinds, permissions, contents of files, ends of links."""
    return {str(path.relative_to(folder)): _looks(path) for path in _below(folder)}


def _below(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        yield from (Path(top, name) for name in folders + files)


def _looks(path: Path) -> tuple[Any, ...]:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return ("link", str(path.readlink()))
    if stat.S_ISREG(status.st_mode):
        return (status.st_mode, path.read_bytes())
    return (status.st_mode, status.st_rdev)
