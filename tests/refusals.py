"""A refusal is held by what its message names, not by its sentence.

That is what was refused, where, and what would do instead: a value, a parameter, a file and line,
a limit, an alternative. Whoever words the sentence anew breaks no test.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from nicscope.cli.app import main
from nicscope.errors import StandingError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def refused(
    kind: type[BaseException] | tuple[type[BaseException], ...], *facts: object
) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Hold that the block ends in a ``kind`` of error whose message is one line with all facts.

    Only who tells where each program stands has a line for each of them.
    """
    with pytest.raises(kind) as told:
        yield told
    said = str(told.value)
    assert "\n" not in said or isinstance(told.value, StandingError), said
    assert_named(said, facts)


def refused_command(capsys: pytest.CaptureFixture[str], words: list[str], *facts: object) -> str:
    """The one line on stderr of a command that is refused: status 2, and nothing on stdout."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("nicscope: "), said.err
    assert said.err.count("\n") == 1, said.err
    assert_named(said.err, facts)
    return said.err


def assert_named(said: str, facts: tuple[object, ...]) -> None:
    """Hold that a message names each of the facts."""
    missing = [str(fact) for fact in facts if str(fact) not in said]
    assert not missing, f"{missing} not named: {said}"
