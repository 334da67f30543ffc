"""Records that both worlds can read: compiled code by field, plain Python by attribute."""

from __future__ import annotations

import ctypes
import functools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def records(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeroed records of ``dtype`` whose fields are attributes, compiled or not."""
    return as_records(np.zeros(shape, dtype))


def as_records(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` of a structured dtype, such that ``array[i].field`` works in plain Python too.

    A record is the memory itself, as one of a NumPy array is.
    """
    return array.view(_with_attributes(array.dtype), Records)


class Records(np.ndarray):
    """An array of records, of which plain Python gets each as a structure of C's.

    Reading or writing a field of NumPy's own records takes some ten times as long
    (docs/performance.md), and is most of what interpreted kernels do.
    """

    _rows: Any = None  # by their place: structures, or arrays of them where there are more axes

    def __getitem__(self, index: Any) -> Any:
        """A record, if ``index`` names one; otherwise whatever an array has there."""
        kind = index.__class__
        if kind in _WHOLE:
            rows = self._rows
            return rows[index] if rows is not None else self._row(index)
        if kind is tuple and len(index) == 2 == self.ndim:
            row, column = index
            if row.__class__ in _WHOLE and column.__class__ in _WHOLE:
                return self[row][column]
        found = super().__getitem__(index)
        return found.view(np.ndarray) if kind is str else found  # one field's numbers

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write what NumPy takes, or such a record."""
        super().__setitem__(index, value.item() if isinstance(value, _Record) else value)

    def _row(self, index: Any) -> Any:
        memory = self._memory()
        if memory is None:
            return super().__getitem__(index)
        if self.ndim > 1:
            parts = memory.reshape(len(self), self.nbytes // len(self))
            rows = (part.view(self.dtype).view(Records) for part in parts)
            self._rows = [row.reshape(self.shape[1:]) for row in rows]
        else:
            structure: Any = _structure(self.dtype)
            self._rows = (structure * len(self)).from_buffer(memory)
        return self._rows[index]

    def _memory(self) -> NDArray[np.uint8] | None:
        """The array's bytes, if they are contiguous, can be written and are another's, else None.

        An array that owned them, and knew structures in them, would keep itself alive.
        """
        if self.size == 0 < len(self):
            return np.empty(0, np.uint8)
        owner: Any = self.base
        while isinstance(owner, np.ndarray) and isinstance(owner.base, np.ndarray):
            owner = owner.base
        if (
            not isinstance(owner, np.ndarray)
            or not (owner.flags.c_contiguous and self.flags.c_contiguous and self.flags.writeable)
            or self.size == 0
            or (self.ndim > 1 and len(self) > _MOST_ROWS)
            or self.dtype.names is None
            or _structure(self.dtype) is None
        ):
            return None
        first, begin = owner.ctypes.data, self.ctypes.data
        memory: NDArray[np.uint8] = owner.reshape(-1).view(np.uint8)
        return memory[begin - first : begin - first + self.nbytes]


_WHOLE = frozenset(
    {int, *(np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8))}
)
_MOST_ROWS = 1 << 12
_C = {
    np.dtype(name): kind
    for name, kind in (
        *(("i1", ctypes.c_int8), ("i2", ctypes.c_int16), ("i4", ctypes.c_int32)),
        *(("i8", ctypes.c_int64), ("u1", ctypes.c_uint8), ("u2", ctypes.c_uint16)),
        *(("u4", ctypes.c_uint32), ("u8", ctypes.c_uint64), ("b1", ctypes.c_bool)),
        *(("f4", ctypes.c_float), ("f8", ctypes.c_double)),
    )
}


class _Record(ctypes.Structure):
    """A record of an array, with those methods of NumPy's records that are called on it."""

    dtype: ClassVar[np.dtype[Any]]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.item())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Record) and self.item() == other.item()

    __hash__ = None  # type: ignore[assignment]  # what can be written to has none

    def __repr__(self) -> str:
        return repr(self.item())

    def item(self) -> tuple[Any, ...]:
        """The fields' values."""
        return tuple(getattr(self, field[0]) for field in self._fields_)

    tolist = item

    def tobytes(self) -> bytes:
        """The record as it lies in memory."""
        return bytes(self)


@functools.cache
def _structure(dtype: np.dtype[Any]) -> type[ctypes.Structure] | None:
    """The structure of C's that lies in memory as ``dtype`` does, if there is one."""
    fields = [(name, _C.get(dtype[name])) for name in dtype.names or ()]
    if not all(kind for _, kind in fields):
        return None
    made = type("Record", (_Record,), {"__slots__": (), "_fields_": fields, "dtype": dtype})
    places = [getattr(made, name).offset for name, _ in fields]
    lies_alike = places == [dtype.fields[name][1] for name, _ in fields]  # type: ignore[index]
    return made if lies_alike and ctypes.sizeof(made) == dtype.itemsize else None


@functools.cache
def _with_attributes(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """``dtype`` whose scalars have a property for each field.

    Those of a recarray look for each attribute among those of every scalar, fail, and ask the
    dtype: four times as long.  They look into what a field holds for records within records, too,
    which are in none of ours.
    """
    members: dict[str, Any] = {
        "__slots__": (),
        "__getattribute__": object.__getattribute__,
        "__setattr__": object.__setattr__,
        "__getitem__": np.void.__getitem__,
    }
    for name in dtype.names or ():
        members[name] = property(itemgetter(name), functools.partial(_set_field, name))
    return np.dtype((type("Record", (np.record,), members), dtype))


def _set_field(name: str, record: Any, value: Any) -> None:
    record[name] = value


State = TypeVar("State", bound=Any)


def without_rows(state: State) -> State:
    """The same NamedTuple of arrays, and of such NamedTuples, with arrays of no length."""
    parts = (
        without_rows(part) if hasattr(part, "_fields") else np.ascontiguousarray(part[:0])
        for part in state
    )
    return cast("State", type(state)(*parts))


def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """``array`` itself if it has ``length`` elements, else a copy with zeros behind."""
    if len(array) >= length:
        return array
    shape = (length, *array.shape[1:])
    copy = records(shape, array.dtype) if array.dtype.names else np.zeros(shape, array.dtype)
    copy[: len(array)] = array
    return copy
