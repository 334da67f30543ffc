"""Puts a mutant in the place of what is loaded, without a new interpreter where that can be."""

from __future__ import annotations

import ast
import inspect
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from places import Mutant


def module_of(mutant: Mutant) -> str:
    """The name by which the mutant's file is imported."""
    parts = mutant.path.with_suffix("").parts[1:]
    return ".".join(parts).removesuffix(".__init__")


def within_functions(original: str, mutated: str) -> bool:
    """Whether only bodies of functions differ: what runs when they are called, not before."""
    return _outside(original) == _outside(mutated)


def _outside(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [ast.Pass()]
    return ast.dump(tree)


def swap(mutant: Mutant, original: str) -> bool:
    """Give every loaded function of the mutant's file its changed body; whether all was found."""
    module = sys.modules.get(module_of(mutant))
    if module is None or not within_functions(original, mutant.code):
        return False
    live = dict(_functions_of(module))
    before, after = (_codes(compile(text, module.__file__ or "", "exec")) for text in
                     (original, mutant.code))  # fmt: skip
    changed = {name for name, code in after.items() if code != before.get(name)}
    if not changed or not changed <= set(live):
        return False
    for name in changed:
        live[name].__code__ = after[name]
    return True


def _codes(code: CodeType) -> dict[str, CodeType]:
    """The bodies of the functions and methods that a module or class makes, by qualified name."""
    found: dict[str, CodeType] = {}
    for each in code.co_consts:
        if not isinstance(each, CodeType) or each.co_name.startswith("<"):
            continue
        if each.co_flags & inspect.CO_NEWLOCALS:
            found[each.co_qualname] = each
        else:  # the body of a class
            found |= _codes(each)
    return found


def _functions_of(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for value in list(vars(module).values()):
        yield from _functions_in(value, module.__name__)


def _functions_in(value: Any, module: str) -> Iterator[tuple[str, FunctionType]]:
    if isinstance(value, type) and value.__module__ == module:
        for each in vars(value).values():
            yield from _functions_in(each, module)
        return
    if isinstance(value, property):
        value = value.fget
    function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) or hasattr(
        value, "__func__") else value  # fmt: skip
    if isinstance(function, FunctionType) and function.__module__ == module:
        yield function.__qualname__, function


class Broken(PathFinder):
    """Finds the mutant's module with the mutant's code, whatever is in the file."""

    def __init__(self, name: str, code: str) -> None:
        self.name, self.code = name, code

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's specification, for the one that is broken."""
        if name != self.name:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Given(name, spec.origin, self.code)
        return spec


class _Given(SourceFileLoader):
    def __init__(self, name: str, path: str, code: str) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, _: str) -> CodeType:
        return compile(self.code, self.path, "exec", dont_inherit=True)
