"""Rows that register or deregister memory: their columns beside those of a request.

A trace that has them has a column ``page_size``, and may have a column ``rights``; both are null of
requests.  Their lengths may be longer than a request's: the column is then as wide as they need.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.errors import did_you_mean
from nicscope.traces.columns import Checker, is_text
from nicscope.traces.schema import (
    FIRST_REGISTRATION,
    LARGEST_PAGE,
    PAGE_SIZE_COLUMN,
    RIGHTS_COLUMN,
    ROW_NAMES,
    SMALLEST_PAGE,
    Op,
    Requests,
    Rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


# By the names of verbs' access flags (rdma-core, ibv_reg_mr).  A NIC may always read for its own
# process; ``local_read`` says that it may do no more.
RIGHTS = {"local_read": 0, "local_write": 1, "remote_write": 2, "remote_read": 4}
ALL_RIGHTS = sum(RIGHTS.values())
# By the code of a row: what an operation needs of the region that it names.
_NEEDED = np.zeros(len(ROW_NAMES), np.uint8)
_NEEDED[[Op.RECV, Op.READ]] = RIGHTS["local_write"]
_NEEDED[Op.SERVE_READ] = RIGHTS["remote_read"]
_NEEDED[Op.SERVE_WRITE] = RIGHTS["remote_write"]
_NEEDED[FIRST_REGISTRATION:] = ALL_RIGHTS  # unless they say which
_LONGEST = np.uint64(2**32 - 1)
_LAST = np.uint64(2**64 - 1)
_PARTED = re.compile(r"[\s|,+]+")


def may_register(names: Iterable[str]) -> bool:
    """Whether a trace with columns of these ``names`` may have rows that register memory."""
    return PAGE_SIZE_COLUMN in names


def requests_in(rows: Sequence[Any]) -> Requests:
    """The requests among ``rows``, whose first columns are those of requests."""
    return only_requests(Requests._make(rows[: len(Requests._fields)]))


def only_requests(rows: Requests) -> Requests:
    """``rows`` without those that are no requests."""
    chosen = rows.op < FIRST_REGISTRATION
    return rows if chosen.all() else Requests._make(column[chosen] for column in rows)


def lengths_of(column: Any, codes: NDArray[np.uint8], checker: Checker) -> NDArray[np.uint32]:
    """Requests' lengths of a wide ``column``; those of registrations are capped.

    Errors: ``TraceError`` through ``checker`` for a request's that does not fit.
    """
    lengths = wide_values(column)
    long = np.flatnonzero((lengths > _LONGEST) & (codes < FIRST_REGISTRATION))
    if long.size:
        row = int(long[0])
        raise checker.error(
            row, f"length is {lengths[row]}; a request's must be from 0 to {_LONGEST} (uint32)"
        )
    return np.minimum(lengths, _LONGEST).astype(np.uint32)


def wide_values(column: Any) -> NDArray[np.uint64]:
    """The values of an Arrow column of whole numbers, 64 bits each."""
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values.astype(np.uint64)


def check_registrations(requests: Requests, batch: Any, checker: Checker) -> None:
    """Return if the registrations in the record ``batch`` of ``requests`` are valid.

    Errors: ``TraceError`` through ``checker`` for the first that cannot.
    """
    if (requests.op >= FIRST_REGISTRATION).any():
        rows_of(requests, batch, checker)


def rows_of(requests: Requests, batch: Any, checker: Checker) -> Rows:
    """``requests`` of the record ``batch``, with its registrations.

    Errors: ``TraceError`` through ``checker`` for the first that cannot be believed.
    """
    chosen = np.flatnonzero(requests.op >= FIRST_REGISTRATION)
    count = len(requests.op)
    sizes, rights = np.zeros(count, np.int64), _NEEDED[requests.op]
    lengths = requests.length.astype(np.uint64)
    if chosen.size:
        names = batch.schema.names
        if not may_register(names):
            raise checker.error(
                int(chosen[0]),
                "registers memory, but there is no column 'page_size'; add one (null where the "
                "page size is not known)",
            )
        places = pa.array(chosen)
        lengths = wide_values(batch.column("length"))
        sizes[chosen] = _page_sizes(batch.column(PAGE_SIZE_COLUMN).take(places), chosen, checker)
        if RIGHTS_COLUMN in names:
            rights[chosen] = _rights(batch.column(RIGHTS_COLUMN).take(places), chosen, checker)
        last = np.maximum(lengths[chosen], np.uint64(1)) - np.uint64(1)
        wrapping = requests.address[chosen] > _LAST - last
        if wrapping.any():
            row = int(chosen[int(np.flatnonzero(wrapping)[0])])
            raise checker.error(
                row,
                f"address {int(requests.address[row]):#x} with length {lengths[row]} wraps past "
                "2^64",
            )
    return Rows(*requests, lengths, sizes, rights)


def _page_sizes(column: Any, chosen: NDArray[Any], checker: Checker) -> NDArray[np.int64]:
    try:
        found: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise checker.error(int(chosen[0]), "page_size is no whole number of bytes") from None
    known = found[~np.asarray(column.is_null())]
    rows = chosen[~np.asarray(column.is_null())]
    good = (known >= SMALLEST_PAGE) & (known <= LARGEST_PAGE) & (known & (known - 1) == 0)
    if not good.all():
        place = int(np.flatnonzero(~good)[0])
        raise checker.error(
            int(rows[place]),
            f"page_size is {known[place]}; must be a power of two from {SMALLEST_PAGE} to "
            f"{LARGEST_PAGE}, or null",
        )
    return found


def _rights(column: Any, chosen: NDArray[Any], checker: Checker) -> NDArray[np.uint8]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (is_text(column.type) or pa.types.is_null(column.type)):
        raise checker.error(int(chosen[0]), f"rights are {column.type}; must be text, or null")
    known: dict[str | None, int] = {None: ALL_RIGHTS}
    found = np.empty(len(column), np.uint8)
    for place, text in enumerate(column.to_pylist()):
        if text not in known:
            known[text] = _rights_in(text, int(chosen[place]), checker)
        found[place] = known[text]
    return found


def _rights_in(text: str, row: int, checker: Checker) -> int:
    names = [name for name in _PARTED.split(text.strip()) if name]
    for name in names:
        if name not in RIGHTS:
            raise checker.error(row, f"unknown right {name!r}{did_you_mean(name, RIGHTS)}")
    if not names:
        raise checker.error(row, "rights are empty; say local_read where nothing is written")
    if "remote_write" in names and "local_write" not in names:
        raise checker.error(
            row, f"rights are {text!r}; remote_write needs local_write too, as ibv_reg_mr has it"
        )
    return sum(RIGHTS[name] for name in set(names))
