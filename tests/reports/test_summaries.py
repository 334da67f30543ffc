"""Summaries: sentences above the tables, and no number in them that the tables do not have."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import nicscope as ns
from nicscope.reports import size_summary, summaries
from nicscope.reports.table import Rows

NUMBER = re.compile(r"(?<![\w.-])<?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?![\w])")
# Of the wording: rates are per 100, and intervals and cycles are what they are called.
WORDS = {"100", "1"}
ANSWERING = {
    *("ReplayReport", "ShownCurves", "ShownSizes", "ShownSweep"),
    *("ShownTrace", "ShownProgram", "ShownFlow", "ShownLatencies", "ShownReproduction"),
}


@pytest.fixture(scope="module")
def shown(printed):
    """(command, report, its text) of every command."""
    return [(one.command, one.text, report) for one in printed for report in one.reports]


def below(report):
    """Numbers of everything below the summary: cells, headings, titles and paragraphs."""
    found = set()
    for part in report.parts():
        if isinstance(part, Rows):
            texts = [part.title, *part.headings, *(cell for cells in part.cells for cell in cells)]
        else:
            texts = [getattr(part, "plain", None) or getattr(part, "text", None) or str(part)]
        for text in texts:
            found |= set(NUMBER.findall(text))
    return found


def test_every_command_that_answers_a_question_does_so_in_words_first(shown):
    silent = {type(report).__name__ for _, _, report in shown if not report.summary()}
    told = {type(report).__name__ for _, _, report in shown if report.summary()}

    assert told >= ANSWERING
    assert not silent & ANSWERING


def test_a_summary_stands_above_the_first_table_and_is_a_few_sentences(shown):
    for command, text, report in shown:
        sentences = report.summary()
        if sentences:
            words, said = " ".join(text.split()), " ".join(" ".join(sentences).split())
            assert said in words, command
            if not report.is_headed:
                assert words.startswith(said)
            parts = list(report.printed())
            place = next(n for n, one in enumerate(parts) if said == " ".join(str(one).split()))
            assert not any(isinstance(one, Rows) for one in parts[:place]), command
            assert all(sentence.endswith(".") for sentence in sentences)
            assert len(sentences) <= 2 * summaries.MOST


def test_each_number_of_a_summary_is_one_of_what_stands_below(shown):
    checked = 0
    for command, _, report in shown:
        names = {Path(word).stem for word in command.split() if not word[:1].isdigit()}
        for sentence in report.summary():
            for name in sorted(names, key=len, reverse=True):
                sentence = sentence.replace(name, "")
            # The share that twice the memory saves is in no table; test_size_only works it out.
            sentence = re.sub(r"saves [\d.]+ %", "saves", sentence)
            numbers = set(NUMBER.findall(sentence)) - WORDS
            assert numbers <= below(report), (command, sentence, numbers - below(report))
            checked += len(numbers)
    assert checked > 40


def test_of_several_runs_each_sentence_says_which_it_is_of(shown):
    found = [report for _, _, report in shown if type(report).__name__ == "ShownProgram"]
    first, second = found[0].summary()
    assert first.startswith("In the first run, on pca200-linux, ")
    assert second.startswith("In the second run, on utlb-prototype, ")


def trace(*addresses):
    count = len(addresses)
    columns = {"time_ns": [0] * count, "node": [0] * count, "pid": [1] * count}
    columns |= {"op": ["send"] * count, "length": [1] * count}
    return pa.table(columns | {"address": list(addresses)})


def test_designs_that_miss_alike_are_called_neither_fewest_nor_most():
    alike = ns.replay(trace(4096), ["mini", "utlb"]).summary()[0]
    others = ns.replay(trace(4096), ["unet", "mini", "utlb"]).summary()[0]

    assert alike == "Of 100 lookups on the NIC every design misses 100.00."
    assert others.endswith("unet misses nothing; of the others each misses 100.00.")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (["4KiB", "2MiB"], "4 KiB pages: 1 miss, as with any other;"),
        (["4KiB"], "4 KiB pages: 1 miss; more than"),
    ],
)
def test_page_sizes_that_miss_alike_are_called_neither_fewer_nor_more(sizes, said):
    found = ns.size(trace(4096), "64KiB", page_size=sizes, only="page-sizes")

    assert found.summary()[0].startswith(said)


@pytest.mark.parametrize(
    ("misses", "said"),
    [
        ((2, 2, 3), "4 KiB pages: 2 misses, as with pages of 64 KiB;"),
        ((2, 3, 3), "4 KiB pages: 2 misses, fewer than the 3 of 64 KiB pages;"),
        ((3, 3, 2), "2 MiB pages: 3 misses with pages of 64 KiB become 2;"),
        ((2, 2, 2), "4 KiB pages: 2 misses, as with any other;"),
    ],
)
def test_the_best_page_size_is_compared_with_todays(misses, said):
    sizes = [
        SimpleNamespace(page_size=size, misses=count, enough=2, pinned_bytes=0)
        for size, count in zip((1 << 12, 1 << 16, 1 << 21), misses, strict=True)
    ]

    assert size_summary._of_pages(sizes, 1 << 16, 0).startswith(said)
