"""State handed to compiled code as one address: its layout, and arrays that grow while in use."""

from __future__ import annotations

import functools
import hashlib
import json
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


class ArrayKind(NamedTuple):
    """An array: its dtype as ``text_of_dtype``, and how its elements lie."""

    dtype: str
    ndim: int
    layout: str  # C, F or A, as Numba names them
    read_only: bool


class StateKind(NamedTuple):
    """A NamedTuple of arrays and of such NamedTuples; the arguments of a call, or a tuple of them.

    A part that grows (``growing``) is described as if it were a NamedTuple too.

    What one of its class may have and this one has not is None.
    """

    name: str
    fields: tuple[str, ...]
    kinds: tuple[Any, ...]


NUMBERS = ("int64", "uint64", "float64", "bool")  # kinds of what is no array: one word each
NOTHING = "none"  # the kind of a part that a state does not have: no word
_MOST_SIGNED = (1 << 63) - 1


class Handed:
    """The table of one state's arrays, and the state itself, which must live as long."""

    __slots__ = ("__weakref__", "address", "kind", "state", "table")

    def __init__(self, state: Any, kind: StateKind) -> None:
        self.state = state
        self.kind = kind
        if kind.name == "arguments":
            self.table = _table_of_arguments(state)
        else:
            self.table = np.array([*_words_of_fields(state)], np.int64)
        self.address: int = self.table.ctypes.data
        _by_state[id(state)] = self
        _by_address[self.address] = self


_by_state: weakref.WeakValueDictionary[int, Handed] = weakref.WeakValueDictionary()
_by_address: weakref.WeakValueDictionary[int, Handed] = weakref.WeakValueDictionary()


def handed(state: Any) -> Handed:
    """The one table of ``state``.  Errors: ``TypeError`` for a field that is not an array."""
    known = _by_state.get(id(state))
    if known is not None and known.state is state:
        return known
    return Handed(state, kind_of_state(state))


# Tables of states that kernels were given last, as most are given the same again.
_given: OrderedDict[int, Handed] = OrderedDict()
_KEPT = 16


def _given_state(state: Any) -> Handed:
    known = _given.pop(id(state), None)
    if known is None or known.state is not state:
        known = handed(state)
        while len(_given) >= _KEPT:
            _given.popitem(last=False)
    _given[id(state)] = known
    return known


def _table_of_arguments(arguments: Any) -> NDArray[np.int64]:
    parts: list[Any] = []
    words: list[int] = []
    for argument in arguments:
        if hasattr(argument, "_fields"):
            parts += [words, _given_state(argument).table]
            words = []
        else:
            words += _words_of_fields((argument,))
    return np.concatenate([np.array(each, np.int64) for each in (*parts, words)])


def renew(part: Growing) -> None:
    """Have every table of a state with ``part`` in it name the arrays that ``part`` has now.

    Each keeps its place and its kind, so compiled code that was bound to it finds them there.
    """
    for known in [*_by_state.values()]:
        if known.kind.name != "arguments" and _has_part(known.state, part):
            known.table[:] = [*_words_of_fields(known.state)]


def _has_part(state: Any, part: Growing) -> bool:
    return state is part or any(
        _has_part(field, part) for field in state if isinstance(field, (tuple, Growing))
    )


def handed_at(address: int) -> Handed:
    """Whose table begins at ``address``."""
    return _by_address[address]


def _words_of_fields(state: Any) -> Iterator[int]:
    for field in state:
        if isinstance(field, np.ndarray):
            yield from _words_of_array(field)
        elif isinstance(field, (tuple, Growing)):
            yield from _words_of_fields(field)
        elif field is not None:
            yield _word_of_number(field)


def _words_of_array(array: NDArray[Any]) -> tuple[int, ...]:
    return (array.__array_interface__["data"][0], *array.shape, *array.strides)


def _word_of_number(number: Any) -> int:
    if isinstance(number, (float, np.floating)):
        return int(np.float64(number).view(np.int64))
    word = int(number)
    return word if word <= _MOST_SIGNED else word - (1 << 64)


def kind_of_state(state: Any) -> StateKind:
    """What a table of ``state`` holds.  Errors: ``TypeError`` for a field that is not an array."""
    kinds: list[Any] = []
    for name, field in zip(state._fields, state, strict=True):
        if isinstance(field, np.ndarray):
            kinds.append(_kind_of_array(field))
        elif hasattr(field, "_fields"):
            kinds.append(kind_of_state(field))
        elif field is None:
            kinds.append(NOTHING)
        else:
            raise TypeError(f"only arrays can be handed over; {name} is {field!r}")
    kind = type(state)
    return StateKind(f"{kind.__module__}.{kind.__qualname__}", state._fields, tuple(kinds))


def kind_of_arguments(arguments: Sequence[Any]) -> StateKind:
    """What a table of a call's arguments holds, each under a name made of its place."""
    kinds = tuple(_kind_of_argument(each) for each in arguments)
    return StateKind("arguments", names_of(len(kinds)), kinds)


def _kind_of_argument(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return _kind_of_array(argument)
    if argument is None:
        return NOTHING
    if hasattr(argument, "_fields"):
        return _given_state(argument).kind
    if isinstance(argument, tuple):
        kinds = tuple(_kind_of_argument(each) for each in argument)
        return StateKind("tuple", names_of(len(kinds)), kinds)
    return _kind_of_number(argument)


@functools.cache
def names_of(count: int) -> tuple[str, ...]:
    """The names of so many things that have places only."""
    return tuple(f"a{place}" for place in range(count))


def _kind_of_number(number: Any) -> str:
    if isinstance(number, (bool, np.bool_)):
        return "bool"
    if isinstance(number, (int, np.integer)):
        unsigned = isinstance(number, np.uint64) or int(number) > _MOST_SIGNED
        return "uint64" if unsigned else "int64"
    if isinstance(number, (float, np.floating)):
        return "float64"
    raise TypeError(f"kernels take arrays, states and numbers, not {number!r}")


def _kind_of_array(array: NDArray[Any]) -> ArrayKind:
    flags = array.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    if array.ndim > 2 and len(array) == 1 and array.size and array.strides[0] != array.nbytes:
        layout = "A"  # cut from longer rows: of the same kind as one that has several
    return _array_kind(array.dtype, array.ndim, layout, not flags.writeable)


@functools.cache
def _array_kind(dtype: np.dtype[Any], ndim: int, layout: str, read_only: bool) -> ArrayKind:
    return ArrayKind(text_of_dtype(dtype), ndim, layout, read_only)


def text_of_dtype(dtype: np.dtype[Any]) -> str:
    """All that compiled code must know of ``dtype``, as JSON."""
    return json.dumps(_plain_dtype(dtype))


def _plain_dtype(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": _plain_dtype(base), "shape": list(shape)}
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    members = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_plain_dtype(member[0]) for member in members],
        "offsets": [member[1] for member in members],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def dtype_of_text(text: str) -> np.dtype[Any]:
    """The dtype that ``text_of_dtype`` wrote."""
    return _dtype(json.loads(text))


def _dtype(plain: Any) -> np.dtype[Any]:
    if isinstance(plain, str):
        return np.dtype(plain)
    if "base" in plain:
        return np.dtype((_dtype(plain["base"]), tuple(plain["shape"])))
    aligned = bool(plain["aligned"])
    formats = [_dtype(each) for each in plain["formats"]]
    members: Any = {key: plain[key] for key in ("names", "offsets", "itemsize")}
    members["formats"] = formats
    made: np.dtype[Any] = np.dtype(members, align=aligned)
    return made


def plain_kind(kind: Any) -> Any:
    """``kind`` as lists and texts, for JSON."""
    if isinstance(kind, ArrayKind):
        return ["array", *kind]
    if isinstance(kind, StateKind):
        return ["state", kind.name, list(kind.fields), [plain_kind(each) for each in kind.kinds]]
    return kind


def kind_of_plain(plain: Any) -> Any:
    """The kind that ``plain_kind`` made ``plain`` of.  Errors: ``ValueError`` for anything else."""
    if isinstance(plain, str) and (plain in NUMBERS or plain == NOTHING):
        return plain
    if isinstance(plain, list) and plain[:1] == ["array"] and len(plain) == 5:
        return ArrayKind(*plain[1:])
    if isinstance(plain, list) and plain[:1] == ["state"] and len(plain) == 4:
        _, name, fields, kinds = plain
        return StateKind(name, tuple(fields), tuple(kind_of_plain(each) for each in kinds))
    raise ValueError("this describes no state")


@functools.lru_cache(maxsize=256)
def digest_of_kind(kind: StateKind) -> str:
    """A short name for all that ``kind`` says."""
    return hashlib.sha256(json.dumps(plain_kind(kind)).encode()).hexdigest()[:32]


def words_in(kind: Any) -> int:
    """How many words of a table hold what is of ``kind``."""
    if isinstance(kind, ArrayKind):
        return 1 + 2 * kind.ndim
    if isinstance(kind, StateKind):
        return sum(words_in(each) for each in kind.kinds)
    return 0 if kind == NOTHING else 1


@functools.cache
def place_of_field(kind: StateKind, name: str) -> int:
    """Where in the table of a state of ``kind`` the words of field ``name`` begin."""
    return sum(words_in(each) for each in kind.kinds[: kind.fields.index(name)])
