"""What a program asks of miNI's network interfaces, at both ends of every transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.traces.schema import FIRST_RECEIVE, Op, Requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# Who answers at the other end: reads are served on its send path, writes on its receive path.
SERVED_BY = {Op.READ: Op.SERVE_READ, Op.WRITE: Op.SERVE_WRITE}
EXPORTER = 0  # the process of a node for which pages at home there are looked up


def both_ends(columns: Mapping[str, NDArray[Any]]) -> Requests:
    """The requests of a run, and after each what its peer's interface looks up for it.

    ``columns``: as ``ApplicationRun`` has them.  The first distribution of data is left out, and so
    are the messages that ask for a page: miNI's remote read is a descriptor, no buffer (IV.B).
    """
    asked = ~columns["initial"] & (columns["op"] != Op.SEND)
    times, nodes, peers, ops = (columns[name][asked] for name in ("time_ns", "node", "peer", "op"))
    served = np.zeros(len(Op), np.uint8)
    for asking, serving in SERVED_BY.items():
        served[asking] = serving
    op = _paired(ops, served[ops])
    return Requests(
        time_ns=np.repeat(times, 2),
        node=_paired(nodes, peers),
        pid=_paired(columns["pid"][asked], np.full(len(ops), EXPORTER, np.int32)),
        receive=(op >= FIRST_RECEIVE).view(np.uint8),
        op=op,
        address=np.repeat(columns["address"][asked], 2),
        length=np.repeat(columns["length"][asked], 2),
    )


def _paired(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Elements of both in turn."""
    return np.stack([first, second], axis=1).ravel().astype(first.dtype)
