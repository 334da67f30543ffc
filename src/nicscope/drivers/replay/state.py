"""The requests that a scheme's kernel is handed beside a NIC, its host and the book."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.translation.state import Request
from nicscope.jit import step

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Stretch(NamedTuple):
    """A stretch of a node's stream; columns of shape (requests,), ``numbers`` one per unit."""

    process: NDArray[np.int32]
    first: NDArray[np.int64]
    pages: NDArray[np.int32]
    receive: NDArray[np.uint8]
    length: NDArray[np.uint32]
    numbers: NDArray[np.uint32]


@step
def request_of(requests, row, at):
    """Request ``row``, whose numbers begin at ``at``."""
    return Request(
        np.int64(requests.process[row]),
        requests.first[row],
        np.int64(requests.pages[row]),
        np.int64(requests.receive[row]),
        at,
    )
