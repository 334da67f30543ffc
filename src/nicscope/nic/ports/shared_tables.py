"""The tables by which nodes use memory of each other, and their growth.

Under static tables they are on the NIC and of one size; where the host has them and the NIC caches
their records (miNI, IV.A), they grow with what processes register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.kernel.growing import Growing
from nicscope.kernel.layout import renew
from nicscope.kernel.records import records
from nicscope.nic.ports.layout import EXPORT, IMPORT, NOBODY
from nicscope.room import check_room, zeroed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.room import Shapes


class SharedTables(Growing):
    """What each node lets others use, and what it may use of others."""

    exports: NDArray[Any]  # EXPORT, shape (nodes, exports)
    imports: NDArray[Any]  # IMPORT, shape (nodes, imports)


def shared_shapes(nodes: int, exports: int, imports: int) -> Shapes:
    """Tables of so many rows for each node."""
    return {"exports": ((nodes, exports), EXPORT), "imports": ((nodes, imports), IMPORT)}


def new_shared_tables(nodes: int, exports: int, imports: int) -> SharedTables:
    """Tables of which no row is anybody's."""
    tables = SharedTables(zeroed(shared_shapes(nodes, exports, imports)))
    for name in tables._fields:
        _leave_blank(name, getattr(tables, name))
    return tables


def double_rows(tables: SharedTables, name: str) -> int:
    """Give the table ``name`` twice as many rows for each node; how many it has then.

    Errors: ``RoomError`` if there is no memory for them.
    """
    before = getattr(tables, name)
    nodes, rows = before.shape
    wanted: int = max(1, 2 * rows)
    check_room(
        nodes * wanted * before.dtype.itemsize,
        f"the hosts' tables of {wanted:,} {name} a node",
        "register fewer buffers, or give some back",
    )
    after = records((nodes, wanted), before.dtype)
    after[:, :rows] = before
    _leave_blank(name, after[:, rows:])
    setattr(tables, name, after)
    renew(tables)
    return wanted


def _leave_blank(name: str, rows: NDArray[Any]) -> None:
    if name == "exports":
        rows["redirect"] = -1
    else:
        rows["port"] = NOBODY
