"""Calls without ``await``: Python only warns of them, and they do nothing; here they are noted.

Python finds one when it is thrown away, at once if it was given no name.  The warning says from
which line that happened; the source says which call on the lines before lacks its ``await``.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import warnings
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.standing import us, who
from nicscope.frames import is_own, place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.drivers.simulate.driven import Process

_FORGOTTEN = re.compile(r"coroutine '(?:.*\.)?(\w+)' was never awaited")


@contextlib.contextmanager
def awaits_minded(running: Callable[[], Process | None]) -> Iterator[list[str]]:
    """A list to which, within the block, one line is added for each call without ``await``.

    ``running``: who goes on, whose variables may have held what it called.
    """
    found: list[str] = []
    show = warnings.showwarning

    def tell(message: Any, category: Any, file: str, line: int, *others: Any) -> None:
        forgotten = _FORGOTTEN.match(str(message))
        if forgotten is None:
            show(message, category, file, line, *others)
            return
        process = running()
        code = None if process is None else process.code
        if not is_own(file) and code is not None:
            file = code.co_filename
            line = max((each for _, _, each in code.co_lines() if each is not None), default=0)
        if is_own(file):
            by = "" if process is None else f" ({who(process)}, at {us(process.now)})"
            found.append(_said(forgotten[1], file, line) + by)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", _FORGOTTEN.pattern, RuntimeWarning)
        warnings.showwarning = tell  # type: ignore[assignment]
        yield found


def _said(name: str, file: str, line: int) -> str:
    called, at = _call(name, file, line)
    return (
        f"{place(file, at)}: {called}() without 'await' does nothing; write 'await {called}(...)'"
    )


def _call(name: str, file: str, line: int) -> tuple[str, int]:
    """The call of ``name`` nearest before ``line`` that is not awaited, and its line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return name, line
    waited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    calls = [
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and id(node) not in waited
        if getattr(node.func, "attr", getattr(node.func, "id", None)) == name
    ]
    before = [each for each in calls if each[0] <= line]
    at, called = max(before) if before else min(calls, default=(line, name))
    return called, at
