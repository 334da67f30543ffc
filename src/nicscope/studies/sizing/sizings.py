"""The best design of every family for each of some traces: what ``nicscope size`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope import __version__
from nicscope.errors import StudyError, printable
from nicscope.jit import package_stamp
from nicscope.studies.sizing.answer import answer
from nicscope.studies.sizing.family import families
from nicscope.studies.sizing.page_sizes import in_page_sizes
from nicscope.studies.sizing.passes import Passes
from nicscope.studies.sizing.result import Sizing, SizingReport
from nicscope.studies.sizing.search import explore
from nicscope.studies.sizing.shapes import LINES, Room, most_entries
from nicscope.studies.sizing.survey import extent, grids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.sizing.question import Question
    from nicscope.studies.sizing.search import Family
    from nicscope.traces.reader import Trace


def report(
    traces: Sequence[tuple[str, Trace]],
    question: Question,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> SizingReport:
    """Sizings of ``traces``, each under the name by which ``nicscope replay`` finds it.

    ``command`` is passed on, for whoever wants to do it again; ``watch`` is told how many rows
    were replayed of those that are known to be needed.  Errors: ``TraceError`` at the first row
    that the schema does not allow, ``StudyError`` if nothing fits the budgets.
    """
    passes = Passes(watch)
    return SizingReport(
        question=question,
        traces=[
            {
                "name": name,
                "file": trace.name,
                "requests": trace.rows,
                "page_size": trace.metadata.page_size,
                "origin": trace.metadata.origin,
            }
            for name, trace in traces
        ],
        sizings=[size(name, trace, question, passes) for name, trace in traces],
        repeat={
            "command": list(map(printable, command)),
            "version": __version__,
            "source": package_stamp(),
        },
    )


def size(name: str, trace: Trace, question: Question, passes: Passes | None = None) -> Sizing:
    """``trace``, which ``nicscope replay`` finds as ``name``, sized.

    Errors: as ``report``.
    """
    passes = passes or Passes()
    page_size = trace.metadata.page_size
    touched = extent(passes.through(trace), page_size)
    most = most_entries(touched)
    budget = question.nic_bytes
    room = Room(
        budgets=(budget // 2, budget, 2 * budget),
        pin_pages=None if question.pin_bytes is None else question.pin_bytes // page_size,
        page_size=page_size,
        extent=touched,
        every_size=question.target_us is not None,
        grids=grids(passes.through(trace), page_size, LINES, most),
    )
    if room.pin_pages == 0:
        raise StudyError(
            f"--pin-memory {question.pin_bytes}B is less than one page of {page_size} bytes"
        )
    found = explore(
        trace,
        families(question.platform),
        room,
        question,
        passes,
        lambda found: _check_that_something_fits(name, found, question),
    )
    answers = [answer(name, family.subject, family.steps, question) for family in found]
    return Sizing(
        trace=name,
        page_size=page_size,
        extent=touched,
        answers=answers,
        page_sizes=in_page_sizes(name, trace, question, passes) if question.page_sizes else [],
        replayed=sum(len(family.points) for family in found),
    )


def _check_that_something_fits(name: str, found: Sequence[Family], question: Question) -> None:
    """Errors: ``StudyError`` unless some family carries out all requests within the budgets."""
    able = [
        (point.nic_bytes, family.subject.design.scheme.value)
        for family in found
        for point in family.steps
        if not point.rejected
    ]
    if not able:
        assert question.pin_bytes is not None  # without that limit, tables hold everything
        raise StudyError(
            f"{name}: no design carries out every request while it pins at most "
            f"{question.pin_bytes} bytes; give more --pin-memory"
        )
    needed, scheme = min(able)
    if needed > question.nic_bytes:
        raise StudyError(
            f"{name}: nothing that carries out every request fits in {question.nic_bytes} bytes "
            f"of NIC memory; the smallest design that does is of scheme {scheme!r} and takes "
            f"{needed}"
        )
