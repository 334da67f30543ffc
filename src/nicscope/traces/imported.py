"""The arguments and results that all importers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.traces.schema import DEFAULT_PAGE_SIZE, OP_CODES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.traces.kv_pool import KvChoices


class Choices(NamedTuple):
    """User's choices for what a format does not state."""

    node: int = 0
    pid: int = 0
    op: str = "send"  # of formats whose accesses have no direction
    page_size: int = DEFAULT_PAGE_SIZE  # bytes; of formats whose accesses name objects
    renumber: bool = False  # number objects 0, 1, 2... as they first appear
    parameters: str = ""  # libCacheSim's own description of a CSV file
    rank_pool_bytes: int = 1 << 20  # GOAL: that a rank sends from, and as many to receive into
    ranks_per_node: int = 1  # GOAL
    kv: KvChoices | None = None  # of traces of a language model's service


class Imported(NamedTuple):
    """A batch of requests and, for error messages, the input location of each."""

    columns: Mapping[str, Any]
    place: Callable[[int], str]


def numbered(what: str, numbers: Sequence[int] | NDArray[np.int64]) -> Callable[[int], str]:
    """Places of rows: ``what``, such as "line {}", with the row's number."""
    return lambda row: what.format(numbers[row])


def filled(value: int, count: int, kind: type[np.generic]) -> NDArray[Any]:
    """An array of ``count`` equal values."""
    return np.full(count, value, kind)


def op_codes(op: str, count: int) -> NDArray[np.uint8]:
    """``count`` times the code of the operation named ``op``."""
    return np.full(count, OP_CODES[op], np.uint8)
