"""A mail server, of SMTP and POP3 what letters need; and who writes letters and fetches theirs."""

from __future__ import annotations

import hashlib
import poplib
import smtplib
import socketserver
import threading
import time
from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from nicscope.apps.interactive.user_behaviour import name_of, words, written

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from nicscope.apps.interactive.posted_pages import PostedPages, PostedSocket


class Mailboxes:
    """Mailboxes: every user's letters that are not fetched yet."""

    def __init__(self) -> None:
        self._letters: dict[str, list[bytes]] = defaultdict(list)
        self._lock = threading.Lock()

    def put(self, name: str, letter: bytes) -> None:
        """Deliver a letter to ``name``."""
        with self._lock:
            self._letters[name].append(letter)

    def take(self, name: str) -> list[bytes]:
        """Remove and return all letters of ``name``."""
        with self._lock:
            return self._letters.pop(name, [])

    def to_json(self) -> dict[str, list[str]]:
        """Digests of the letters that nobody has fetched."""
        return {name: [digest(each) for each in kept] for name, kept in self._letters.items()}


def digest(letter: bytes) -> str:
    """A digest that identifies a letter."""
    return hashlib.sha256(letter).hexdigest()


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def lines(self) -> Iterator[tuple[str, str]]:
        """Commands as they come, each with its argument."""
        for line in self.rfile:
            command, _, argument = line.decode().strip().partition(" ")
            yield command.upper(), argument

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Incoming(_Handler):
    """SMTP."""

    def handle(self) -> None:
        self.say("220 nicscope")
        to: list[str] = []
        for command, argument in self.lines():
            if command == "RCPT":
                to.append(argument.partition("<")[2].partition("@")[0])
            if command == "DATA":
                self.say("354 go on")
                letter = self._letter()
                for name in to:
                    self.server.boxes.put(name, letter)
                to = []
            self.say("221 bye" if command == "QUIT" else "250 ok")
            if command == "QUIT":
                return

    def _letter(self) -> bytes:
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                break
            lines.append(line.removeprefix(b"."))
        return b"".join(lines)


class _Fetching(_Handler):
    """POP3."""

    def handle(self) -> None:
        self.say("+OK nicscope")
        letters: list[bytes] = []
        for command, argument in self.lines():
            if command == "USER":
                self._name = argument
            if command == "PASS":
                letters = self.server.boxes.take(self._name)
            if command == "STAT":
                self.say(f"+OK {len(letters)} {sum(map(len, letters))}")
            elif command == "RETR":
                self.say("+OK")
                self.wfile.write(b"".join(map(_stuffed, letters[int(argument) - 1].splitlines())))
                self.say(".")
            else:
                self.say("+OK")
            if command == "QUIT":
                return


def _stuffed(line: bytes) -> bytes:
    return (b"." if line.startswith(b".") else b"") + line + b"\r\n"


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(
        self, listener: socket.socket, pages: PostedPages, boxes: Mailboxes, handler: type[_Handler]
    ) -> None:
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.boxes = boxes
        self._pages = pages

    def get_request(self) -> tuple[PostedSocket, Any]:
        return self._pages.accept(self.socket)


def serve(
    incoming: socket.socket, fetching: socket.socket, pages: PostedPages, boxes: Mailboxes
) -> None:
    """Serve SMTP at one port and POP3 at another, for ever."""
    taking = _Server(incoming, pages, boxes, _Incoming)
    threading.Thread(target=taking.serve_forever, daemon=True).start()
    _Server(fetching, pages, boxes, _Fetching).serve_forever()


class _Sending(smtplib.SMTP):
    def __init__(self, pages: PostedPages, port: int) -> None:
        self._pages = pages
        super().__init__("127.0.0.1", port, local_hostname="nicscope")

    def _get_socket(self, host: str, port: int, timeout: float) -> PostedSocket:
        del host, timeout
        return self._pages.connect(port)


class _Reading(poplib.POP3):
    def __init__(self, pages: PostedPages, port: int) -> None:
        self._pages = pages
        super().__init__("127.0.0.1", port)

    def _create_socket(self, timeout: float) -> PostedSocket:
        del timeout
        return self._pages.connect(self.port)


def use(
    pages: PostedPages, ports: tuple[int, int], seed: int, user: int, users: int, seconds: float
) -> dict[str, Any]:
    """Send letter after letter and fetch new ones; digests of both."""
    random = Random(f"{seed}/letters/{user}")
    name = name_of(user)
    sent: list[tuple[str, str]] = []
    fetched: list[str] = []
    for letter in written(seed, user, users, seconds):
        time.sleep(letter.pause)
        head = f"From: {name}@nicscope\nTo: {letter.what}@nicscope\nSubject: {len(sent)}\n\n"
        text = (head + words(random, letter.size)).replace("\n", "\r\n")
        with _Sending(pages, ports[0]) as sending:
            sending.sendmail(f"{name}@nicscope", [f"{letter.what}@nicscope"], text)
        sent.append((letter.what, digest(text.encode())))
        reading = _Reading(pages, ports[1])
        reading.user(name)
        reading.pass_("")
        for place in range(reading.stat()[0]):
            lines = reading.retr(place + 1)[1]
            reading.dele(place + 1)
            fetched.append(digest(b"".join(line + b"\r\n" for line in lines)))
        reading.quit()
    return {"sent": sent, "fetched": fetched}
