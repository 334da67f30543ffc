"""How programs of several nodes are named on a command line."""

from __future__ import annotations

from typing import Any

import typer
import typer.core

OPTION = "--node"


class RunCommand(typer.core.TyperCommand):
    """A command whose ``--node`` takes two words: a number, and a program with its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Have each be one word, as an option that may be repeated takes."""
        joined: list[str] = []
        left = [*args]
        while left:
            word = left.pop(0)
            joined.append(word)
            if word == OPTION and len(left) > 1 and left[0].isdecimal():
                joined.append(f"{left.pop(0)} {left.pop(0)}")
        return super().parse_args(ctx, joined)


def nodes_of(given: list[str]) -> dict[int, str]:
    """What runs on which node.  Errors: ``BadParameter`` for no number, or one given twice."""
    found: dict[int, str] = {}
    for each in given:
        number, _, command = each.partition(" ")
        if not number.isdecimal() or not command.strip():
            raise typer.BadParameter(
                f'{each!r} is no node and its program, as in --node 1 "client.py 10.0.0.1"'
            )
        if int(number) in found:
            raise typer.BadParameter(f"node {int(number)} has two programs; give it one")
        found[int(number)] = command
    return found
