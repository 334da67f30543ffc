"""What can be read at a sitting: files of one subject, kernels of one screen, names that say it."""

from __future__ import annotations

import ast
from pathlib import Path

import nicscope

PACKAGE = Path(nicscope.__file__).parent
LINES_OF_A_FILE = 900
LINES_OF_A_KERNEL = 40
KERNELS = {"kernel", "step", "routine", "distant"}
SAY_NOTHING = ("utils", "helpers", "common", "manager", "misc")


def sources():
    return sorted(PACKAGE.rglob("*.py"))


def of_tests():
    return sorted(Path(__file__).parent.rglob("*.py"))


def decorators(function):
    for each in function.decorator_list:
        called = each.func if isinstance(each, ast.Call) else each
        if isinstance(called, ast.Name):
            yield called.id


def test_no_file_is_longer_than_can_be_read_at_once():
    lengths = {str(path): len(path.read_text().splitlines()) for path in [*sources(), *of_tests()]}

    assert {path: count for path, count in lengths.items() if count > LINES_OF_A_FILE} == {}


def test_no_kernel_is_longer_than_a_screen():
    long = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and KERNELS & {*decorators(node)}:
                count = (node.end_lineno or 0) - node.lineno + 1
                if count > LINES_OF_A_KERNEL:
                    long[f"{path}:{node.name}"] = count

    assert long == {}


def test_what_a_subclass_must_say_is_abstract_and_not_an_error_of_the_first_call():
    raising = [
        f"{path}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]

    assert raising == []


def test_a_class_with_abstract_methods_cannot_be_made():
    unchecked = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = [each for each in node.body if hasattr(each, "decorator_list")]
                if any("abstractmethod" in decorators(method) for method in methods):
                    bases = {each.id for each in node.bases if isinstance(each, ast.Name)}
                    unchecked += [] if bases & {"ABC", "Protocol"} else [f"{path}:{node.name}"]

    assert unchecked == []


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
