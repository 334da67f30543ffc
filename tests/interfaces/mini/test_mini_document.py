"""The program in ``docs/mini.md`` and the examples run, and print what they should."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "mini.md").read_text()

PRINTED = {
    "mini_miss_ratio": """\
""",
    "mini_many_buffers": """\
mini, 16 buffers: 16 of 32 lookups of handles missed, 255064 bytes on the NIC
mini, 100 buffers: 200 of 200 lookups of handles missed, 255064 bytes on the NIC
vmmc-static, 16 buffers: 0 of 0 lookups of handles missed, 451320 bytes on the NIC
vmmc-static, 100 buffers: node 1 has room for 64 registered buffers: give the cluster \
PortSize(exports=...)
""",
}


def test_the_documented_program_prints_what_the_page_says(capsys):
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program, "docs/mini.md", "exec"), {})
    (promised,) = re.findall(r"<!-- printed -->\n```\n(.*?)```", PAGE, re.DOTALL)

    assert capsys.readouterr().out == promised


@pytest.mark.requirement("MI-47")
@pytest.mark.requirement("MI-52")
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_did(name, capsys):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")

    assert capsys.readouterr().out == PRINTED[name]
