"""The package as ``pyverbs``: its modules by their names there, and those of what no device has.

``CONTENTS`` are modules of what the device does not support: names are there, creating an object is
refused.  Of makers' own modules every name can be imported, in base classes and sums of flags too;
what would need their devices raises EOPNOTSUPP.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.abc
import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error
from nicscope.interfaces.verbs.enumerations import libibverbs_enums, librdmacm_enums, module_of

if TYPE_CHECKING:
    from collections.abc import Iterator


SURFACE = "nicscope.interfaces.verbs"
MAKERS = f"{SURFACE}.providers"  # any module can be imported from there
PLACES = {  # where names of its modules lie that are none of files here
    "mem_alloc": "base",
    "pd": "mr",
    "pyverbs_error": "base",
    "srq": "wr",
    "tph": "mr",
    "utils": "enumerations",
    "xrcd": "wr",
}
ENUMERATIONS: dict[str, ModuleType] = {  # the latter two are what they were called before
    "libibverbs_enums": libibverbs_enums,
    "librdmacm_enums": librdmacm_enums,
    "enums": libibverbs_enums,
    "cm_enums": librdmacm_enums,
}


class Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``name`` and what lies in it where the surface is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._specs: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """Where a module is, if it is one of ours."""
        if fullname == self._name or fullname.startswith(f"{self._name}."):
            return importlib.util.spec_from_loader(fullname, self)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the surface itself."""
        name = spec.name[len(self._name) + 1 :]
        place = ".".join(filter(None, [SURFACE, PLACES.get(name, name)]))
        try:
            found = _found(place)
        except ModuleNotFoundError as missing:
            if missing.name != place:
                raise
            raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name) from None
        self._specs[spec.name] = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Restores the module's own spec: it ran before, and importlib has overwritten that."""
        if module.__spec__ is not None:
            module.__spec__ = self._specs[module.__spec__.name]


@cache
def _found(place: str) -> ModuleType:
    # Barriers and doorbells of the makers' modules are as theirs: there are none.
    if place == MAKERS or place.startswith(f"{MAKERS}.") or place == f"{SURFACE}.dma_util":
        return vendor_module(place)
    name = place.removeprefix(f"{SURFACE}.")
    if name in ENUMERATIONS:
        return ENUMERATIONS[name]
    if name in CONTENTS:
        return module_of(name, CONTENTS[name])
    return importlib.import_module(place)


@contextlib.contextmanager
def importable_as(name: str) -> Iterator[None]:
    """Within the block, ``import name`` imports the surface."""
    finder = Alias(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for each in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            del sys.modules[each]


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
    """A vendor module, which has every name; ``providers`` has every module."""

    __path__: list[str] = []  # noqa: RUF012 - as modules have it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if self.__name__ == MAKERS:
            return vendor_module(f"{MAKERS}.{name}")
        return named(self.__name__.rpartition(".")[2], name)


@cache
def vendor_module(place: str) -> ModuleType:
    """The vendor module of that name."""
    made = VendorModule(place, "A maker's module, of whose devices there are none.")
    made.__spec__ = ModuleSpec(place, None)
    return made


class Unsupported(PyverbsCM):
    """An object of a kind that the device does not support; errors: EOPNOTSUPP."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise error(f"Failed to create {type(self).__name__}", errno.EOPNOTSUPP)


class Values(PyverbsObject):
    """Attributes of an unsupported object, by name."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given = given
        self.__dict__.update(named)


class FlowAttr(Values):
    """The packets that a flow steering rule matches."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.specs: list[Any] = []
        super().__init__(*given, **named)


class Spec(Values):
    """Header fields that a flow steering rule matches."""


class DmaBuf(PyverbsCM):
    """A GPU buffer exported as dma-buf, of which a node has none; errors: EOPNOTSUPP."""

    def __init__(self, size: int, gpu: int = 0, gtt: int = 0) -> None:  # noqa: ARG002
        raise error(f"Failed to allocate dmabuf of size {int(size)}", errno.EOPNOTSUPP)


def _classes(base: type, *names: str) -> dict[str, Any]:
    return {name: type(name, (base,), {"__doc__": base.__doc__}) for name in names}


CONTENTS: dict[str, dict[str, Any]] = {
    "comp_cntr": {
        **_classes(Unsupported, "CompCntr"),
        **_classes(Values, "CompCntrInitAttr", "CompCntrAttachAttr"),
    },
    "dmabuf": {"DmaBuf": DmaBuf},
    "flow": {"FlowAttr": FlowAttr, **_classes(Unsupported, "Flow")},
    # Simulated memory is copied with the rest of a process that forks: nothing is to be prepared.
    "fork": {
        "fork_init": lambda: None,
        "is_fork_initialized": lambda: libibverbs_enums.ibv_fork_status.IBV_FORK_UNNEEDED,
    },
    "spec": {"Spec": Spec, **_classes(Spec, "EthSpec", "Ipv4ExtSpec", "Ipv6Spec", "TcpUdpSpec")},
    "wq": {
        **_classes(Unsupported, "WQ", "RwqIndTable"),
        **_classes(Values, "WQInitAttr", "WQAttr", "RwqIndTableInitAttr", "RxHashConf"),
    },
}
