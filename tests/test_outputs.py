"""Results are whole or not there."""

from __future__ import annotations

import errno
import os

import pytest

from nicscope.errors import OutputError
from nicscope.outputs import output_folder, whole_file


def break_off(target, error):
    with whole_file(target) as part:
        part.write_text("ha")
        raise error


def test_a_file_appears_when_its_block_ends_well(tmp_path):
    target = tmp_path / "result"
    with whole_file(target) as part:
        part.write_text("whole")
        assert not target.exists()

    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    target = tmp_path / "result"
    target.write_text("old")
    with pytest.raises(failure):
        break_off(target, failure())

    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    target = tmp_path / "result"
    with pytest.raises(OutputError, match="result: cannot be written: No space left on device"):
        break_off(target, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_found_only_on_the_way_to_the_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OutputError, match="No space left on device"),
        whole_file(tmp_path / "result") as part,
    ):
        part.write_text("whole")

    assert list(tmp_path.iterdir()) == []


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "result") as part:
            part.touch()
    finally:
        os.umask(before)

    assert (tmp_path / "result").stat().st_mode & 0o777 == 0o640


def test_a_folder_cannot_be_replaced_by_a_file(tmp_path):
    with pytest.raises(OutputError, match="is a folder; name a file"), whole_file(tmp_path):
        pytest.fail("the block must not be entered")


def test_a_file_in_no_folder_cannot_be_written(tmp_path):
    with (
        pytest.raises(OutputError, match="nowhere/result: cannot be written: No such file"),
        whole_file(tmp_path / "nowhere" / "result"),
    ):
        pytest.fail("the block must not be entered")


def test_an_output_folder_is_made_with_its_parents(tmp_path):
    folder = tmp_path / "a" / "b"

    assert output_folder(folder) == folder
    assert list(folder.iterdir()) == []


def test_an_output_folder_that_exists_keeps_what_it_holds(tmp_path):
    (tmp_path / "kept").touch()

    assert output_folder(tmp_path) == tmp_path
    assert (tmp_path / "kept").exists()


def test_a_file_is_no_output_folder(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OutputError, match="file: exists and is not a folder; name a folder"):
        output_folder(file)


def test_an_output_folder_below_a_file_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written: Not a directory"):
        output_folder(tmp_path / "file" / "below")
