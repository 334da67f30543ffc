"""What ``--help`` says of each command can be read at any width, with an example to copy."""

import re

import pytest
import typer

from nicscope.cli.app import PANELS, app, main


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
def test_a_command_says_in_whole_paragraphs_what_it_and_its_parameters_are_with_examples(path):
    found = ALL[path]
    assert found.help
    assert "\n" not in found.help.replace("\n\n", "")  # as wide as the terminal
    assert [each.name for each in found.params if not each.help] == []
    assert "xample" in f"{found.help}{found.epilog}"
    if found.epilog:  # each example stands by itself and is of the command
        examples = re.findall(r"\[bold\](.+?)\[/bold\]", found.epilog.replace("\n\n", "|"))
        assert examples
        assert all(f"{each} ".startswith(f"{path} ") for each in examples)
        assert len(examples) == 1 + found.epilog.count("[/bold]\n\n[bold]")


GROUPS = ["nicscope", *(path for path, found in ALL.items() if hasattr(found, "list_commands"))]


@pytest.mark.parametrize("path", GROUPS)
def test_a_list_of_commands_has_a_line_for_each_at_80_columns(path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*path.split()[1:], "--help"]) == 0
    shown = re.findall(r"^\u2502 (\S*)", capsys.readouterr().out, re.MULTILINE)
    below = [each for each in ALL if each.rpartition(" ")[0] == path]
    listed = [name for name in shown if not name.startswith("-")]
    assert sorted(name for name in listed if name) == sorted(p.split()[-1] for p in below)
    assert "" not in shown[shown.index(listed[-len(below)]) :]  # no line goes on from another


def test_the_first_page_groups_every_command_by_what_one_comes_with():
    grouped = [name for names in PANELS.values() for name in names]
    assert sorted(grouped) == sorted(ROOT.commands)


@pytest.mark.parametrize("path", ["nicscope", *ALL])
def test_switches_have_no_type_and_repeated_arguments_one_row_of_dots(path, capsys):
    assert main([*path.split()[1:], "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "<bool>" not in shown
    assert "...}..." not in shown
