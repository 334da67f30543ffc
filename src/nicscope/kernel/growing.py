"""Arrays of a state that are replaced by longer ones while the state is in use.

A state is a NamedTuple, which keeps the arrays that it was made with.  What grows is a part of it
whose arrays are attributes: every holder of the state finds the present ones there, and
``layout.renew`` has those who run compiled code find them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


class Growing:
    """A part of a state: the arrays that a subclass annotates, each of which may be replaced.

    Only between two calls of kernels, by one of the same dtype and as many axes.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in self._fields:
            setattr(self, name, arrays[name])

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (getattr(self, name) for name in self._fields)
