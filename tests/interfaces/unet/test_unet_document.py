"""The program in ``docs/unet.md`` and the examples run, and print what they should."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "unet.md").read_text()

PRINTED = {
    "unet_pingpong": """\
   40 bytes:    68.1 us there and back
 1000 bytes:   189.6 us there and back
 4000 bytes:   531.9 us there and back
pinned for the network: 12 10 pages
""",
    "unet_mm_paging": """\
no page out; sent at 0.8 ms
got 'from memory'
1 page out; sent at 22.4 ms
got 'from the disk'
node 0: 2 misses, 2 pages pinned
""",
}


def test_the_documented_program_prints_what_the_page_says(capsys):
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program, "docs/unet.md", "exec"), {})
    (promised,) = re.findall(r"It prints `([^`]+)`", PAGE)
    assert capsys.readouterr().out == f"{promised}\n"


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_did(name, capsys):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    assert capsys.readouterr().out == PRINTED[name]
