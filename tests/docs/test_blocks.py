"""Every code block of every page runs, and prints what the page says."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from blocks import BlockError, blocks, mistakes, pages, run  # noqa: E402

PAGES = pages()
MOST_THAT_DO_NOT_RUN = 25
FIRST_READ = {"README.md"}  # the gate runs it, but for its slow blocks


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) in FIRST_READ], ids=name)
def test_the_first_page_runs_and_prints_what_it_says(page):
    run(page)


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_all_blocks_of_a_page_run_and_print_what_it_says(page):
    run(page, slow=True)


def test_every_block_says_what_it_is():
    assert {name(page): mistakes(page) for page in PAGES if mistakes(page)} == {}


def test_few_blocks_do_not_run_and_each_says_why():
    still = [block for page in PAGES for block in blocks(page) if "not run" in block.remarks]
    assert len(still) <= MOST_THAT_DO_NOT_RUN
    assert all(len(block.remarks["not run"].split()) > 2 for block in still)


def page_with(tmp_path, monkeypatch, text):
    """A page beside this repository's, with that text."""
    monkeypatch.setattr("blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(2)\n```\n\n```output\n3\n```\n",
        "```python\nassert False\n```\n",
        "```console\n$ echo two\nthree\n```\n",
        "```console\n$ false\n```\n",
        "<!-- fails -->\n```console\n$ true\n```\n",
        "```toml\na = \n```\n",
    ],
)
def test_a_block_that_does_something_else_is_found(text, tmp_path, monkeypatch):
    page = page_with(tmp_path, monkeypatch, text)
    with pytest.raises((BlockError, AssertionError, ValueError)):
        run(page)


@pytest.mark.parametrize(
    "text",
    [
        "```\nno language\n```\n",
        "```text\n$ nicscope designs\n```\n",
        "```console\nnicscope designs\n```\n",
        "Text.\n\n    nicscope designs\n",
    ],
)
def test_a_block_that_would_not_run_is_found(text, tmp_path, monkeypatch):
    assert len(mistakes(page_with(tmp_path, monkeypatch, text))) == 1


def test_a_block_may_leave_lines_out_be_a_file_or_end_with_a_mistake(tmp_path, monkeypatch):
    page = page_with(
        tmp_path,
        monkeypatch,
        "<!-- setup: echo b > b.txt -->\n<!-- file: a.txt -->\n```python\nnot python\n```\n\n"
        "```console\n$ cat a.txt b.txt; echo last\nnot ...\n...\nlast\n```\n\n"
        "<!-- fails -->\n```console\n$ echo why >&2; exit 2\nwhy\n```\n\n"
        "<!-- not run: it would fail here -->\n```console\n$ false\n```\n",
    )
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    assert run(page) == 3
