"""What a shell offers: names of the catalog where one is asked for, files everywhere else."""

import pytest

from nicscope.cli.app import main
from nicscope.cli.arguments import offering
from nicscope.config.toml_files import shelf_names
from nicscope.traces.bundled import bundled_traces

MINI = [each for each in shelf_names("designs") if each.startswith("mini")]


@pytest.fixture
def offered(monkeypatch, capsys):
    """What Bash would offer for the last of some words."""

    def offer(*words):
        monkeypatch.setenv("_NICSCOPE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(("nicscope", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            main([])
        out, err = capsys.readouterr()
        assert err == ""
        return out.split()

    return offer


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("lat",), ["latency"]),
        (("replay", "t.parquet", "--design", "utlb"), ["utlb", "utlb-process", "utlb-shared"]),
        (("simulate", "t.parquet", "--platform", "utlb-p"), ["utlb-prototype"]),
        (("designs", "show", "mini"), MINI),
        (("replay", "b"), [f"bundled:{name}" for name in bundled_traces()]),
        (("trace", "info", "bundled:ps"), []),
        (("curve", ""), []),
    ],
)
def test_a_shell_is_offered(words, wanted, offered):
    assert offered(*words) == wanted


def test_every_name_of_the_catalog_is_offered():
    assert offering("designs")("") == shelf_names("designs")
    assert offering("platforms")("") == shelf_names("platforms")
