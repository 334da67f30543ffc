"""The table of Numba's private names is complete, and each of them is still there."""

import ast
import importlib
from pathlib import Path

import pytest

import nicscope
from nicscope.kernel.compiler.compiling import PRIVATE

PACKAGE = Path(nicscope.__file__).parent
ROOM = PACKAGE / "kernel" / "compiler"
PUBLIC = {"numba", "numba.types", "numba.extending", "llvmlite", "llvmlite.ir", "llvmlite.binding"}
# Attributes of these are Numba's wherever this room names them.
BASES = ("JITCodeLibrary", "CPUCodegen", "_StructProxy", "CPUDispatcher", "Lower")


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, f"{node.module}.{alias.name}") for alias in node.names)


def of_a_compiler(name):
    return name.partition(".")[0] in {"numba", "llvmlite"}


def resolved(path):
    """What a dotted path leads to, through modules and attributes."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


def test_every_private_name_that_is_imported_is_in_the_table():
    used = {
        name
        for path in ROOM.rglob("*.py")
        for module, name in imported(ast.parse(path.read_text()))
        if of_a_compiler(name) and module not in PUBLIC and name not in PUBLIC
    }
    named = {name for name in PRIVATE if not name.rpartition(".")[2].startswith("_")}

    assert used <= named
    assert named - used <= {"numba.core.types.unliteral"}


def test_every_private_attribute_that_is_used_is_in_the_table():
    from numba.core import cgutils, codegen, lowering, registry

    bases = [
        next(
            vars(each)[name]
            for each in (codegen, cgutils, lowering, registry)
            if name in vars(each)
        )
        for name in BASES
    ]
    bases.append(registry.cpu_target.target_context.codegen())
    library = codegen.JITCodeLibrary(bases[-1], "looked at")
    there = {name for each in (*bases, library) for name in dir(each) if not name.startswith("__")}
    used = set()
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.FunctionDef):
                used.add(node.name)
    private = {name for name in used & there if name.startswith("_")}

    assert private == {name.rpartition(".")[2] for name in PRIVATE if "._" in name} - {
        "_StructProxy"
    }


@pytest.mark.parametrize("name", [name for name in PRIVATE if "._" not in name])
def test_every_name_in_the_table_is_still_there(name):
    assert resolved(name) is not None
