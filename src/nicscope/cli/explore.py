"""``nicscope explore``: an interactive page over one trace, served on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from nicscope.cli.arguments import OneTrace, offering, option
from nicscope.library.traces import trace_path

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope explore bundled:redis_server[/bold]\n\n"
    "[bold]nicscope explore mine.parquet --design mine.toml --port 8471 --no-browser[/bold]"
)
MISSING = (
    "explore needs Starlette and uvicorn, which are not installed; install them with "
    "pip install 'nicscope[explore]'"
)
NEEDED = ("starlette", "uvicorn")
MOST_PORT = 65535


def explore(
    trace: OneTrace,
    design: Annotated[
        list[str] | None,
        option(
            "NAME|FILE",
            "Design file of your own, offered beside the catalog; may be "
            "repeated. The page begins with the first.",
            autocompletion=offering("designs"),
        ),
    ] = None,
    port: Annotated[int, option("N", "Port on 127.0.0.1; 0 takes any that is free.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, and open no browser.")
    ] = False,
) -> None:
    """Open a page to change a design on and see what it costs.

    The page is served on this machine alone (127.0.0.1), until Ctrl-C.  Its address holds what is
    chosen, so it can be kept or sent on.
    """
    from importlib.util import find_spec

    from nicscope.errors import StudyError

    if any(find_spec(name) is None for name in NEEDED):
        raise StudyError(MISSING)
    if not 0 <= port <= MOST_PORT:
        raise StudyError(f"--port must be from 0 to {MOST_PORT}, got {port}")
    from nicscope.serving.explorer import explorer_app, listening, serve
    from nicscope.studies.exploring import Explorer
    from nicscope.traces.reader import open_trace

    explorer = Explorer(trace, open_trace(trace_path(trace)), design or ())
    try:
        socket = listening(port)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StudyError(f"--port {port}: {reason}; name another, or 0 for any") from error
    address = f"http://127.0.0.1:{socket.getsockname()[1]}/"

    def begun() -> None:
        print(f"exploring {explorer.name} at {address} (Ctrl-C ends it)", flush=True)
        if not no_browser:
            import webbrowser

            webbrowser.open(address)

    explorer.passes.start()
    try:
        serve(explorer_app(explorer), socket, begun)
    finally:
        explorer.passes.stop()
