"""A command line that is wrong is one line that says what of it, and what to write instead."""

from __future__ import annotations

import pytest

from nicscope.cli.app import main

WRONG = {
    "an unknown command": ("rplay T", "no command 'rplay' of 'nicscope'; did you mean 'replay'?"),
    "the word help": ("help", "no command 'help'; see 'nicscope --help'"),
    "a design for a command": (
        "designs utlb",
        "no command 'utlb' of 'nicscope designs'; to see one: nicscope designs show utlb",
    ),
    "no argument": (
        "replay",
        "TRACE is missing; write it as in: nicscope replay bundled:redis_server",
    ),
    "no required option": (
        "designs new",
        "--from is missing; write it as in: nicscope designs new --from utlb > mine.toml",
    ),
    "an argument too many": (
        "replay T more",
        "'more' is one argument too many; see 'nicscope replay --help'",
    ),
    "a setting in two words": (
        "replay T --set entries 64",
        "--set entries 64: write it as --set entries=64",
    ),
    "an option before the command": (
        "--json replay T",
        "--json goes behind the command: nicscope COMMAND --json",
    ),
    "a misspelt option": (
        "replay T --desing utlb",
        "no option '--desing' of 'nicscope replay'; did you mean '--design'?",
    ),
    "a letter": ("replay T -o R", "no option '-o' of 'nicscope replay'; did you mean '--out'?"),
    "an option of another command": (
        "replay T --fault-bytes request",
        "no option '--fault-bytes' of 'nicscope replay'; 'nicscope odp' has it",
    ),
    "an option of two others": (
        "sweep T --inline 8",
        "no option '--inline' of 'nicscope sweep'; 'nicscope verbs bw' and 'nicscope verbs lat' "
        "have it",
    ),
    "bytes twice": (
        "register 1TiB --bytes 1TiB",
        "BYTES and --bytes are the same; leave one of them out",
    ),
    "a setting as an option": (
        "replay T --entries 64",
        "no option '--entries'; a setting of a design is given by --set entries=VALUE",
    ),
    "a fraction": ("flow --count 2.5", "--count must be a whole number, got '2.5'"),
    "a unit": ("size T --nic-memory 1M --target-us 2us", "--target-us must be a number, got '2us'"),
    "too little": ("simulate T --requests 0", "--requests must be at least 1, got 0"),
    "too much": ("simulate T --window 65", "--window must be at most 64, got 65"),
    "no value": ("flow --count", "--count needs a value"),
    "a value of a switch": ("flow --json=yes", "--json takes no value"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_command_line_is_told_with_what_to_write(what, capsys):
    line, said = WRONG[what]
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"nicscope: {said}\n")
