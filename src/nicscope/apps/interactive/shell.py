"""A server of login shells on pseudo-terminals, and its clients.

Each key is a message, and so is its echo, as with telnet and rlogin.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios
import time
from typing import TYPE_CHECKING, Any

from nicscope.apps.interactive.user_behaviour import keys, name_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from nicscope.apps.interactive.posted_pages import PostedPages, PostedSocket

SHELL = "/bin/sh"
PROMPT = "ready$ "
COLUMNS = 400  # wider than any line that is typed: shells that edit lines do not wrap them
MOST = 4096  # bytes of a message
SURROUNDINGS = {"PATH": os.defpath, "TERM": "dumb", "LC_ALL": "C", "PS1": PROMPT}


def serve(
    listener: socket.socket, pages: PostedPages, homes: Path, at_end: Callable[[], None]
) -> None:
    """Fork a process for each connection, for ever; ``at_end`` runs at the end of each."""
    signal.signal(signal.SIGCHLD, lambda *_: _reap())
    while True:
        connection, _ = pages.accept(listener)
        if os.fork():
            connection.close()
            pages.transcripts.pop()  # the child's
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        del pages.transcripts[:-1]
        try:
            _log_in(connection, homes)
            at_end()
        finally:
            os._exit(0)  # whatever else the parent would do at its end is not the child's


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _log_in(connection: PostedSocket, homes: Path) -> None:
    connection.sendall(b"login: ")
    name = b""
    while not name.endswith(b"\r"):
        key = connection.recv(MOST)
        if not key:
            return
        connection.sendall(key)
        name += key
    with contextlib.suppress(ConnectionError):
        _relay(connection, homes / name.decode().strip())


def _relay(connection: PostedSocket, home: Path) -> None:
    """Relay input to the shell and its output back, until it ends."""
    terminal, end = os.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    shell = os.fork()
    if not shell:
        os.login_tty(end)
        os.chdir(home)
        os.execve(SHELL, [SHELL, "-i"], SURROUNDINGS | {"HOME": str(home)})
    os.close(end)
    while True:
        ready, _, _ = select.select([connection.fileno(), terminal], [], [])
        if connection.fileno() in ready:
            keys_typed = connection.recv(MOST)
            if not keys_typed:
                os.kill(shell, signal.SIGHUP)
                break
            os.write(terminal, keys_typed)
        if terminal in ready:
            try:
                said = os.read(terminal, MOST)
            except OSError:  # how Linux says that nobody has the other end open
                break
            connection.sendall(said)
    os.close(terminal)
    connection.close()
    os.waitpid(shell, 0)


def use(pages: PostedPages, port: int, seed: int, user: int, seconds: float) -> dict[str, Any]:
    """Log in, type every command key by key, log out; each command with what came of it."""
    lines = keys(seed, user, seconds)
    connection = pages.connect(port)
    _await(connection, "login: ")
    for letter in f"{name_of(user)}\r":
        connection.sendall(letter.encode())
        connection.recv(MOST)
    _await(connection, PROMPT)
    exchanges: list[tuple[str, str]] = []
    for line in lines:
        echoed = ""
        for key in line[:-1]:
            time.sleep(key.pause)
            connection.sendall(key.what.encode())
            echoed += connection.recv(MOST).decode()
        time.sleep(line[-1].pause)
        connection.sendall(line[-1].what.encode())
        if line is lines[-1]:
            break
        said = _await(connection, PROMPT)
        exchanges.append((echoed, said.replace("\r\n", "\n")))
    while connection.recv(MOST):
        pass
    connection.close()
    return {"exchanges": exchanges}


def _await(connection: PostedSocket, words: str) -> str:
    """Read until ``words`` appear; what came before them."""
    got = b""
    while not got.endswith(words.encode()):
        data = connection.recv(MOST)
        if not data:
            raise ConnectionError(f"the shell has ended; {words!r} was awaited")
        got += data
    return got.decode().removesuffix(words)
