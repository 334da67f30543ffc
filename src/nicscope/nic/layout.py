"""The NIC's memory: every structure of the firmware is a view of one arena, every byte named.

Invariant: regions do not overlap, and what ``region_bytes`` reports adds up to the arena.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.records import as_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A tag names a (process, number) pair: the host's dense number of it plus 1.  32 bits hold what
# the set index leaves of a 36-bit page number (23 bits at 8 K sets) and 9 bits of process.
EMPTY = 0
# The top bit of a frame says that a transfer is using the entry, which must not be evicted.  Where
# entries stand in lines a byte of the line says so, and each entry is a whole word of frame number
# (miNI IV.B.2: 32 bits, for 16 TB).
IN_USE = 0x80000000
FRAME_BITS = 0x7FFFFFFF
# Up to this many ways a set is searched way by way, as the papers' firmware does; above, the
# entries are found through a hash index and kept in order of use by links.
SEARCHED_WAYS = 16

CONFIG = np.dtype(
    [("entries", "i8"), ("sets", "i8"), ("ways", "i8"), ("line", "i8"), ("victim_entries", "i8")],
    align=True,
)
REGISTERS = np.dtype(
    [
        ("victim_count", "i8"),  # entries in the victim cache
        ("filled", "i8"),  # entries of a plain table that are taken
        # The tag that the last ``fill`` displaced, or EMPTY; of a plain table 1 more than the entry
        # that was given back last, which has the one before in its place, or 0.
        ("evicted", "i8"),
    ],
    align=True,
)
VICTIM = np.dtype([("tag", "u4"), ("frame", "u4")], align=True)
# Neighbours in order of use.  The links of a set are a ring: after its newest entry and before its
# oldest comes the set's own link, which follows those of all entries.
LINK = np.dtype([("older", "u4"), ("newer", "u4")], align=True)
ENTRIES_LEFT = np.dtype(
    [
        ("dropped", "u4"),  # entry number + 1 of one that was dropped; more follow by ``nexts``
        ("filled", "u4"),  # entries handed out so far
    ],
    align=True,
)
# Kept beside the cache, one of each per process or table: a pinned area or a table in host memory
# by start and bound, and the way from a process's page numbers to a second-level table.
AREA = np.dtype([("start", "u8"), ("bound", "u8")], align=True)
DIRECTORY = np.dtype([("table", "u8"), ("process", "u4"), ("number", "u4")], align=True)


class Nic(NamedTuple):
    """One NIC.  Arrays that a design does not use have length 0."""

    config: NDArray[Any]  # CONFIG, shape (1,); never written by firmware
    registers: NDArray[Any]  # REGISTERS, shape (1,)
    # shape (sets * ways,), set by set; of 2..SEARCHED_WAYS ways, the most recent first
    tags: NDArray[np.uint32]
    frames: NDArray[np.uint32]  # shape (sets * ways * line,), by entry
    # shape (sets * ways,): which entry of the set a tag's frames are in; if the tags move
    places: NDArray[np.uint8]
    uses: NDArray[np.uint8]  # shape (sets * ways,): 1 while a transfer uses the line; if line > 1
    links: NDArray[Any]  # LINK, shape (sets * ways + sets,); if more than SEARCHED_WAYS ways
    left: NDArray[Any]  # ENTRIES_LEFT, shape (sets,); likewise
    # The index: entry number + 1 of the first of each chain, shape (2 * sets * ways,), a power of
    # two, and of the next one in its chain, shape (sets * ways,); likewise
    chains: NDArray[np.uint32]
    nexts: NDArray[np.uint32]
    victims: NDArray[Any]  # VICTIM, shape (victim_entries + 1,) or more, first in first


# The registers and the configuration are a firmware's own variables, so they are counted too.
_REGIONS: tuple[tuple[str, np.dtype[Any]], ...] = (
    ("config", CONFIG),
    ("registers", REGISTERS),
    ("tags", np.dtype("u4")),
    ("frames", np.dtype("u4")),
    ("places", np.dtype("u1")),
    ("uses", np.dtype("u1")),
    ("links", LINK),
    ("left", ENTRIES_LEFT),
    ("chains", np.dtype("u4")),
    ("nexts", np.dtype("u4")),
    ("victims", VICTIM),
)
_ALIGNMENT = 64


def new_cache(entries: int, ways: int = 1, line: int = 1, victim_entries: int | None = None) -> Nic:
    """A NIC with a translation cache of ``entries`` translations in lines of ``line``.

    ``entries``, ``ways`` and ``line`` are powers of two with ``ways * line <= entries``.
    ``victim_entries`` of None leaves the victim cache out.
    """
    lines = entries // line
    nic = _laid_out(_cache_shapes(entries, ways, line, victim_entries), entries)
    nic.places[:] = np.arange(len(nic.places)) % ways
    nic.links["older"] = nic.links["newer"] = np.arange(len(nic.links))  # rings of one
    nic.config[0]["sets"] = lines // ways
    nic.config[0]["ways"] = ways
    nic.config[0]["line"] = line
    nic.config[0]["victim_entries"] = victim_entries or 0
    return nic


def _cache_shapes(entries: int, ways: int, line: int, victim_entries: int | None) -> dict[str, int]:
    lines = entries // line
    linked = ways > SEARCHED_WAYS
    return {
        "tags": lines,
        "frames": entries,
        "places": lines if 1 < ways <= SEARCHED_WAYS else 0,
        "uses": lines if line > 1 else 0,
        "links": lines + lines // ways if linked else 0,
        "left": lines // ways if linked else 0,
        "chains": 2 * lines if linked else 0,
        "nexts": lines if linked else 0,
        # One place more than the victims that stay: a newcomer enters before the first leaves.
        "victims": 0 if victim_entries is None else victim_entries + 1,
    }


def cache_bytes(
    entries: int, ways: int = 1, line: int = 1, victim_entries: int | None = None
) -> int:
    """Bytes that ``new_cache`` takes."""
    shapes = _cache_shapes(entries, ways, line, victim_entries)
    return _ends({"config": 1, "registers": 1, **shapes})[1]


def new_table(entries: int) -> Nic:
    """A NIC with a plain table of ``entries`` translations, found by position."""
    return _laid_out({"frames": entries}, entries)


def _laid_out(shapes: dict[str, int], entries: int) -> Nic:
    nic = Nic(**_carve({"config": 1, "registers": 1, **shapes}))
    nic.config[0]["entries"] = entries
    return nic


def region_bytes(nic: Nic) -> dict[str, int]:
    """Bytes of NIC memory that each structure takes; structures left out are not listed."""
    return {name: array.nbytes for name, array in nic._asdict().items() if array.nbytes}


def _ends(shapes: dict[str, int]) -> tuple[dict[str, int], int]:
    """Where each region begins in the arena, and where the last one ends."""
    offsets, end = {}, 0
    for name, dtype in _REGIONS:
        offsets[name] = end
        end += -(-shapes.get(name, 0) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def _carve(shapes: dict[str, int]) -> dict[str, NDArray[Any]]:
    """Views of one arena, each on a cache line of its own."""
    offsets, end = _ends(shapes)
    arena = np.zeros(end + _ALIGNMENT, np.uint8)
    start = -arena.ctypes.data % _ALIGNMENT
    views = {}
    for name, dtype in _REGIONS:
        first = start + offsets[name]
        view = arena[first : first + shapes.get(name, 0) * dtype.itemsize].view(dtype)
        views[name] = as_records(view) if dtype.names else view
    return views
