"""What a program asks of miNI's network interfaces, at both ends of every transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# What is looked up at the other end: a read is served on its send path, a write on its receive one.
SERVED_AS = {Op.READ: Op.SERVE_READ, Op.WRITE: Op.SERVE_WRITE}


def both_ends(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The requests of a run, and after each what its peer's interface looks up for it.

    ``columns``: as ``ApplicationRun`` has them.  At home a page is looked up for a process of its
    own, which exports what lies there.  The messages that ask for a page are left out: miNI's
    remote read is a descriptor, and no buffer (IV.B).
    """
    asked = columns["op"] != Op.SEND
    kept = {name: column[asked] for name, column in columns.items()}
    answers = np.zeros(len(Op), np.uint8)
    for asking, serving in SERVED_AS.items():
        answers[asking] = serving
    exporter = np.max(columns["pid"], initial=-1) + 1
    served = {
        **kept,
        "node": kept["peer"],
        "peer": kept["node"],
        "pid": np.full_like(kept["pid"], exporter),
        "op": answers[kept["op"]],
    }
    return {name: np.stack([kept[name], served[name]], axis=1).ravel() for name in kept}
