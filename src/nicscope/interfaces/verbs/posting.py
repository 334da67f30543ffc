"""Posting a chain of requests: those before the first that fails stay posted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.base import error
from nicscope.interfaces.verbs_device.calls import Refused

if TYPE_CHECKING:
    from collections.abc import Callable


def post_chain(
    first: Any,
    bad: Any,
    check: Callable[[Any], int],
    post: Callable[[Any], None],
    failed: str,
) -> None:
    """Post ``first`` and what it leads to.

    ``check`` says the system's number of what is wrong with one; ``bad`` becomes that which fails.
    """
    wr = first
    while wr is not None:
        wrong = check(wr)
        if not wrong:
            try:
                post(wr)
            except Refused as refused:
                wrong = refused.errno
        if wrong:
            if bad is not None:
                bad.take(wr)
            raise error(failed, wrong)
        wr = wr.next_wr
