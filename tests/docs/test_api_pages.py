"""The pages of the API have every public name, and every name has a docstring."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import nicscope
from nicscope import interfaces

ROOT = Path(__file__).parents[2]
PAGES = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
PUBLIC = [
    *(("nicscope", name) for name in nicscope.__all__ if name != "__version__"),
    *(("nicscope.interfaces", name) for name in interfaces.__all__),
]


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_a_public_name_is_on_a_page_and_says_what_it_is_and_what_its_methods_do(module, name):
    found = getattr(importlib.import_module(module), name)

    assert re.search(rf"[.`]{name}[`\n]", PAGES), name
    if inspect.isclass(found) or inspect.isroutine(found) or inspect.ismodule(found):
        assert inspect.getdoc(found), name
    if inspect.isclass(found) and found.__module__.startswith("nicscope"):
        for called, method in vars(found).items():
            if not called.startswith("_") and inspect.isfunction(method):
                assert inspect.getdoc(method), f"{name}.{called}"
