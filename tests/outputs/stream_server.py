"""Runs command lines in forked children whose standard streams are as told; imports once.

Each line on standard input is a JSON object: ``words``, and what ``out`` and ``err`` are: a path
to write, ``closed``, or ``gone`` for a pipe that nobody reads; and their ``encoding``.  The line
that answers is the child's exit status.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import sys
from pathlib import Path
from unittest import mock

import pytest
import typer.main
from quickly import Commands

from nicscope.cli.app import main


def lay(number: int, what: str) -> None:
    """Make the descriptor ``number`` be ``what``."""
    os.close(number)
    if what == "closed":
        return
    if what == "gone":
        read, opened = os.pipe()
        os.close(read)
    else:
        opened = os.open(what, os.O_WRONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def stream(number: int, encoding: str, what: str):
    """What the interpreter makes of it when it starts."""
    if what == "closed":
        return None
    errors = "backslashreplace" if number == 2 else "strict"
    return open(number, "w", encoding=encoding, errors=errors, closefd=False)


def child(order: dict) -> int:
    for number, name in ((1, "out"), (2, "err")):
        lay(number, order[name])
    out, err = (
        stream(number, order["encoding"], order[name]) for number, name in ((1, "out"), (2, "err"))
    )
    with mock.patch.multiple(sys, stdout=out, __stdout__=out, stderr=err, __stderr__=err):
        status = main(order["words"])
        for each in (out, err):  # as the interpreter does when it ends
            try:
                if each is not None:
                    each.flush()
            except OSError:
                return 120
    return status


def serve(inputs: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Building the commands takes more time than most of them do.
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        quick = Commands(inputs, patch)
        warm: set[str] = set()
        for line in sys.stdin:
            order = json.loads(line)
            words = " ".join(order["words"])
            quick.name(words)
            if words not in warm:
                warm.add(words)
                with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                    main([word if word != "-" else os.devnull for word in order["words"]])
            process = os.fork()
            if not process:
                status = 99
                try:
                    status = child(order)
                finally:
                    os._exit(status)
            print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
