"""What must hold of a paged memory after any operation, and that it equals its twin."""

from collections import Counter

import numpy as np

from nicscope.memory.paging import layout as code
from oracle.paging import Block, Frame


def chain(first, following):
    found = []
    while first != code.NOBODY:
        found.append(int(first))
        first = following[first]
        assert len(found) <= len(following), "the chain has a loop"
    return found


def check_invariants(memory, h):
    """The invariants of ``HostMemory``, counted from the page tables."""
    host, frames, blocks = memory.hosts[h], memory.frames[h], memory.blocks[h]
    size = int(memory.config["page_size"][0])
    users = {}
    block_uses = Counter(int(block) for block in frames["block"] if block != code.NOBODY)
    for space, page in np.ndindex(memory.entries.shape[1:]):
        entry = memory.entries[h, space, page]
        assert (entry["frame"] != code.NOBODY) == (entry["state"] == code.PRESENT)
        assert (entry["block"] != code.NOBODY) == (entry["state"] == code.SWAPPED)
        if entry["state"] == code.PRESENT:
            users.setdefault(int(entry["frame"]), []).append((space, page))
        if entry["state"] == code.SWAPPED:
            block_uses[int(entry["block"])] += 1

    free = chain(host["free_frame"], frames["next_free"])
    assert len(free) == host["free_frames"] == len(set(free))
    garbage = code.GARBAGE_FRAME
    assert (frames[garbage]["pins"], frames[garbage]["references"], garbage in free) == (1, 0, 0)
    for number in range(1, len(frames)):
        frame = frames[number]
        mine = users.pop(number, [])
        content = memory.bytes[h, number * size : (number + 1) * size]
        assert frame["references"] == len(mine) >= 0
        assert (number in free) == (frame["references"] == 0 and frame["pins"] == 0)
        if number in free:
            assert frame["block"] == code.NOBODY
            continue
        assert {page for _, page in mine} <= {frame["page"]}
        if frame["pinned_to_write"]:
            assert {space for space, _ in mine} <= {frame["pinner"]}
        if frame["block"] != code.NOBODY:
            start = frame["block"] * size
            assert not frame["dirty"]
            assert (content == memory.block_bytes[h, start : start + size]).all()
        elif not frame["dirty"]:
            assert not content.any()
    assert users == {}

    free_blocks = chain(host["free_block"], blocks["next_free"])
    assert len(free_blocks) == host["free_blocks"] == len(set(free_blocks))
    for number in range(len(blocks)):
        assert blocks[number]["references"] == block_uses[number]
        assert (number in free_blocks) == (block_uses[number] == 0)

    pinners = [int(frame["pinner"]) for frame in frames[1:] if frame["pins"] > 0]
    assert host["pinned"] == len(pinners) <= host["pin_limit"]
    for space in range(memory.spaces.shape[1]):
        record = memory.spaces[h, space]
        assert record["pinned"] == pinners.count(space) <= record["pin_limit"]
        assert record["mapped"] == (memory.entries[h, space]["state"] != code.UNMAPPED).sum()


def page_bytes(memory, h, space, page):
    """What the page holds, wherever it is, without an access."""
    size = int(memory.config["page_size"][0])
    entry = memory.entries[h, space, page]
    if entry["state"] == code.DEMAND_ZERO:
        return bytes(size)
    present = entry["state"] == code.PRESENT
    held = memory.bytes if present else memory.block_bytes
    start = int(entry["frame"] if present else entry["block"]) * size
    return held[h, start : start + size].tobytes()


def check_equal(memory, h, twin):
    """Every page, pin, generation and counter is as the twin has it."""
    for space, page in np.ndindex(memory.entries.shape[1:]):
        entry = memory.entries[h, space, page]
        other = twin.pages.get((space, page))
        if other is None:
            assert entry["state"] == code.UNMAPPED
            continue
        assert entry["rights"] == other.rights
        held = page_bytes(memory, h, space, page)
        if other.place is None:
            assert entry["state"] == code.DEMAND_ZERO
        elif isinstance(other.place, Frame):
            assert (entry["state"], entry["frame"]) == (code.PRESENT, other.place.number)
            assert held == other.place.content
        else:
            assert isinstance(other.place, Block)
            assert entry["state"] == code.SWAPPED
            assert held == other.place.content

    free = chain(memory.hosts[h]["free_frame"], memory.frames[h]["next_free"])
    assert free == twin.free[::-1]
    assert memory.frames[h]["generation"].tolist() == list(twin.generation.values())
    size = twin.page_size
    for number, frame in twin.used.items():
        record = memory.frames[h, number]
        assert (record["pins"], record["dirty"]) == (frame.pins, frame.dirty)
        assert record["referenced"] == frame.referenced
        assert record["pinned_to_write"] == frame.written_by_pinner
        assert record["pinner"] == (code.NOBODY if frame.pinner is None else frame.pinner)
        # A frame may be in no page table, but an interface still reads and writes it.
        assert memory.bytes[h, number * size : (number + 1) * size].tobytes() == frame.content
    for name in ("zeroed", "copied", "page_ins", "page_outs", "reclaimed"):
        assert memory.hosts[h][name] == twin.work[name], name
    assert memory.hosts[h]["free_blocks"] == twin.blocks - twin.blocks_used()
    for space in range(memory.spaces.shape[1]):
        for name in ("zero_faults", "copy_faults", "disk_faults", "refusals"):
            assert memory.spaces[h, space][name] == twin.faults[space, name], name
