"""Help texts, and messages about wrong command lines.

A wrong one is one line that says what of it, and what to write.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

import typer.core

from nicscope.cli.streams import Interrupted
from nicscope.errors import did_you_mean, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

_EXAMPLE = re.compile(r"(?:\[bold\]|Example: )(nicscope .+?)(?:\[/bold\]|$)", re.M)
_NUMBERS = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "finite_number": "a number",
}
FEW = 3  # commands that have an option, to be named
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


class Commands(typer.core.TyperGroup):
    """A command group with readable help."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, its help in paragraphs as wide as the terminal, not as the source."""
        found = super().get_command(ctx, cmd_name)
        if found is None:
            return None
        if found.help:
            found.help = "\n\n".join(" ".join(each.split()) for each in found.help.split("\n\n"))
        _plain_switches([*found.params, found.get_help_option(ctx)])
        return found

    def get_params(self, ctx: Any) -> Any:
        """The options of the group itself."""
        found = super().get_params(ctx)
        _plain_switches(found)
        return found


class Root(Commands):
    """The commands below ``nicscope``."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; Ctrl-C is told from other ends."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted from interrupt


def _plain_switches(params: Iterable[Any]) -> None:
    """Show switches without a type, and repeatable arguments with a single ellipsis."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
        elif param.nargs < 0 and param.metavar:
            param.metavar = param.metavar.removesuffix("...")


def told(error: Any) -> str:
    """A one-line message for Click's error; empty if help was asked for and is shown.

    Its classes are told by what they have, as Typer keeps a Click of its own.
    """
    if not error.format_message():
        return ""
    if getattr(error, "option_name", None) and hasattr(error, "possibilities"):
        return one_line(_no_such_option(error.option_name, error.ctx))
    if getattr(error, "option_name", None):
        return one_line(_needs_or_takes_none(error))
    if hasattr(error, "param_type"):
        return one_line(f"{_called(error.param)} is missing; {_as_in(error.ctx)}")
    if getattr(error, "param", None) is not None:
        return one_line(_bad_value(error))
    said = error.format_message()
    if extra := re.fullmatch(r"Got unexpected extra argument\(s\) \((.*)\)", said, re.S):
        return one_line(_too_much(extra[1], error.ctx))
    if unknown := re.match(r"No such command (['\"])(.*)\1\.", said, re.S):
        return one_line(_no_such_command(unknown[2], error.ctx))
    return one_line(said)


def _no_such_option(name: str, context: Any) -> str:
    path = context.command_path
    below = getattr(context.command, "commands", None)
    if below and any(name in _options(each) for each in below.values()):
        return f"{name} goes behind the command: {path} COMMAND {name}"
    setting = name.lstrip("-").replace("-", "_")
    from nicscope.config.design import SETTINGS

    params = context.command.params
    takes_settings = any("--set" in one.opts and one.metavar == "KEY=VALUE" for one in params)
    if takes_settings and setting in SETTINGS:
        return f"no option {name!r}; a setting of a design is given by --set {setting}=VALUE"
    known = _options(context.command)
    if elsewhere := _commands_with_option(name, context):
        return f"no option {name!r} of {path!r}; {elsewhere}"
    near = difflib.get_close_matches(name, known, n=1) or _beginning(name, known)
    hint = f"did you mean {near[0]!r}?" if near else f"see '{path} --help'"
    return f"no option {name!r} of '{path}'; {hint}"


def _commands_with_option(name: str, context: Any) -> str:
    """The commands that have the option; empty if none or nearly all have it."""
    root = context.find_root()
    found = [path for path, one in _all_commands(root.command_path, root.command) if name in one]
    named = " and ".join(repr(path) for path in found)
    return f"{named} {'has' if len(found) == 1 else 'have'} it" if 0 < len(found) <= FEW else ""


def _all_commands(path: str, command: Any) -> Iterable[tuple[str, list[str]]]:
    """Each command below ``command``, and its options."""
    for name, below in getattr(command, "commands", {}).items():
        yield f"{path} {name}", _options(below)
        yield from _all_commands(f"{path} {name}", below)


def _needs_or_takes_none(error: Any) -> str:
    name, said = error.option_name, error.format_message()
    words = {"requires an argument": "needs a value", "does not take a value": "takes no value"}
    wrong = next((ours for theirs, ours in words.items() if theirs in said), said)
    return f"{name} {wrong}"


def _beginning(name: str, known: Iterable[str]) -> list[str]:
    """Of a single letter, the options that begin with it."""
    return [each for each in known if len(name) == 2 and each.startswith(f"-{name}")]


def _called(param: Any) -> str:
    """The option's name, or the argument's metavar."""
    if param.param_type_name == "option":
        return str(max(param.opts, key=len))
    return str(param.metavar or param.name).removesuffix("...").removeprefix("-- ")


def _bad_value(error: Any) -> str:
    """A message for an invalid value, without Click's type names."""
    name = _called(error.param)
    is_checked = hasattr(error.__cause__, "errors")
    problem = next(iter(error.__cause__.errors()), None) if is_checked else None
    if problem is not None and problem["type"] in _NUMBERS:
        return f"{name} must be {_NUMBERS[problem['type']]}, got {problem['input']!r}"
    if problem is not None and problem["type"] in _BOUNDS:
        words, key = _BOUNDS[problem["type"]]
        return f"{name} must be {words} {problem['ctx'][key]}, got {problem['input']}"
    return f"{name}: {error.message}"


def _too_much(extra: str, context: Any) -> str:
    for assignment in context.params.get("assignments") or ():
        if "=" not in assignment:
            return f"--set {assignment} {extra}: write it as --set {assignment}={extra.split()[0]}"
    word = extra if " " not in extra else extra.split()[0]
    return f"{word!r} is one argument too many; see '{context.command_path} --help'"


def _no_such_command(name: str, context: Any) -> str:
    path, known = context.command_path, list(context.command.commands)
    if name == "help":
        return f"no command 'help'; see '{path} --help'"
    if "show" in known and not difflib.get_close_matches(name, known, n=1):
        return f"no command {name!r} of '{path}'; to see one: {path} show {name}"
    every = _all_commands(path, context.command)
    below = [found for found, _ in every if found.split()[-1] == name]
    if below:
        return f"no command {name!r} of '{path}'; there is {below[0]!r}"
    return f"no command {name!r} of '{path}'{did_you_mean(name, known)}"


def _as_in(context: Any) -> str:
    """The command's first example, or how to get its usage."""
    command = context.command
    found = _EXAMPLE.search(f"{command.epilog or ''}\n{command.help or ''}")
    return f"write it as in: {found[1]}" if found else f"see '{context.command_path} --help'"


def _options(command: Any) -> list[str]:
    return [name for param in command.params for name in param.opts if name.startswith("--")]
