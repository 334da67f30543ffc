"""The interface of a shared-memory program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numpy.typing import NDArray

    from nicscope.apps.svm.domain import Layout, SharedArray
    from nicscope.apps.svm.process import Process, Run


class SharedProgram(NamedTuple):
    """A program of a certain size for a certain number of processes."""

    name: str
    size: str  # in the words of its own, such as "4,096 points"
    layout: Layout
    set_up: Callable[[Callable[[SharedArray], NDArray[Any]]], None]
    body: Callable[[Process], Coroutine[Any, Any, object]]
    check: Callable[[Run], None]  # raises SimulationError if the result is wrong


def check_result(is_right: object, name: str, what: str) -> None:
    """Errors: ``SimulationError`` saying ``what`` of a program's result is wrong."""
    if not is_right:
        raise SimulationError(f"{name}: the result is wrong: {what}")


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine that waits for nothing returns: a body's steps on memory of one's own."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something")
