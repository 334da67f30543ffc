"""Every program in ``examples`` prints what is kept beside it."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ELSEWHERE = {  # with the requirements that they show, or only compiled
    "mini_miss_ratio": "interfaces/mini/test_mini_document.py",
    "mini_many_buffers": "interfaces/mini/test_mini_document.py",
    "ports_over_ways": "interfaces/test_examples_over_the_bus.py",
    "verbs_pingpong": "interfaces/verbs/test_verbs_examples.py",
    "trapeze_kernel": "interfaces/test_trapeze.py",
    "via_switch": "interfaces/via/test_through_a_switch.py",
}
EVERY = sorted(path.stem for path in EXAMPLES.glob("*.py"))


# One program of each interface; miNI's and those of verbs are elsewhere.
COMPILED_TOO = ("trapeze_policies", "unet_pingpong", "via_rdma_write", "vmmc_store_fetch")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.compiled_too if name in COMPILED_TOO else ())
        for name in EVERY
        if name not in ELSEWHERE
    ],
)
def test_an_example_prints_what_is_kept_beside_it(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")

    assert capsys.readouterr().out == (EXAMPLES / f"{name}.out").read_text()


def test_every_example_is_on_a_page_and_run_here_or_elsewhere():
    pages = "".join(page.read_text() for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))

    assert [name for name in EVERY if f"{name}.py" not in pages] == []
    for name, file in ELSEWHERE.items():
        assert name in EVERY
        assert name in (ROOT / "tests" / file).read_text(), name
