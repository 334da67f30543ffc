"""Runs the code blocks of the pages, and compares what they print with what the page says.

    python docs/blocks.py [--slow] [PAGE.md]...  runs those pages' blocks, or all
    python docs/blocks.py --list                 the blocks that are not run, each with its reason
    python docs/blocks.py --write                puts files into the blocks that are to be the same

The blocks of a page run in order, in one folder of the page's own, Python's in one namespace:

    ```python      is run; an ```output block directly after it is what it printed
    ```console     each line that begins with "$ " is run by a shell, the lines below it are its
                   output (of one that fails, with its stderr); none: only that it ends well
    ```toml        is read
    ```text        is not code
    ```{...}       is a directive of the site's

"..." in an output stands for anything.  Comments directly before a block say more of it:

    <!-- file: NAME -->       is put into the folder under that name, and not run by itself
    <!-- same: PATH -->       is the text of that file of the repository, and not run by itself
    <!-- setup: COMMANDS -->  are run before it, unseen; $TRACES is the folder of the bundled traces
    <!-- fails -->            its commands end with a mistake, which the output shows
    <!-- slow: REASON -->     runs with ``--slow``, and in ``make test-long``
    <!-- not run: REASON -->  does not run
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
RUN = ("python", "console", "toml")
STILL = ("output", "text", "json", "markdown")  # are not code, or are somebody else's output
REMARK = re.compile(r"<!-- (file|same|setup|slow|not run|fails)(?:: (.+?))? -->")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n?", re.MULTILINE)
PROGRESS = re.compile(r"^nicscope: .* so far$\n", re.MULTILINE)  # on a busy machine
LONGEST_S = 600


class Block(NamedTuple):
    """A fenced block of a page, and what the comments before it say."""

    page: Path
    line: int  # of its first line of code, from 1
    language: str
    code: str
    remarks: dict[str, str]
    output: str | None  # what a block of Python prints, where the page says it

    @property
    def place(self) -> str:
        """Where it is."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def why_not(self, slow: bool) -> str | None:
        """Why it does not run, where slow ones do and where they do not."""
        return self.remarks.get("not run", None if slow else self.remarks.get("slow"))


class BlockError(Exception):
    """A block does not do what its page says."""


def pages() -> list[Path]:
    """Every page whose blocks run."""
    built = ROOT / "docs" / "_build"
    every = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(page for page in every if built not in page.parents)


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of ``page``, but for directives and what a block before them prints."""
    found: list[Block] = []
    remarks: dict[str, str] = {}
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "html_block":
            remarks |= dict(REMARK.findall(token.content))
        elif token.type == "fence" and token.map is not None:
            language = token.info.strip()
            if language == "output" and found and found[-1].language == "python":
                found[-1] = found[-1]._replace(output=token.content)
            elif not language.startswith("{"):
                block = Block(page, token.map[0] + 2, language, token.content, remarks, None)
                found.append(block)
            remarks = {}
        elif token.type == "code_block" and token.map is not None:
            found.append(Block(page, token.map[0] + 1, "", token.content, {}, None))
        elif token.nesting != -1:
            remarks = {}
    return found


def mistakes(page: Path) -> list[str]:
    """What is wrong with the blocks of ``page`` as they stand, without running them."""
    wrong = []
    for block in blocks(page):
        if block.language not in RUN + STILL:
            wrong.append(f"{block.place}: a block of {block.language or 'no language'}")
        elif block.language in STILL and re.search(r"^(\$|>>>) ", block.code, re.MULTILINE):
            wrong.append(f"{block.place}: commands in a block of {block.language}; use console")
        elif block.language == "console" and not block.code.startswith("$ "):
            wrong.append(f"{block.place}: a console block begins with '$ '")
    return wrong


def run(page: Path, *, slow: bool = False) -> int:
    """Run the blocks of ``page``, ``slow`` ones too if asked, and count them.

    Errors: ``BlockError`` says which one failed, and how.
    """
    space: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("examples").symlink_to(ROOT / "examples")
        for block in blocks(page):
            if block.why_not(slow) is not None or block.language not in RUN:
                continue
            count += 1
            if "setup" in block.remarks:
                _shell(block, block.remarks["setup"])
            if "same" in block.remarks:
                _compare(block, block.code, (ROOT / block.remarks["same"]).read_text())
            elif "file" in block.remarks:
                Path(block.remarks["file"]).write_text(block.code)
            elif block.language == "python":
                _run_python(block, space)
            elif block.language == "console":
                _run_commands(block)
            else:
                tomllib.loads(block.code)
    return count


def _run_python(block: Block, space: dict[str, Any]) -> None:
    """Run a block of Python; its lines are numbered as in the page."""
    code = compile("\n" * (block.line - 1) + block.code, str(block.page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, space)
    if block.output is not None:
        _compare(block, block.output, printed.getvalue())


def _run_commands(block: Block) -> None:
    """Run the commands of a console block, each in a shell of its own."""
    parts = COMMAND.split(block.code)
    for command, output in zip(parts[1::2], parts[2::2], strict=True):
        printed = _shell(block, command, fails="fails" in block.remarks)
        if output.strip():
            _compare(block, output, printed)


def _shell(block: Block, command: str, *, fails: bool = False) -> str:
    """What ``command`` prints; where it ``fails``, with what it said on stderr."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "100",
        "TRACES": str(ROOT / "src" / "nicscope" / "traces" / "bundled"),
    }
    ended = subprocess.run(
        ["bash", "-c", command],
        check=False,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        env=os.environ | environment,
    )
    if (ended.returncode != 0) != fails:
        said = f"{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        raise BlockError(f"{block.place}: {command}: status {ended.returncode}\n{said}")
    return ended.stdout + (PROGRESS.sub("", ended.stderr) if fails else "")


def _compare(block: Block, said: str, printed: str) -> None:
    """Refuse a block that printed something else than the page says."""
    want, got = (
        "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
        for text in (said, printed)
    )
    # Numbers and bars may be at the begin of a line, so an indentation is part of what is said.
    if not doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS):
        raise BlockError(f"{block.place}: the page says\n{want}\nand it printed\n{got}")


def write(page: Path) -> None:
    """Put into each block of ``page`` that is to be a file's text what the file has now."""
    lines = page.read_text().splitlines(keepends=True)
    for block in reversed(blocks(page)):
        if "same" in block.remarks:
            begin = block.line - 1
            end = begin + block.code.count("\n")
            lines[begin:end] = (ROOT / block.remarks["same"]).read_text().splitlines(keepends=True)
    page.write_text("".join(lines))


def main(arguments: list[str]) -> int:
    """Run the blocks of the pages that are named, or of all; or list those that are not run."""
    if arguments == ["--list"]:
        for page in pages():
            for block in blocks(page):
                why = block.remarks.get("not run") or block.remarks.get("slow")
                if why is not None:
                    print(f"{block.place}: {why}")
        return 0
    if arguments == ["--write"]:
        for page in pages():
            write(page)
        return 0
    failed = 0
    slow = "--slow" in arguments
    named = [Path(name).resolve() for name in arguments if name != "--slow"]
    for page in named or pages():
        try:
            count = run(page, slow=slow)
        except Exception as wrong:  # of a program on a page anything may be raised
            print(f"{page.relative_to(ROOT)}: {type(wrong).__name__}: {wrong}")
            failed += 1
        else:
            print(f"{page.relative_to(ROOT)}: {count} blocks ran", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
