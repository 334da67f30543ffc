"""Sizes every family of designs for each of several traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.design import Scheme
from nicscope.errors import StudyError
from nicscope.studies.sizing import counting, search
from nicscope.studies.sizing.counting import Counter, Passes, Whole
from nicscope.studies.sizing.result import Sizing, SizingReport, answer
from nicscope.studies.sizing.search import LINES, Room, explore, families, most_entries
from nicscope.studies.sources import named, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.sizing.counting import Extent
    from nicscope.studies.sizing.search import Family
    from nicscope.studies.sizing.targets import Question
    from nicscope.studies.workers import Workers
    from nicscope.traces.reader import Trace


ONE_ROUND = {Scheme.PINNED, Scheme.STATIC}  # their few shapes are all replayed at once
# Assumed, for the time that is left: so many designs' time is what a pass of the survey takes.
EXTENT_WEIGHT, GRIDS_WEIGHT = 5, 2 * (len(LINES) + 1)


def report(
    traces: Sequence[tuple[str, Trace]],
    question: Question,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
    workers: Workers | None = None,
) -> SizingReport:
    """Sizings of ``traces``, each under the name by which ``nicscope replay`` finds it.

    The nodes of folders of files are shared out among ``workers``, if there are any.
    ``command`` is passed on, for whoever wants to do it again; ``watch`` is told how many rows
    were replayed of those that are known to be needed.  Errors: ``TraceError`` at the first row
    that the schema does not allow, ``StudyError`` if nothing fits the budgets.
    """
    passes = Passes(watch)
    sizings = []
    for place, (name, trace) in enumerate(traces):
        later = sum(trace.rows for _, trace in traces[place + 1 :])
        passes.forecast_remaining_rows(later * _likely(question))
        sizings.append(size(name, trace, question, passes, workers))
    return SizingReport(
        question=question,
        traces=named(traces),
        sizings=sizings,
        repeat=repeat(command),
    )


def size(
    name: str,
    trace: Trace,
    question: Question,
    passes: Passes | None = None,
    workers: Workers | None = None,
) -> Sizing:
    """Size ``trace``, which ``nicscope replay`` opens as ``name``.

    Errors: as ``report``.
    """
    passes = passes or Passes()
    passes.forecast(trace, _likely(question))
    whole = Whole(trace, passes, workers)
    touched = whole.extent(trace.metadata.page_size, EXTENT_WEIGHT)
    found = _searched(name, whole, question, passes, touched)
    answers = [answer(name, family.subject, family.fitting, question) for family in found]
    return Sizing(
        trace=name,
        page_size=trace.metadata.page_size,
        extent=touched,
        answers=answers,
        page_sizes=search.in_page_sizes(name, whole, question, passes)
        if question.page_sizes
        else [],
        replayed=sum(len(family.replayed) for family in found),
        sampled=sum(len(family.sampled) for family in found),
    )


def _searched(
    name: str, whole: Whole, question: Question, passes: Passes, touched: Extent
) -> list[Family]:
    """Search every family that is asked for."""
    wanted = [one for one in families(question.platform) if question.sizes(one.design.scheme)]
    if not wanted:
        if question.only:
            assert question.platform is not None
            raise StudyError(
                f"--only {question.only[0]}: platform {question.platform.name!r} states no "
                "icm_fetch, so nothing is known of the family there; leave --platform out"
            )
        return []
    page_size = whole.trace.metadata.page_size
    most = most_entries(touched)
    budget = question.nic_bytes
    surveyed = whole.surveyed(page_size, LINES, most, GRIDS_WEIGHT, touched)
    room = Room(
        budgets=(budget // 2, budget, 2 * budget),
        pin_pages=None if question.pin_bytes is None else question.pin_bytes // page_size,
        page_size=page_size,
        extent=touched,
        every_size=question.target_us is not None,
        grids=surveyed.grids,
    )
    if room.pin_pages == 0:
        raise StudyError(
            f"--pin-memory {question.pin_bytes}B is less than one page of {page_size} bytes"
        )
    after = len(question.page_sizes) * search.LIKELY
    return explore(
        wanted,
        room,
        question,
        Counter(whole, surveyed.sample, touched, passes, _likely_rounds(question), after),
        lambda found: _check_that_something_fits(name, found, question),
    )


def _likely(question: Question) -> int:
    """The likely cost of sizing a trace, in designs."""
    of_pages = len(question.page_sizes) * search.LIKELY
    if question.only_pages and not question.only:
        return EXTENT_WEIGHT + of_pages
    return EXTENT_WEIGHT + GRIDS_WEIGHT + sum(_likely_rounds(question)) + of_pages


def _likely_rounds(question: Question) -> Sequence[int]:
    """The likely number of designs that each round of the search replays."""
    searched = {scheme for scheme in Scheme if question.sizes(scheme)}
    return counting.LIKELY if searched - ONE_ROUND else (len(searched),)


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
