"""Records that both worlds can read: compiled code by field, plain Python by attribute."""

from __future__ import annotations

import functools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def records(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeroed records of ``dtype`` whose fields are attributes, compiled or not."""
    return as_records(np.zeros(shape, dtype))


def as_records(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` of a structured dtype, such that ``array[i].field`` works in plain Python too."""
    return array.view(_with_attributes(array.dtype))


@functools.cache
def _with_attributes(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """``dtype`` whose scalars have a property for each field.

    Those of a recarray look for each attribute among those of every scalar, fail, and ask the
    dtype: four times as long, which is most of what interpreted kernels do.  They look into what a
    field holds for records within records, too, which are in none of ours.
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
