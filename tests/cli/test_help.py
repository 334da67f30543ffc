"""What ``--help`` says of each command can be read at any width, with an example to copy."""

from __future__ import annotations

import re

import pytest
import typer

from nicscope.cli.app import app, main


def commands(group, context):
    """Every command below ``group``, with its words."""
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        inner = typer.Context(found, info_name=name, parent=context)
        yield inner.command_path, found
        if hasattr(found, "list_commands"):
            yield from commands(found, inner)


ROOT = typer.main.get_command(app)
ALL = dict(commands(ROOT, typer.Context(ROOT, info_name="nicscope")))


@pytest.mark.parametrize("path", ALL)
def test_paragraphs_are_as_wide_as_the_terminal(path):
    assert ALL[path].help
    assert "\n" not in ALL[path].help.replace("\n\n", "")


@pytest.mark.parametrize("path", [path for path, each in ALL.items() if each.epilog])
def test_each_example_stands_by_itself_and_is_of_the_command(path):
    examples = re.findall(r"\[bold\](.+?)\[/bold\]", ALL[path].epilog.replace("\n\n", "|"))
    assert examples
    assert all(f"{each} ".startswith(f"{path} ") for each in examples)
    assert len(examples) == 1 + ALL[path].epilog.count("[/bold]\n\n[bold]")


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_an_example(path):
    found = ALL[path]
    assert "xample" in f"{found.help}{found.epilog}"


@pytest.mark.parametrize("path", ALL)
def test_every_argument_and_option_says_what_it_is(path):
    assert [each.name for each in ALL[path].params if not each.help] == []


@pytest.mark.parametrize("path", ["nicscope", *ALL])
def test_switches_have_no_type_and_repeated_arguments_one_row_of_dots(path, capsys):
    assert main([*path.split()[1:], "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "<bool>" not in shown
    assert "...}..." not in shown
