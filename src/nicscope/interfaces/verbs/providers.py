"""Vendor modules: any name can be imported from them, and using one raises EOPNOTSUPP.

Programs name what a maker's own modules have as they are loaded, in base classes and in sums of
flags too.  All of that works; what would need the device raises an error.
"""

from __future__ import annotations

import errno
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from nicscope.interfaces.verbs.base import error

__path__: list[str] = []  # it has modules, which ``module_of`` makes
_REMARK = "it is of another maker's devices"


class VendorName(type):
    """Metaclass of vendor names: a class, a function, an enumeration or a number."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        """Errors: EOPNOTSUPP."""
        raise error(f"Failed to create {cls.__name__}: {_REMARK}", errno.EOPNOTSUPP)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return named(cls.__name__, name)

    def __repr__(cls) -> str:
        return f"<{cls.__name__}, which no device here has>"

    def _unknown_value(cls, *_: Any) -> Any:
        """Errors: EOPNOTSUPP: the value of a vendor's constant is not known."""
        raise error(f"Failed to read {cls.__name__}: {_REMARK}", errno.EOPNOTSUPP)

    __index__ = __int__ = __float__ = __iter__ = __len__ = _unknown_value
    __getitem__ = __contains__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown_value


class VendorNumber(VendorName):
    """The result of arithmetic on vendor constants, which has no truth value."""

    __bool__ = VendorName._unknown_value


def _reckoned(*parts: Any) -> Any:
    return VendorNumber(" ".join(map(_told, parts)), (), {})


def _told(part: Any) -> str:
    return str(part.__name__) if isinstance(part, VendorName) else str(part)


def _count(name: str, sign: str) -> None:
    setattr(VendorName, f"__{name}__", lambda one, two: _reckoned(one, sign, two))
    setattr(VendorName, f"__r{name}__", lambda two, one: _reckoned(one, sign, two))


for _name, _sign in {
    "or": "|",
    "and": "&",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "floordiv": "//",
    "mod": "%",
}.items():
    _count(_name, _sign)
for _name, _sign in {"invert": "~", "neg": "-"}.items():
    setattr(VendorName, f"__{_name}__", lambda one, sign=_sign: _reckoned(sign, one))


@cache
def named(place: str, name: str) -> Any:
    """The placeholder for a vendor name, the same object for the same name of the same module."""
    return VendorName(f"{place}.{name}", (), {})


class VendorModule(ModuleType):
    """A vendor module, which has every name."""

    __path__: list[str] = []  # noqa: RUF012 - as modules have it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return named(self.__name__.rpartition(".")[2], name)


@cache
def module_of(place: str) -> ModuleType:
    """The module of that name, below this one."""
    made = VendorModule(place, "A maker's module, of whose devices there are none.")
    made.__spec__ = ModuleSpec(place, None)
    return made


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return module_of(f"{__name__}.{name}")
