"""What all objects of the verbs have in common: closing, errors, attributes as C takes them."""

from __future__ import annotations

import contextlib
import errno
import logging
import sys
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.interfaces.verbs.pyverbs_error import PyverbsRDMAError
from nicscope.interfaces.verbs.world import add_opened, whose
from nicscope.interfaces.verbs_device.calls import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nicscope.interfaces.verbs.world import World


LOGGER = logging.getLogger("pyverbs")
TAG = 0xFF  # the bits of a key that its owner may change
_last = [0]  # the number of the last error, as a C library's errno


# Forgotten and not closed yet: what Python's collector has found in the thread of another node's
# program, which may not ask for anything in their names, and what was in use by another of these.
_left: list[PyverbsCM] = []


def close_abandoned() -> None:
    """Close the objects that this thread's program has dropped and nothing uses any more."""
    if not _left:
        return
    own = whose()
    found = [each for each in _left if each._owner in (None, own)]
    _left[:] = [
        each for each in _left if each._owner not in (None, own) and not each._owner.is_over
    ]
    close_all(found)


def close_all(things: Iterable[PyverbsCM]) -> None:
    """Close each object that can be closed, in reverse order of dependency."""
    for each in sorted(things, key=lambda one: len(one.ORDER)):
        try:
            each.close()
        except PyverbsRDMAError as failed:
            if failed.error_code == errno.EBUSY:
                _left.append(each)
        except Exception:
            each.logger.debug("%s could not be closed", each, exc_info=True)


def error(text: str, errno: int) -> PyverbsRDMAError:
    """An error to raise, which ``PyverbsRDMAErrno`` will know of."""
    _last[0] = errno
    return PyverbsRDMAError(text, errno)


def PyverbsRDMAErrno(msg: str) -> PyverbsRDMAError:  # noqa: N802 - its name is given
    """An exception that carries the errno of the last failed call."""
    return PyverbsRDMAError(msg, _last[0])


@contextlib.contextmanager
def refusal(text: str) -> Iterator[None]:
    """Convert a call that the device refuses within the block into an error prefixed ``text``."""
    try:
        yield
    except Refused as refused:
        raise error(text, refused.errno) from None


def inc_rkey(rkey: int) -> int:
    """The rkey with the same index and the next tag."""
    return (rkey & ~TAG) | ((rkey + 1) & TAG)


class PyverbsObject:
    """Base of every verbs object that a program holds."""

    __slots__ = ()

    logger = LOGGER

    def set_log_level(self, val: int) -> None:
        """Show messages of this level and above."""
        self.logger.setLevel(val)


class PyverbsValue(PyverbsObject):
    """An attribute object: closable like all others, though it holds no resource."""

    __slots__ = ()

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PyverbsCM(PyverbsObject):
    """A closable object: by its owner, a ``with`` block, its parent, or the garbage collector."""

    ORDER: ClassVar[tuple[str, ...]] = ()  # kinds of what is made on it, first closed first
    _closed = True  # nothing is to be closed of what could not be made
    _owner: World | None = None  # in whose thread alone it is closed

    def _opened(self) -> None:
        """Mark the object as open and add it to those that its thread's program has opened."""
        close_abandoned()
        self._closed = False
        self._owner = whose()
        add_opened(self)
        self._born: dict[str, weakref.WeakSet[PyverbsCM]] = {}

    def _add_dependent(self, child: PyverbsCM, kind: str) -> None:
        """Register ``child`` as dependent: it is closed before this object."""
        born = self._born.get(kind)
        if born is None:
            born = self._born[kind] = weakref.WeakSet()
        born.add(child)

    def _living(self, kind: str) -> list[Any]:
        return [child for child in self._born.get(kind, ()) if not child._closed]

    def close(self) -> None:
        """Release the resource; closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        for kind in self.ORDER:
            for child in [*self._born.get(kind, ())]:
                child.close()
        with refusal(f"Failed to close a {type(self).__name__}"):
            try:
                self._release()
            except Refused:
                self._closed = False  # it is as it was, and can be closed later
                raise

    def _release(self) -> None:
        """Release what the device holds for the object."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._closed or sys.is_finalizing():  # at exit there is nothing left to tell
            return
        if self._owner is not None and self._owner.is_over:
            return
        _left.append(self)
        close_abandoned()


WIDTH = 22  # of a name in a print


class Number:
    """An integer field; other numbers are truncated, as C does."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = f"_{name}"

    def __get__(self, holder: Any, kind: type | None = None) -> int:
        if holder is None:
            return self  # type: ignore[return-value]
        found: int = getattr(holder, self._place)
        return found

    def __set__(self, holder: Any, value: Any) -> None:
        setattr(holder, self._place, int(value))


class Fields:
    """An object that prints as one line for each of its fields."""

    __slots__ = ()

    SHOWN: ClassVar[tuple[str, ...]] = ()

    def shown(self) -> list[tuple[str, Any]]:
        """Field names and values in the order in which they are printed."""
        return [(name.replace("_", " "), getattr(self, name)) for name in self.SHOWN]

    def __str__(self) -> str:
        return printed(dict(self.shown()))


def printed(values: Mapping[str, Any]) -> str:
    """A line for each value, behind its name."""
    return "".join(f"{name:<{WIDTH}}: {value}\n" for name, value in values.items())
