"""Traces of independent programs as one: all of them run on the same nodes at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import StudyError
from nicscope.traces.schema import Requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.traces.reader import Trace

SPAN = 1 << 40  # ns that every program is stretched or pressed to


def mixed(traces: Sequence[Trace]) -> Requests:
    """The requests of all ``traces`` by time, each spread over the same span.

    A node runs what each trace has on the node of that number; no two programs share a process.
    Errors: ``StudyError`` if their pages differ, ``TraceError`` as when one is read.
    """
    sizes = {trace.metadata.page_size for trace in traces}
    if len(sizes) > 1:
        raise StudyError(
            f"the traces have pages of {', '.join(map(str, sorted(sizes)))} bytes; programs that "
            "run together have one size: give traces of one, or name other studies"
        )
    parts = [_spread(trace.read(), 1 + place, len(traces)) for place, trace in enumerate(traces)]
    whole: list[Any] = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(whole[0], kind="stable")  # time_ns
    return Requests(*(column[order] for column in whole))


def _spread(requests: Requests, place: int, programs: int) -> Requests:
    """One program's: its times from 0 to the span, its processes no other program's."""
    time = requests.time_ns
    if len(time) == 0:
        return requests
    begin, length = time.min(), max(int(time.max() - time.min()), 1)
    shares = (time - begin).astype(np.float64) / length
    _, processes = np.unique(requests.pid, return_inverse=True)
    pid = (processes * programs + place).astype(np.int32)
    return requests._replace(time_ns=(shares * SPAN).astype(np.int64), pid=pid)
