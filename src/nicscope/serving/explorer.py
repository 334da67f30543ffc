"""The explorer's HTTP server: the page, its answers as JSON, and the design file.

Nothing that a browser sends changes anything, so everything is GET.  A page of another origin that
reaches this address by a name of its own is refused by the Host header, and reads nothing, as no
header allows it to; nor does it have anything counted, as browsers say where a request is from.
"""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nicscope.errors import NicscopeError, StudyError, one_line
from nicscope.reports.template import design_file
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from nicscope.studies.exploring import Explorer, State

HERE = Path(__file__).parent
ASSETS = {
    "/": ("explorer.html", "text/html"),
    "/explorer.css": ("explorer.css", "text/css"),
    "/explorer.js": ("explorer.js", "text/javascript"),
    "/curve.js": ("curve.js", "text/javascript"),
}
# Nothing is loaded from anywhere else, and no other page shows this one in a frame.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
HOSTS = ("127.0.0.1", "localhost")
OURS = ("same-origin", "none")  # what browsers say of requests by this page and by its reader
PATIENCE_S = 5.0  # for answers that are on their way when it ends


def explorer_app(explorer: Explorer) -> Starlette:
    """The web application of ``explorer``, whose passes are started."""
    pages = _Pages(explorer)
    routes = [
        *(Route(path, _asset(*file), methods=["GET"]) for path, file in ASSETS.items()),
        Route("/about", pages.about, methods=["GET"]),
        Route("/answer", pages.answer, methods=["GET"]),
        Route("/design.toml", pages.design, methods=["GET"]),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts])


class _Pages:
    """Request handlers for one trace."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer

    def about(self, _: Request) -> Response:
        """The page's data before any design is chosen."""
        explorer = self._explorer
        designs = [
            {
                "called": called,
                "title": design.title,
                "scheme": design.scheme.value,
                "is_file": is_file,
            }
            for called, (design, _, is_file) in explorer.offered.items()
        ]
        told = {
            "trace": explorer.name,
            "requests": explorer.trace.rows,
            "page_size": explorer.page_size,
            "designs": designs,
            "command": explorer.command,
            "version": __version__,
        }
        return JSONResponse(told, headers=HEADERS)

    def answer(self, request: Request) -> Response:
        """The results for the query's state, or their progress."""
        if request.headers.get("sec-fetch-site", OURS[0]) not in OURS:
            return _refused(StudyError("asked for by a page of another origin"), 403)
        try:
            state = self._explorer.read(request.query_params.multi_items())
            answer = self._explorer.answer(state) | {"file": self._file(state)}
            return JSONResponse(answer, headers=HEADERS)
        except NicscopeError as error:
            return _refused(error)

    def design(self, request: Request) -> Response:
        """The design of the query's state as a TOML file to download."""
        try:
            state = self._explorer.read(request.query_params.multi_items())
        except NicscopeError as error:
            return _refused(error)
        headers = HEADERS | {"content-disposition": f'attachment; filename="{_name(state)}"'}
        return Response(self._file(state), media_type="application/toml", headers=headers)

    def _file(self, state: State) -> str:
        changed = ", ".join(state.assignments) or "nothing"
        said = [
            f"design {state.called!r} of nicscope {__version__}; set in the explorer: {changed}",
            shlex.join(["nicscope", "replay", self._explorer.name, "--design", _name(state)]),
        ]
        return design_file(state.design, said)


def _name(state: State) -> str:
    """A file name for the state's design, restricted to header-safe characters."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', state.base.name)}-explored.toml"


def _refused(error: NicscopeError, status: int = 400) -> Response:
    return JSONResponse({"error": one_line(str(error))}, status_code=status, headers=HEADERS)


def _asset(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(_: Request) -> Response:
        return Response(_content(name), media_type=kind, headers=HEADERS)

    return send


@functools.cache
def _content(name: str) -> bytes:
    return (HERE / name).read_bytes()


def listening(port: int) -> Any:
    """A socket on loopback at ``port``, or at any free port for 0.

    Errors: ``OSError`` if the port is taken or not allowed.
    """
    import socket

    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOSTS[0], port))
        found.listen()
    except BaseException:
        found.close()
        raise
    return found


def serve(app: Starlette, socket: Any, begun: Callable[[], None]) -> None:
    """Serve on ``socket`` until Ctrl-C, which is passed on.  ``begun`` is told once."""
    import threading

    import uvicorn

    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    # Off the main thread the server leaves signals alone, and Ctrl-C is this command's as always.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        begun()
        while thread.is_alive():
            thread.join(0.5)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(PATIENCE_S)  # it closes the socket
