"""Python's web server with real files, and clients that load pages with their pictures."""

from __future__ import annotations

import hashlib
import http.client
import http.server
import time
from functools import partial
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from nicscope.apps.interactive.user_behaviour import looked_at

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from nicscope.apps.interactive.posted_pages import PostedPages, PostedSocket


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, listener: socket.socket, pages: PostedPages, files: Path) -> None:
        handler = partial(_Quiet, directory=str(files))
        super().__init__(listener.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._pages = pages

    def get_request(self) -> tuple[PostedSocket, Any]:
        return self._pages.accept(self.socket)


def serve(listener: socket.socket, pages: PostedPages, files: Path) -> None:
    """Serve ``files`` for ever, a thread for each connection."""
    _Server(listener, pages, files).serve_forever()


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


def use(pages: PostedPages, port: int, seed: int, user: int, seconds: float) -> dict[str, Any]:
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
