"""Sockets that receive as on U-Net: each message into the next posted page.

A page goes back to the end of the free queue once its bytes have been copied to whoever asked.
"""

from __future__ import annotations

import hashlib
import mmap
import queue
import select
import socket
import threading
from typing import Any, NamedTuple

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
