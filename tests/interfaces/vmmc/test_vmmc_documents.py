"""The examples and the program of ``docs/vmmc.md`` run and print what is written beside them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "vmmc.md").read_text()
EXAMPLES = ("vmmc_store_fetch", "utlb_policies", "vmmc_link_failure")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_is_kept_beside_it(name, capsys):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")

    assert capsys.readouterr().out == (ROOT / "examples" / f"{name}.out").read_text()
    assert f"python examples/{name}.py" in PAGE


def test_the_program_on_the_vmmc_page_prints_what_the_page_says(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (said,) = re.findall(r"It prints `(.*?)`", PAGE)

    exec(compile(program, "docs/vmmc.md", "exec"), {})

    assert capsys.readouterr().out.strip() == said


def test_every_call_of_an_endpoint_is_on_the_page():
    from nicscope.interfaces.vmmc import Endpoint

    calls = {name for name in vars(Endpoint) if not name.startswith("_")}
    assert calls <= set(re.findall(r"`([a-z_]+)", PAGE)) | {"cluster"}
