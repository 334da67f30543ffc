"""What several commands' tests begin with: a person's program, and processes of Dask."""

from textwrap import dedent

import pytest


@pytest.fixture
def program(tmp_path):
    """Write a program, and have its path."""

    def write(text):
        path = tmp_path / "program.py"
        path.write_text(dedent(text))
        return str(path)

    return write


@pytest.fixture
def processes(tmp_path):
    """A scheduler of Dask, and workers as they are asked for."""
    from dask_processes import Processes

    folder = tmp_path / "dask"
    folder.mkdir()
    started = Processes(folder)
    yield started
    started.end()
