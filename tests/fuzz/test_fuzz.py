"""A little of ``make fuzz``, other files each time in the long tests, and all that was kept."""

import os
import random
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import run_fuzz  # noqa: E402
from calling import Broken, commanded  # noqa: E402
from readers import READERS, new_file, read_file  # noqa: E402

from mutation import changed_tree, mutated, odd_tree  # noqa: E402

KEPT = sorted((HERE / "kept").glob("*/*"))


def read_files(names, seed, files):
    kept, said = run_fuzz.fuzz(names, seed, 0, files)
    assert kept is None, f"seed {seed}: {said}"
    assert said.count(f"{files} files") == len(names), f"seed {seed}: {said}"


def test_odd_and_damaged_files_are_read_or_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a file that fails would be kept
    read_files(list(READERS), 0, 3)


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_so_are_other_files_each_time(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    read_files([name], random.SystemRandom().randrange(1 << 30), 50)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_failed_is_read_or_refused_in_one_line(path):
    read_file(path.parent.name, path)


@pytest.mark.parametrize("name", READERS)
def test_the_samples_differ_and_a_seed_gives_the_same_file_again(name):
    files = [new_file(name, 1, number) for number in range(20)]

    assert len(set(files)) > 10
    assert files == [new_file(name, 1, number) for number in range(20)]
    assert files != [new_file(name, 2, number) for number in range(20)]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raise IndexError('index 7')", "IndexError: index 7"),
        ("print('two', file=sys.stderr); raise NicscopeError('lines')", "Broken"),
        ("raise NicscopeError('x' * 10**6) from None", None),
        ("import os; os._exit(134)", "exit status 134"),
        ("bytearray(1 << 40)", "MemoryError"),
        ("name = b'x' * (600 << 20); raise NicscopeError('small')", "TooLarge"),
        ("import time; time.sleep(30)", "TooLong"),
    ],
)
def test_the_fuzzer_notices_what_a_reader_does_wrong(fault, words, tmp_path, monkeypatch):
    """A command is made to misbehave; lines that are too long are cut by the errors themselves."""
    (tmp_path / "readers.py").write_text(
        "import sys; import nicscope.config.design as design\n"
        "from calling import Reader, commanded\n"
        "from nicscope.errors import NicscopeError\n"
        f"def load(name):\n    {fault}\n"
        "design.load_design = load\n"
        "READERS = {'design': Reader('.toml', None, None)}\n"
        "def new_file(name, seed, number): return b'a file'\n"
        "def read_file(name, path): commanded('designs', 'show', path)\n"
    )
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # in place of the readers beside the fuzzer
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{HERE}")
    # All but the one that never ends may take as long as a busy machine needs.
    monkeypatch.setenv("NICSCOPE_FUZZ_SECONDS", "1" if words == "TooLong" else "60")
    monkeypatch.chdir(tmp_path)

    kept, said = run_fuzz.fuzz(["design"], 1, 0, 1)

    if words is None:
        assert kept is None
    else:
        assert words in said
        assert kept.read_bytes() == b"a file"


def test_a_reader_that_says_more_than_one_line_is_broken(capsys, monkeypatch):
    del capsys

    def main(_):
        print("nicscope: one\nand two", file=sys.stderr)
        return 2

    monkeypatch.setattr("calling.main", main)
    with pytest.raises(Broken, match="status 2"):
        commanded("designs", "show", "x.toml")


def test_changes_are_of_every_kind():
    chance = random.Random(1)
    sample = b"[a]\nx = 12\ny = 'word'\n"
    changed = {mutated(chance, [sample, b"other 34\n"]) for _ in range(300)}
    trees = [changed_tree(chance, {"a": [1, {"b": 2}], "c": "d"}) for _ in range(300)]

    assert len(changed) > 250
    assert any(len(one) < len(sample) for one in changed)
    assert any(len(one) > 10_000 for one in changed)
    assert len({repr(tree) for tree in trees}) > 100
    assert any(isinstance(odd_tree(chance), dict) for _ in range(50))
