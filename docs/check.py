"""Whether what the documentation points to exists: files, headings, commands, options, targets.

    python docs/check.py

Reads every Markdown file of the repository; prints one line per mistake and exits with 1.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import typer

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
TARGET = re.compile(r"(?<!trace )\bmake ([a-z-]+)")


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def broken_links(path: Path, text: str) -> list[str]:
    found = []
    for link in LINK.findall(CODE.sub("", text)):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            found.append(f"no file {name!r}")
        elif anchor and anchor not in anchors(target.read_text()):
            found.append(f"no heading {anchor!r} in {target.name}")
    return found


def anchors(text: str) -> set[str]:
    """Headings as links name them: lower case, spaces to hyphens, without punctuation."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", text).lower(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().replace(" ", "-") for heading in headings}


def commands(text: str) -> list[str]:
    """Lines of code, in blocks or inline, that call nicscope; continued lines are joined."""
    lines = []
    for block in CODE.findall(text):
        lines += block.replace("\\\n", " ").splitlines()
    lines += INLINE.findall(CODE.sub("", text))
    lines = [line.strip().removeprefix("$ ") for line in lines]
    return [line for line in lines if line.startswith("nicscope ")]


def wrong_command(line: str, root: Any) -> str | None:
    """What ``line`` asks of the command line that is not there."""
    words = shlex.split(line, comments=True)[1:]
    command = root
    known = {"--help", "-h", *options(command)}
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        word = words.pop(0)
        if word not in command.commands:
            # A placeholder or prose, such as "nicscope VERB", is no command.
            return None if not word.islower() else f"no command {word!r} in {line!r}"
        command = command.commands[word]
        known |= options(command)
    for word in words:
        if word == "--":
            break
        option = word.strip("[].,").partition("=")[0].partition("|")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and option not in known:
            return f"no option {option!r} in {line!r}"
    return None


def options(command: Any) -> set[str]:
    return {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }


def wrong_targets(text: str) -> list[str]:
    code = "\n".join([*CODE.findall(text), *INLINE.findall(CODE.sub("", text))])
    known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return [f"no target {name!r}" for name in TARGET.findall(code) if name not in known]


def main() -> int:
    from nicscope.cli.app import app

    root = typer.main.get_command(app)
    mistakes = 0
    for path in documents():
        text = path.read_text()
        wrong = [*broken_links(path, text), *wrong_targets(text)]
        wrong += [found for line in commands(text) if (found := wrong_command(line, root))]
        for mistake in wrong:
            print(f"{path.relative_to(ROOT)}: {mistake}")
        mistakes += len(wrong)
    print(f"{len(documents())} documents, {mistakes} mistakes", file=sys.stderr)
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
