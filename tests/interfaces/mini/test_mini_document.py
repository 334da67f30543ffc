"""The program in ``docs/mini.md`` and the examples run, and print what they should."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "mini.md").read_text()

WITHOUT_COMPILER = os.environ.get("NUMBA_DISABLE_JIT") == "1"
PRINTED = {
    "mini_miss_ratio": """\
bytes  ratio  latency us    MB/s
   64    0.0         8.9     7.2
   64    0.1        39.1     1.6
   64    0.5       159.6     0.4
   64    1.0       310.2     0.2
 4096    0.0        45.8    89.5
 4096    0.1        77.4    53.0
 4096    0.5       203.6    20.1
 4096    1.0       361.5    11.3
16384    0.0       147.4   111.2
16384    0.1       282.7    58.0
16384    0.5       823.8    19.9
16384    1.0      1500.3    10.9

A round trip of 4096 bytes that misses, in us:
  first try         5.2
  delay            25.0
  processing        5.0
  timer           599.3
  sending again    88.4
""",
    "mini_many_buffers": """\
mini, 16 buffers: 16 of 32 lookups of handles missed, 69 KB of tables and caches on the NIC
mini, 100 buffers: 200 of 200 lookups of handles missed, 69 KB of tables and caches on the NIC
vmmc-static, 16 buffers: 0 of 0 lookups of handles missed, 261 KB of tables and caches on the NIC
vmmc-static, 100 buffers: node 1 has all its 64 registered buffers in use: give some back, or \
give the cluster PortSize(exports=...)
""",
}


def test_the_documented_program_prints_what_the_page_says(capsys):
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program, "docs/mini.md", "exec"), {})
    (promised,) = re.findall(r"<!-- printed -->\n```\n(.*?)```", PAGE, re.DOTALL)

    assert capsys.readouterr().out == promised


@pytest.mark.skipif(WITHOUT_COMPILER, reason="moves megabytes, byte by byte without the compiler")
@pytest.mark.requirement("MI-47")
@pytest.mark.requirement("MI-52")
@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_did(name, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [name])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")

    assert capsys.readouterr().out == PRINTED[name]
