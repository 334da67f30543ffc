"""How the package's source is written: what files and classes look like, and who compiles."""

import ast
import functools
from pathlib import Path

import pytest

import nicscope

PACKAGE = Path(nicscope.__file__).parent
COMPILER = PACKAGE / "kernel" / "compiler"
# What else touches the compiler: to know its version and to load what it made.
LOADS = {PACKAGE / "kernel" / "fingerprint.py", PACKAGE / "kernel" / "loading.py"}
SEEN = (ast.Name, ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom)
LINES_OF_A_FILE = 900
KERNELS = {"kernel", "distant", "step", "routine"} | {
    f"{declared}.{kind}"
    for declared in ("FIRMWARE", "HOST", "DRIVER", "RINGS")
    for kind in ("function", "question")
}
SAY_NOTHING = ("utils", "helpers", "common", "manager", "misc")


def sources():
    return sorted(PACKAGE.rglob("*.py"))


def decorators(node):
    return {
        ast.unparse(each.func if isinstance(each, ast.Call) else each)
        for each in node.decorator_list
    }


def raises_what_a_subclass_should_say(_path, node):
    return isinstance(node, ast.Name) and node.id == "NotImplementedError"


def can_be_made_with_abstract_methods(_path, node):
    if not isinstance(node, ast.ClassDef):
        return False
    methods = [each for each in node.body if hasattr(each, "decorator_list")]
    return any("abstractmethod" in decorators(each) for each in methods) and not (
        {"ABC", "Protocol"} & {each.id for each in node.bases if isinstance(each, ast.Name)}
    )


def has_no_types_and_is_no_kernel(_path, node):
    return (
        isinstance(node, ast.FunctionDef)
        and node.returns is None
        and not decorators(node) & KERNELS
    )


def imports_a_compiler(path, node):
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module]
    else:
        return False
    return (
        bool({name.partition(".")[0] for name in names} & {"numba", "llvmlite"})
        and COMPILER not in path.parents
        and path not in LOADS
    )


FAULTS = (
    raises_what_a_subclass_should_say,
    can_be_made_with_abstract_methods,
    has_no_types_and_is_no_kernel,
    imports_a_compiler,
)


@functools.cache
def faults():
    """Where each fault is; the source is parsed once for all of them, which takes seconds."""
    found = {fault: [] for fault in FAULTS}
    for path in sources():
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, SEEN)]
        for fault, places in found.items():
            places += [f"{path}:{node.lineno}" for node in nodes if fault(path, node)]
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_in_the_package(fault):
    assert faults()[fault] == []


@pytest.mark.parametrize(
    ("fault", "source"),
    [
        (raises_what_a_subclass_should_say, "raise NotImplementedError"),
        (can_be_made_with_abstract_methods, "class A:\n  @abstractmethod\n  def f(self): ..."),
        (has_no_types_and_is_no_kernel, "@cache\ndef f(a): ..."),
        (imports_a_compiler, "from numba.core import types"),
    ],
)
def test_the_fault_would_be_found(fault, source):
    assert any(fault(PACKAGE / "clock.py", node) for node in ast.walk(ast.parse(source)))


def test_no_file_is_longer_than_can_be_read_at_once():
    files = [*sources(), *Path(__file__).parent.rglob("*.py")]
    lengths = {str(path): len(path.read_text().splitlines()) for path in files}

    assert {path: count for path, count in lengths.items() if count > LINES_OF_A_FILE} == {}


def test_every_file_is_named_after_what_it_holds():
    named = [path for path in sources() for name in SAY_NOTHING if name in path.stem.split("_")]

    assert named == []


def test_no_two_test_files_bear_one_name():
    # pytest imports a test file that is in no package by its bare name.
    bare = [
        path.name
        for path in Path(__file__).parent.rglob("test_*.py")
        if not (path.parent / "__init__.py").exists()
    ]

    assert sorted(name for name in {*bare} if bare.count(name) > 1) == []
