"""The tables in ``docs/papers.md``: what comes out here of each paper, asked of ``reproduce``.

    python docs/papers.py                       prints them, after minutes
    python docs/papers.py --write               puts them into docs/papers.md
    python docs/papers.py --write --programs    runs parallel programs first: six minutes
    python docs/papers.py --write --programs mini    the same of one paper

What came of the programs is kept in ``docs/papers_programs.json``.  Their part of the page is made
from that, so that labels, causes and words of the catalog come to the page without running them
again.  Tests hold the page against both, and what is kept against the programs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.library.progress import progress
from nicscope.reports.reproduction import name_of, off_by, verdict
from nicscope.studies.reproduce.harness import choose, load_papers, reproduce, study
from nicscope.studies.reproduce.keeping import kept_beside
from nicscope.studies.reproduce.traced.measuring import expected_of_programs
from nicscope.studies.reproduce.traced.programs import PAPER, SMALL, WORKLOADS
from nicscope.studies.reproduce.verdict import (
    Basis,
    Cause,
    Outcome,
    Reproduction,
    Shape,
    load_known,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from nicscope.studies.reproduce.verdict import Known, KnownMiss, Paper, Point

PAGE = Path(__file__).parent / "papers.md"
BEGIN, END = "<!-- made by docs/papers.py: {} -->", "<!-- end of what docs/papers.py made: {} -->"
KEPT = Path(__file__).parent / "papers_programs.json"  # by paper, sizes and item: an ``Outcome``
OVERVIEW = "known misses"  # of all papers
COMMAND = "nicscope reproduce {}/{}"
NOT_RUN = "not run for this page"


def tables(paper: Paper, found: Reproduction) -> list[str]:
    """All that stands between the two marks of ``paper``, of what was found of it."""
    return [
        *_came_out(paper, found, ""),
        *misses([(found, load_known(paper.key))]),
        "What is missing:",
        "",
        *(f"* `{paper.key}/{name}`: {why}" for name, why in missing(paper)),
    ]


def tables_of_programs(paper: Paper, kept: Mapping[str, Any]) -> list[str]:
    """The same of its parallel programs: ``kept`` has what came of them, by their sizes.

    What is known to miss of programs that are not kept stands there too, as not run.
    """
    judgements = [
        (judged(paper, one, kept.get(one, {})), load_known(paper.key, one))
        for one in (PAPER, SMALL)
    ]
    large, small = ({(one.id, name_of(one)) for one in found.misses()} for found, _ in judgements)
    alone = ", ".join(f"`{name}` of {item}" for item, name in sorted(small - large))
    ran = {*kept.get(PAPER, {})}
    not_run = [
        [f"{item}, `{name}`", printed_of(paper, item, name), NOT_RUN, why.short or "", *_told(why)]
        for (item, name), why in judgements[0][1].items()
        if paper.items[item].study is not None and item not in ran
    ]
    return [
        *_came_out(paper, judgements[0][0], f" --programs {PAPER}"),
        *misses(judgements, not_run),
        *([f"At reduced sizes alone misses {alone}."] if alone else []),
    ]


def printed_of(paper: Paper, item: str, name: str) -> str:
    """What the paper prints of a number, or has in words."""
    statements = {one.id: one.statement for one in paper.items[item].shapes}
    if name in statements:
        return statements[name]
    points = paper.items[item].expected_points() or expected_of_programs(paper, item)
    return next(f"{float(one.published):g}" for one in points if one.quantity == name)


def _came_out(paper: Paper, found: Reproduction, options: str) -> list[str]:
    heads = ["item", "where", "predicted", "fitted", "identity", "ok", "statements"]
    return [
        *table(heads, items(paper, found, options)),
        *table(
            ["predicted number", "printed", "ours", "error", "baseline", "its error", ""],
            [_number(point) for point in found.points if point.basis is Basis.PREDICTED],
        ),
        *table(
            ["predicted statement", "what shows it", ""],
            [_statement(shape) for shape in found.shapes if shape.basis is Basis.PREDICTED],
        ),
        *table(["other numbers", "label", "ok", "printed", "ours", "worst error"], others(found)),
    ]


def judged(paper: Paper, programs: str, kept: Mapping[str, Any]) -> Reproduction:
    """Verdicts of today's catalog on what came of the programs of these sizes.

    Errors: ``RuntimeError`` if what is kept answers other numbers or statements than it asks for.
    """
    result = Reproduction()
    known = load_known(paper.key, programs)
    for name in (one for one in paper.items if one in kept):
        points = expected_of_programs(paper, name) if programs == PAPER else []
        shapes = [
            one for one in paper.items[name].shapes if programs == PAPER or not one.at_paper_size
        ]
        result.judge(paper.key, name, points, shapes, Outcome.of_json(kept[name]), known)
    return result


def run(key: str, programs: str) -> dict[str, Any]:
    """What comes of the programs of that paper at these sizes, by item: minutes.

    A run that was killed goes on where it was.
    """
    found = Reproduction()
    with kept_beside(KEPT) as before:
        study(found, [key], telling=progress, kept=before, programs=programs)
    outcomes: dict[str, Outcome] = {}
    for point in found.points:
        name, _, unit = point.quantity.rpartition(" ")
        outcomes.setdefault(point.id, Outcome()).point(name, unit, point.reproduced)
    for shape in found.shapes:
        outcomes.setdefault(shape.id, Outcome()).shape(shape.name, shape.ok, shape.evidence)
    return {name: outcome.to_json() for name, outcome in outcomes.items()}


def overview() -> list[str]:
    """How many misses the catalog lists of each paper, and whose they are."""
    rows = []
    for key, paper in load_papers().items():
        at_paper = load_known(key) | load_known(key, PAPER)
        causes = [one.cause for one in at_paper.values()]
        of_programs = sum(paper.items[name].study is not None for name, _ in at_paper)
        rows.append(
            [
                len(at_paper),
                *(causes.count(cause) for cause in (*Cause, None)),
                of_programs,
                len(load_known(key, SMALL).keys() - at_paper.keys()),
            ]
        )
    rows.append([sum(column) for column in zip(*rows, strict=True)])
    heads = ["", "known misses", *(f"the {cause}'s" for cause in Cause), "nobody's yet"]
    heads += ["of all, of programs", "beside them, at reduced sizes alone"]
    names = [*(paper.title for paper in load_papers().values()), "all"]
    return table(heads, [[name, *map(str, row)] for name, row in zip(names, rows, strict=True)])


def misses(
    judgements: Sequence[tuple[Reproduction, Known]], not_run: Sequence[list[str]] = ()
) -> list[str]:
    """Each number and statement that misses: whose it is, why, and what would mend it.

    What misses in several of ``judgements``, each with what is known of it, stands here once;
    ``not_run``: rows of what is known of others.
    """
    listed: dict[tuple[str, str], list[str]] = {}
    for found, known in judgements:
        for one in found.misses():
            why = known.get((one.id, name_of(one))) if one.known_miss is not None else None
            if isinstance(one, Shape):
                cells = [one.statement, one.evidence, "" if why is None else why.short or ""]
            else:
                ours, error = f"{one.reproduced:.4g}", one.relative_error
                off = off_by(one) if error is None else f"{100 * error:+.1f} %"
                cells = [f"{one.published:g}", ours, off]
            row = [f"{one.id}, `{name_of(one)}`", *cells, *_told(why)]
            listed.setdefault((one.id, name_of(one)), row)
    heads = ["what misses", "printed", "ours", "error", "whose", "why", "what would mend it"]
    return table(heads, [*listed.values(), *not_run])


def _told(miss: KnownMiss | None) -> list[str]:
    if miss is None:
        return ["", "not listed", ""]
    return [miss.cause or "", miss.why, miss.mend or ""]


def others(found: Reproduction) -> Iterator[list[str]]:
    """Of each quantity that is not predicted: from where to where, and how far off at most."""
    groups: dict[tuple[str, str, Basis], list[Point]] = {}
    for point in found.points:
        if point.basis is not Basis.PREDICTED:
            groups.setdefault(_quantity(point), []).append(point)
    for (item, quantity, basis), points in groups.items():
        errors = [abs(one.relative_error) for one in points if one.relative_error is not None]
        yield [
            f"{item}: {quantity}",
            basis.value,
            f"{sum(one.ok for one in points)} of {len(points)}",
            _range([one.published for one in points]),
            _range([one.reproduced for one in points]),
            f"{100 * max(errors):.1f} %" if errors else "",
        ]


def _quantity(point: Point) -> tuple[str, str, Basis]:
    """Its item, its name and unit without its place, and its label."""
    name, _, rest = point.quantity.partition("[")
    return point.id, f"{name} {rest.rpartition(']')[2].strip()}".strip(), point.basis


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"


def items(paper: Paper, found: Reproduction, options: str) -> Iterator[list[str]]:
    """Of each item that was reproduced: how many numbers of each label, and how many hold."""
    for name, item in paper.items.items():
        points = [point for point in found.points if point.id == name]
        shapes = [shape for shape in found.shapes if shape.id == name]
        if points or shapes:
            labels = [point.basis for point in points]
            counts = [labels.count(basis) for basis in Basis]
            right = [sum(one.ok for one in checks) for checks in (points, shapes)]
            yield [
                f"`{COMMAND.format(paper.key, name)}{options}`",
                item.where,
                *(str(count or "") for count in counts),
                f"{right[0]} of {len(points)}" if points else "",
                f"{right[1]} of {len(shapes)}" if shapes else "",
            ]


def missing(paper: Paper) -> Iterator[tuple[str, str]]:
    """Of each item what is not reproduced, and why, or why what comes out has no verdict."""
    for name, item in paper.items.items():
        # A study whose cells are printed has its verdicts from the paper's programs.
        has_cells = item.cells or item.tolerance is not None
        for why in (item.missing, None if has_cells else item.study):
            if why is not None:
                yield name, why


def table(heads: Sequence[str], rows: Iterator[list[str]] | list[list[str]]) -> list[str]:
    """The rows in Markdown, below their heads; nothing if there are none."""
    lines = [f"| {' | '.join(one.replace('|', '/') for one in row)} |" for row in rows]
    if not lines:
        return []
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines, ""]


def _number(point: Point) -> list[str]:
    errors = (point.relative_error, point.baseline_error)
    ours, theirs = ("" if error is None else f"{100 * error:+.1f} %" for error in errors)
    baseline = "" if point.baseline is None else f"{point.baseline:.4g}"
    return [
        f"{point.id}: {point.quantity}",
        f"{point.published:g}",
        f"{point.reproduced:.4g}",
        ours,
        baseline,
        theirs,
        verdict(point),
    ]


def _statement(shape: Shape) -> list[str]:
    return [f"{shape.id}: {shape.statement}", shape.evidence, verdict(shape)]


def between_marks(page: str, part: str) -> str:
    """What the page has between the marks of ``part``."""
    begin, end = BEGIN.format(part), END.format(part)
    return page.split(begin)[1].split(end)[0].strip()


def programs_part(key: str) -> str:
    """What the marks around the programs of that paper say."""
    return f"{key}, its programs"


def main() -> None:
    """Print the tables, or write them."""
    papers = load_papers()
    parser = argparse.ArgumentParser(description="The tables in docs/papers.md")
    parser.add_argument("papers", nargs="*", help="by default all")
    parser.add_argument("--write", action="store_true", help="put them into the page")
    parser.add_argument("--programs", action="store_true", help="run the parallel programs anew")
    asked = parser.parse_args()
    kept = json.loads(KEPT.read_text())
    made = {OVERVIEW: overview()}
    for key in dict.fromkeys(paper for paper, _ in choose(papers, asked.papers)):
        if key in WORKLOADS:
            if asked.programs:
                kept[key] = {programs: run(key, programs) for programs in (PAPER, SMALL)}
                KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
            made[programs_part(key)] = tables_of_programs(papers[key], kept[key])
        made[key] = tables(papers[key], reproduce([key]))
    page = PAGE.read_text()
    for part, lines in made.items():
        text = "\n".join(lines).strip()
        if not asked.write:
            print(text)
            continue
        before, rest = page.split(BEGIN.format(part))
        _, after = rest.split(END.format(part))
        page = f"{before}{BEGIN.format(part)}\n\n{text}\n\n{END.format(part)}{after}"
    if asked.write:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
