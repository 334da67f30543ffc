"""Others replace, move and clear up the same names in any moment between two calls."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from targets import tree

from nicscope.errors import OutputError
from nicscope.outputs import target_of, whole_file, whole_folder
from nicscope.outputs import temporary as temporaries

LOOKING = ("access", "lstat", "open", "readlink", "stat")

# Writes sets of two files into one folder until its time is over; says what went wrong.
RUNS = """
import sys, time
from pathlib import Path
from nicscope.errors import OutputError
from nicscope.outputs import temporary, whole_folder

if sys.argv[2] == "named":
    temporary._unnamed = lambda folder: None
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    try:
        with whole_folder(Path(sys.argv[1])) as folder:
            for name in ("counts.csv", "results.json"):
                with folder.file(name) as file:
                    file.write(b"x")
    except OutputError as error:
        print(error)
"""


def write(path, content=b"new"):
    with whole_file(path) as file:
        file.write(content)


def write_set(path, names=("counts.csv", "results.json")):
    with whole_folder(path) as folder:
        for name in names:
            with folder.file(name) as file:
                file.write(b"new")


class Replacing:
    """Replaces ``path`` by another whole file just before chosen calls that look at files."""

    def __init__(self, path, is_chosen):
        self.calls = 0
        self.replaced = []  # the old files and the new ones, held open
        self._path, self._is_chosen = path, is_chosen
        self._busy = False

    def patch(self, patched):
        for name in LOOKING:
            patched.setattr(os, name, self._after_replacing(getattr(os, name)))

    def _after_replacing(self, real):
        def call(*arguments, **keywords):
            if not self._busy:
                self._busy = True
                self.calls += 1
                if self._is_chosen(self.calls):
                    self._replace()
                self._busy = False
            return real(*arguments, **keywords)

        return call

    def _replace(self):
        self.replaced.append(self._path.open("rb"))
        another = self._path.with_name("another")
        another.write_bytes(b"whole")
        another.rename(self._path)
        self.replaced.append(self._path.open("rb"))

    def contents(self):
        """What they hold; closes them."""
        found = set()
        for each in self.replaced:
            with each:
                found.add(each.read())
        return found


@pytest.mark.parametrize("linked", [False, True])
def test_a_file_that_is_replaced_before_any_call_is_replaced_again_and_never_cut(
    tmp_path, monkeypatch, linked
):
    path = shown = tmp_path / "result"
    if linked:
        shown = tmp_path / "link"
        shown.symlink_to(path)
    turn = 0
    while True:
        turn += 1
        path.write_bytes(b"whole")
        replacing = Replacing(path, lambda call, turn=turn: call == turn)
        with monkeypatch.context() as patched:
            replacing.patch(patched)
            write(shown)
        assert path.read_bytes() == b"new"
        assert replacing.contents() <= {b"whole"}, f"before call {turn}"
        if not replacing.replaced:
            break
    assert turn > 5


def test_a_file_that_is_replaced_before_every_call_is_never_cut(tmp_path, monkeypatch):
    path = tmp_path / "result"
    path.write_bytes(b"whole")
    replacing = Replacing(path, lambda _: True)
    with monkeypatch.context() as patched:
        replacing.patch(patched)
        assert not target_of(path).is_stream
        write(path)

    assert path.read_bytes() == b"new"
    assert replacing.contents() == {b"whole"}


def test_a_file_of_another_process_that_has_no_name_is_written_where_it_is(tmp_path):
    with (tmp_path / "gone").open("w+b") as file:
        file.write(b"longer than what comes")
        file.flush()
        with subprocess.Popen(["sleep", "60"], stdout=file) as another:
            (tmp_path / "gone").unlink()
            write(f"/proc/{another.pid}/fd/1")
            another.kill()
        file.seek(0)

        assert file.read() == b"new"
    assert tree(tmp_path) == {}


def test_a_file_that_takes_the_place_of_a_stream_is_not_cut(tmp_path):
    path = tmp_path / "result"
    os.mkfifo(path)
    target = target_of(path)
    path.unlink()
    path.write_bytes(b"theirs")

    with pytest.raises(OutputError, match="result: has become another file meanwhile; try again"):
        target.open_stream()

    assert path.read_bytes() == b"theirs"


@pytest.mark.parametrize("writing", [write, lambda path: write_set(path.parent, [path.name])])
def test_a_file_that_is_moved_away_while_it_is_looked_at_is_not_called_read_only(
    tmp_path, monkeypatch, writing
):
    path = tmp_path / "results" / "counts.csv"
    path.parent.mkdir()
    path.write_bytes(b"old")
    real = os.access

    def gone(file, *arguments, **keywords):
        Path(file).unlink()
        return real(file, *arguments, **keywords)

    monkeypatch.setattr(os, "access", gone)

    writing(path)

    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["mkdir", "open"])
@pytest.mark.parametrize("there", [True, False])
def test_a_stage_that_another_run_clears_up_before_it_is_locked_is_made_again(
    tmp_path, monkeypatch, call, there
):
    path = tmp_path / "results"
    if there:
        write_set(path)
    real, cleared = getattr(os, call), []

    def clearing(name, *arguments, **keywords):
        returned = real(name, *arguments, **keywords)
        if not cleared and str(name).endswith(".part") and stat.S_ISDIR(os.lstat(name).st_mode):
            cleared.append(name)
            shutil.rmtree(name)
        return returned

    monkeypatch.setattr(os, call, clearing)

    write_set(path)

    assert cleared
    assert set(tree(path)) == {"counts.csv", "results.json"}
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_in_the_way_is_looked_for_while_no_other_set_moves_in(tmp_path, monkeypatch):
    """Or files would be missed that another run has moved away for the moment."""
    path = tmp_path / "results"
    write_set(path)
    looked, real = [], os.access

    def look(file, *arguments, **keywords):
        number = os.open(path, os.O_RDONLY)
        looked.append(temporaries.lock(number))
        os.close(number)
        return real(file, *arguments, **keywords)

    monkeypatch.setattr(os, "access", look)

    write_set(path)

    assert looked == [False, False]


@pytest.mark.parametrize("growing", ["nameless", "named"])
def test_runs_that_write_into_one_folder_at_once_all_succeed(tmp_path, growing):
    command = [sys.executable, "-c", RUNS, str(tmp_path / "results"), growing, "1"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(3)
    ]
    said = [each.communicate(timeout=60)[0] for each in runs]

    assert said == ["", "", ""]
    assert set(tree(tmp_path)) == {"results", "results/counts.csv", "results/results.json"}
