"""``python -m nicscope`` and the ``nicscope`` command."""

from __future__ import annotations

import sys

from nicscope.cli.streams import ENDINGS, exit_immediately


def run() -> int:
    """Run the command of this process; returns its exit status if it was not interrupted."""
    status = None
    if sys.argv[1:2] == ["record"]:  # a program waits for it to start
        from nicscope.cli.recording import run_usual

        status = run_usual(sys.argv[2:])
    if status is None:
        from nicscope.cli.app import main

        status = main()
    if status in ENDINGS:
        exit_immediately(status)
    return status


if __name__ == "__main__":
    raise SystemExit(run())
