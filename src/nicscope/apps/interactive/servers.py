"""A session's participants: servers of shells, pages and mail, and each user's client.

Sockets receive as on U-Net: each message into the next posted page, which goes back to the end of
the free queue once its bytes have been copied to whoever asked.  Each key of a shell's user is a
message, and so is its echo, as with telnet and rlogin; the web server is Python's with real files;
the mail server has of SMTP and POP3 what letters need.

As a main program it is one participant: ``session`` starts it with its folder, and with ``serve
KIND`` or ``use NUMBER PORT...``; what it has seen is in ``parts/PID.json`` there when it ends.

Once it is over, ``check`` sees that every byte arrived and contents are what was requested.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import http.server
import json
import mmap
import os
import poplib
import queue
import select
import signal
import smtplib
import socket
import socketserver
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter, defaultdict
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.apps.interactive.session import (
    HOMES,
    PARTS,
    SITE,
    Plan,
    keys,
    kind_of,
    looked_at,
    name_of,
    read_plan,
    typed,
    words,
    written,
)
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PAGE = mmap.PAGESIZE


class Direction:
    """The bytes sent one way over a connection."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.count = 0

    def add(self, data: Any) -> None:
        """Add bytes to the digest."""
        self._digest.update(data)
        self.count += len(data)

    def to_json(self) -> dict[str, Any]:
        """How many bytes, and their digest."""
        return {"bytes": self.count, "sha256": self._digest.hexdigest()}


class Transcript(NamedTuple):
    """Both directions of a connection, as one end sees them."""

    client: str
    server: str
    sent: Direction
    received: Direction

    def to_json(self) -> dict[str, Any]:
        """Ends and digests."""
        ends = {"client": self.client, "server": self.server}
        return {**ends, "sent": self.sent.to_json(), "received": self.received.to_json()}


class PostedPages:
    """A process's receive pages, reused in the order in which they are freed."""

    def __init__(self, pages: int) -> None:
        # Private: a child that is forked has pages of its own, at the same addresses.
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._area = mmap.mmap(-1, pages * PAGE, flags=private)
        whole = memoryview(self._area)
        self._free: queue.SimpleQueue[memoryview] = queue.SimpleQueue()
        for page in range(pages):
            self._free.put(whole[page * PAGE : (page + 1) * PAGE])
        self.transcripts: list[Transcript] = []
        self._adding = threading.Lock()

    def connect(self, port: int) -> PostedSocket:
        """A connection to a server of this machine."""
        made = PostedSocket(self, socket.create_connection(("127.0.0.1", port)).detach())
        made.begin(is_client=True)
        return made

    def accept(self, listener: socket.socket) -> tuple[PostedSocket, Any]:
        """Accept the next connection, with its peer's address."""
        plain, address = listener.accept()
        made = PostedSocket(self, plain.detach())
        made.begin(is_client=False)
        return made, address

    def note(self, transcript: Transcript) -> None:
        """Add a connection's transcript."""
        with self._adding:
            self.transcripts.append(transcript)

    def receive(self, sock: PostedSocket, most: int) -> bytes:
        """Receive at most ``most`` bytes and a page; nothing at the end of the stream."""
        ready = select.poll()
        ready.register(sock.fileno(), select.POLLIN)
        ready.poll()  # a page is taken when a message is there, not while one is awaited
        page = self._free.get()
        try:
            count = socket.socket.recv_into(sock, page, min(most, PAGE))
            return bytes(page[:count])
        finally:
            self._free.put(page)


class PostedSocket(socket.socket):
    """A connected, blocking socket that receives only into posted pages."""

    def __init__(self, pages: PostedPages, descriptor: int) -> None:
        super().__init__(fileno=descriptor)
        self.settimeout(None)
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pages = pages

    def begin(self, *, is_client: bool) -> None:
        """Begin the transcript."""
        here, there = (f"{host}:{port}" for host, port in (self.getsockname(), self.getpeername()))
        ends = (here, there) if is_client else (there, here)
        self._carried = Transcript(*ends, Direction(), Direction())
        self._pages.note(self._carried)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As any socket's, but at most a page."""
        del flags
        data = self._pages.receive(self, bufsize)
        self._carried.received.add(data)
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """As any socket's, but at most a page; what reads lines and files comes by here."""
        view = memoryview(buffer)
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """As any socket's."""
        super().sendall(data, flags)
        self._carried.sent.add(memoryview(data).cast("B"))


SHELL = "/bin/sh"
PROMPT = "ready$ "
COLUMNS = 400  # wider than any line that is typed: shells that edit lines do not wrap them
MOST = 4096  # bytes of a message
SURROUNDINGS = {"PATH": os.defpath, "TERM": "dumb", "LC_ALL": "C", "PS1": PROMPT}


def serve_shells(
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


def use_shell(
    pages: PostedPages, port: int, seed: int, user: int, seconds: float
) -> dict[str, Any]:
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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


class _WebServer(http.server.ThreadingHTTPServer):
    """Serves ``files``, a thread for each connection."""

    def __init__(self, listener: socket.socket, pages: PostedPages, files: Path) -> None:
        handler = partial(_Quiet, directory=str(files))
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._pages = pages

    def get_request(self) -> tuple[PostedSocket, Any]:
        return self._pages.accept(self.socket)


class _Connection(http.client.HTTPConnection):
    def __init__(self, pages: PostedPages, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._pages = pages

    def connect(self) -> None:
        self.sock = self._pages.connect(self.port)


class _Pictures(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.names += [value for name, value in attrs if name == "src" and value]


def read_pages(
    pages: PostedPages, port: int, seed: int, user: int, seconds: float
) -> dict[str, Any]:
    """Load page after page with its pictures; names and digests of what was loaded."""
    got: list[tuple[str, str]] = []

    def fetch(name: str) -> bytes:
        connection = _Connection(pages, port)
        connection.request("GET", f"/{name}", headers={"User-Agent": "nicscope"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        got.append((name, hashlib.sha256(body).hexdigest() if answer.status == 200 else "none"))
        return body

    for page in looked_at(seed, user, seconds):
        time.sleep(page.pause)
        shown = _Pictures()
        shown.feed(fetch(page.what).decode())
        for name in shown.names:
            fetch(name)
    return {"fetched": got}


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
    server: _MailServer

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


class _MailServer(socketserver.ThreadingTCPServer):
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


def serve_mail(
    incoming: socket.socket, fetching: socket.socket, pages: PostedPages, boxes: Mailboxes
) -> None:
    """Serve SMTP at one port and POP3 at another, for ever."""
    taking = _MailServer(incoming, pages, boxes, _Incoming)
    threading.Thread(target=taking.serve_forever, daemon=True).start()
    _MailServer(fetching, pages, boxes, _Fetching).serve_forever()


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


def write_letters(
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


BACKLOG = 64  # connections that nobody has accepted yet


class Part:
    """A participant, its posted pages and what it will report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = read_plan(folder)
        self.pages = PostedPages(self.plan.receive_pages)

    def tell(self, role: str, kind: str, **seen: Any) -> None:
        """Write this participant's role and transcripts."""
        transcripts = [each.to_json() for each in self.pages.transcripts]
        told = {"pid": os.getpid(), "role": role, "kind": kind, "transcripts": transcripts, **seen}
        place = self.folder / PARTS / f"{os.getpid()}.json"
        beside = place.with_suffix(".part")
        beside.write_text(json.dumps(told))
        beside.rename(place)

    def serve(self, kind: str) -> None:
        """Serve until the process is terminated."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        listeners = [_listener() for _ in range(2 if kind == "mail" else 1)]
        print(",".join(str(each.getsockname()[1]) for each in listeners), flush=True)
        waiting: dict[str, list[str]] = {}
        try:
            if kind == "shell":
                homes = self.folder / HOMES
                serve_shells(listeners[0], self.pages, homes, lambda: self.tell("server", kind))
            elif kind == "web":
                _WebServer(listeners[0], self.pages, self.folder / SITE).serve_forever()
            else:
                boxes = Mailboxes()
                try:
                    serve_mail(listeners[0], listeners[1], self.pages, boxes)
                finally:
                    waiting = boxes.to_json()
        finally:
            self.tell("server", kind, waiting=waiting)

    def use(self, user: int, ports: list[str]) -> None:
        """Act as this user."""
        plan = self.plan
        kind = kind_of(user)
        # All have arrived after a tenth of the time (assumed).
        time.sleep(Random(f"{plan.seed}/begin/{user}").uniform(0, plan.seconds / 10))
        seen: dict[str, Any]
        if kind == "shell":
            seen = use_shell(self.pages, int(ports[0]), plan.seed, user, plan.seconds)
        elif kind == "web":
            seen = read_pages(self.pages, int(ports[1]), plan.seed, user, plan.seconds)
        else:
            incoming, fetching = map(int, ports[2].split(","))
            places = (incoming, fetching)
            seen = write_letters(self.pages, places, plan.seed, user, plan.users, plan.seconds)
        self.tell("user", kind, user=user, **seen)


def _listener() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.bind(("127.0.0.1", 0))
    made.listen(BACKLOG)
    return made


class Participant(NamedTuple):
    """A process of the session and its transcripts."""

    pid: int
    kind: str
    user: int | None  # None: a server
    seen: dict[str, Any]

    @property
    def bytes_sent(self) -> int:
        """Bytes sent over all its connections."""
        return sum(each["sent"]["bytes"] for each in self.seen["transcripts"])

    @property
    def bytes_received(self) -> int:
        """Bytes received over all its connections."""
        return sum(each["received"]["bytes"] for each in self.seen["transcripts"])


def participants(folder: Path) -> list[Participant]:
    """All participants that finished, by process number."""
    found = []
    for path in sorted((folder / PARTS).glob("*.json"), key=lambda path: int(path.stem)):
        seen = json.loads(path.read_text())
        found.append(Participant(seen["pid"], seen["kind"], seen.get("user"), seen))
    return found


def check(folder: Path) -> list[Participant]:
    """The participants of a session that is over; ``SimulationError`` says what was wrong with it.

    Commands of shell users are run again for that, in their homes.
    """
    plan = read_plan(folder)
    found = participants(folder)
    users = {each.user: each for each in found if each.user is not None}
    missing = [name_of(user) for user in range(plan.users) if user not in users]
    if missing:
        raise SimulationError(f"{', '.join(missing)} did not come to an end")
    _check_ends(found)
    for number, user in users.items():
        if kind_of(number) == "shell":
            _check_typed(folder, plan, number, user)
        elif kind_of(number) == "web":
            _check_fetched(folder / SITE, number, user)
    _check_letters(found)
    return found


def _check_ends(found: list[Participant]) -> None:
    """Check that the bytes that one end sent are those that the other received."""
    ends: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for each in found:
        for told in each.seen["transcripts"]:
            is_client = each.user is not None
            ways = [told["sent"], told["received"]]
            whole = [told["client"], told["server"], *(ways if is_client else ways[::-1])]
            ends[is_client][json.dumps(whole)] += 1
    other = sorted((ends[True] - ends[False]) + (ends[False] - ends[True]))
    if other:
        raise SimulationError(f"ends of a connection have seen different bytes: {other[0]}")


def _check_typed(folder: Path, plan: Plan, number: int, user: Participant) -> None:
    """Check that each command was echoed, and that the output is what a script prints."""
    home = folder / HOMES / name_of(number)
    home.joinpath("mine").unlink(missing_ok=True)
    for command, (echoed, said) in zip(
        typed(plan.seed, number), user.seen["exchanges"], strict=True
    ):
        alone = subprocess.run(
            [SHELL, "-c", command],
            cwd=home,
            env=SURROUNDINGS | {"HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if (echoed, said) != (command, f"\n{alone.stdout}"):
            raise SimulationError(
                f"{name_of(number)} typed {command!r} and saw {echoed!r} and {said[:200]!r}, "
                f"where a script sees {alone.stdout[:200]!r}"
            )


def _check_fetched(site: Path, number: int, user: Participant) -> None:
    """Check that each fetched file equals the server's."""
    for name, digest in user.seen["fetched"]:
        if hashlib.sha256((site / name).read_bytes()).hexdigest() != digest:
            raise SimulationError(f"{name_of(number)} got {name} otherwise than it is")


def _check_letters(found: list[Participant]) -> None:
    """Check that each letter was fetched once, by its recipient, or is still in the mailbox."""
    sent: Counter[tuple[str, str]] = Counter()
    there: Counter[tuple[str, str]] = Counter()
    for each in found:
        if each.user is not None and each.kind == "mail":
            sent.update((to, digest) for to, digest in each.seen["sent"])
            there.update((name_of(each.user), digest) for digest in each.seen["fetched"])
        for name, digests in each.seen.get("waiting", {}).items():
            there.update((name, digest) for digest in digests)
    if sent != there:
        name, _ = next(iter((sent - there) + (there - sent)))
        raise SimulationError(f"a letter to {name} was lost, or came otherwise than it was sent")


if __name__ == "__main__":
    part = Part(Path(sys.argv[1]))
    if sys.argv[2] == "serve":
        part.serve(sys.argv[3])
    else:
        part.use(int(sys.argv[3]), sys.argv[4:])
