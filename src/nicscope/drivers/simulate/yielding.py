"""Coroutines that yield what they ask of the driver, as generators do, and are awaited.

``types.coroutine`` makes such; what it makes are generators, and of one that is called and not
awaited Python says nothing.  These are true coroutines, at the same cost, so a forgotten ``await``
is heard of.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import coroutine
else:

    def coroutine(function: Any) -> Any:
        """Have a generator function make coroutines: the flag of its code says which."""
        code = function.__code__
        flags = code.co_flags & ~inspect.CO_GENERATOR | inspect.CO_COROUTINE
        function.__code__ = code.replace(co_flags=flags)
        return function


__all__ = ["coroutine"]
