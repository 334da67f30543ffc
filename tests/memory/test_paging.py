import numpy as np
import pytest

from nicscope.memory.paging import layout as code
from nicscope.memory.paging.frames import (
    evict_page,
    keep_free,
    may_transfer,
    may_transfer_into,
    need,
    pin_page,
    provide,
    provide_zeroed,
    reclaim,
    unpin_frame,
)
from nicscope.memory.paging.layout import make_resident, new_memory
from nicscope.memory.paging.spaces import (
    bring_page,
    fork_space,
    lock_address,
    map_pages,
    move_bytes,
    unlock_address,
    unmap_pages,
)
from oracle.paging_checks import check_invariants

BOTH = code.READ | code.WRITE
SIZE = 16


def memory_with(frames=8, blocks=8, written=4, **limits):
    """One host; space 0 has ``written`` pages, page p full of p + 1."""
    memory = new_memory(1, frames, SIZE, 3, 8, blocks, **limits)
    assert map_pages(memory, 0, 0, 0, written, BOTH) == written
    for page in range(written):
        assert put(memory, 0, page, page + 1) == SIZE
    return memory


def put(memory, space, page, value):
    return move_bytes(memory, 0, space, page * SIZE, np.full(SIZE, value, np.uint8), SIZE, 1)


def got(memory, space, page):
    out = np.zeros(SIZE, np.uint8)
    result = move_bytes(memory, 0, space, page * SIZE, out, SIZE, 0)
    return out[0] if result == SIZE and (out == out[0]).all() else result


def in_frame(memory, frame):
    return memory.bytes[0, frame * SIZE]


@pytest.mark.requirement("UM-51", "UM-54", "UM-55")
def test_only_what_is_not_pinned_is_swapped_out_until_it_is_unpinned():
    memory = memory_with(frames=5)
    frame = pin_page(memory, 0, 0, 2, 1)
    assert pin_page(memory, 0, 0, 2, 0) == frame

    assert keep_free(memory, 0, 4) == 3
    assert memory.entries["state"][0, 0, :4].tolist() == [code.SWAPPED] * 2 + [
        code.PRESENT,
        code.SWAPPED,
    ]
    assert unpin_frame(memory, 0, 0, frame) == 1
    assert not reclaim(memory, 0)
    assert unpin_frame(memory, 0, 0, frame) == 0
    assert reclaim(memory, 0)
    assert [got(memory, 0, page) for page in range(4)] == [1, 2, 3, 4]
    assert memory.hosts[0]["page_ins"] == memory.hosts[0]["page_outs"] == 4


@pytest.mark.requirement("UM-52")
def test_a_page_shared_by_a_fork_is_copied_before_it_is_pinned_to_be_written():
    memory = memory_with()
    fork_space(memory, 0, 0, 1)
    shared = provide(memory, 0, 0, 0, 0)
    assert need(memory, 0, 1, 0, 1) == code.COPY

    frame = pin_page(memory, 0, 1, 0, 1)
    memory.bytes[0, frame * SIZE : (frame + 1) * SIZE] = 99

    assert frame != shared
    assert (got(memory, 0, 0), got(memory, 1, 0)) == (1, 99)


@pytest.mark.requirement("UM-52")
def test_a_child_does_not_see_what_an_interface_writes_to_its_parent():
    memory = memory_with()
    frame = pin_page(memory, 0, 0, 0, 1)
    fork_space(memory, 0, 0, 1)

    memory.bytes[0, frame * SIZE : (frame + 1) * SIZE] = 99

    assert (got(memory, 0, 0), got(memory, 1, 0)) == (99, 1)


def test_a_process_that_writes_to_a_shared_page_it_has_pinned_keeps_the_frame():
    memory = memory_with()
    fork_space(memory, 0, 0, 1)
    frame = pin_page(memory, 0, 0, 0, 0)

    put(memory, 0, 0, 77)

    assert in_frame(memory, frame) == 77
    assert (got(memory, 0, 0), got(memory, 1, 0)) == (77, 1)
    assert memory.hosts[0]["copied"] == 1


@pytest.mark.requirement("UM-53")
def test_an_absent_page_comes_from_disk_and_is_then_pinned():
    memory = memory_with()
    keep_free(memory, 0, 7)
    assert need(memory, 0, 0, 3, 0) == code.DISK
    memory.bytes[:] = 77  # nothing of it is left in any frame

    frame = pin_page(memory, 0, 0, 3, 0)

    assert in_frame(memory, frame) == 4
    assert memory.hosts[0]["page_ins"] == 1


@pytest.mark.requirement("UM-35")
def test_an_absent_receive_buffer_becomes_zeros_without_reading_the_disk():
    memory = memory_with()
    keep_free(memory, 0, 7)
    free_blocks = int(memory.hosts[0]["free_blocks"])

    frame = provide_zeroed(memory, 0, 0, 3)

    assert in_frame(memory, frame) == 0
    assert memory.hosts[0]["page_ins"] == 0
    assert memory.hosts[0]["free_blocks"] == free_blocks + 1
    put(memory, 0, 3, 8)
    assert provide_zeroed(memory, 0, 0, 3) == frame  # a present page stays as it is
    assert got(memory, 0, 3) == 8


@pytest.mark.requirement("UM-57")
def test_an_unmapped_page_lives_on_until_it_is_unpinned():
    memory = memory_with(frames=6)
    frame = pin_page(memory, 0, 0, 1, 1)
    generation = int(memory.frames[0, frame]["generation"])
    assert unmap_pages(memory, 0, 0, 0, 4) == 4
    map_pages(memory, 0, 0, 0, 8, BOTH)

    taken = {provide(memory, 0, 0, page, 1) for page in range(8)}

    assert frame not in taken
    assert in_frame(memory, frame) == 2
    assert may_transfer_into(memory, 0, frame, generation)
    assert memory.spaces[0, 0]["pinned"] == 1
    assert unpin_frame(memory, 0, 0, frame) == 0
    assert not may_transfer(memory, 0, frame, generation)
    assert frame in {provide(memory, 0, 0, page, 1) for page in range(8)}


@pytest.mark.requirement("UT-42")
def test_limits_on_pinned_pages_hold_for_a_process_and_for_the_host():
    memory = memory_with(space_pin_limit=2, host_pin_limit=3)
    map_pages(memory, 0, 1, 0, 4, BOTH)

    first = pin_page(memory, 0, 0, 0, 1)
    assert pin_page(memory, 0, 0, 1, 1) > 0
    assert pin_page(memory, 0, 0, 2, 1) == code.LIMIT
    assert pin_page(memory, 0, 0, 1, 1) > 0  # pinned already
    assert pin_page(memory, 0, 1, 0, 1) > 0
    assert pin_page(memory, 0, 1, 1, 1) == code.LIMIT
    unmap_pages(memory, 0, 0, 0, 1)
    assert pin_page(memory, 0, 0, 2, 1) == code.LIMIT  # still pinned, though unmapped
    unpin_frame(memory, 0, 0, first)
    assert pin_page(memory, 0, 0, 2, 1) > 0


def test_a_translation_stands_while_its_pin_does_and_always_to_the_garbage_page():
    memory = memory_with()
    frame = pin_page(memory, 0, 0, 0, 0)
    generation = int(memory.frames[0, frame]["generation"])

    assert may_transfer(memory, 0, frame, generation)
    assert not may_transfer_into(memory, 0, frame, generation)  # pinned to be read
    assert not may_transfer(memory, 0, frame, generation - 1)
    unpin_frame(memory, 0, 0, frame)
    assert not may_transfer(memory, 0, frame, generation)
    assert may_transfer_into(memory, 0, code.GARBAGE_FRAME, 0)


def test_a_frame_that_another_process_pins_next_is_not_the_one_known_before():
    memory = memory_with()
    fork_space(memory, 0, 0, 1)
    frame = pin_page(memory, 0, 0, 0, 0)
    generation = int(memory.frames[0, frame]["generation"])
    unpin_frame(memory, 0, 0, frame)

    assert pin_page(memory, 0, 1, 0, 0) == frame

    assert not may_transfer(memory, 0, frame, generation)


def test_a_translation_from_before_the_last_unpin_does_not_come_back_with_the_next_pin():
    # The page is another one: unmapped, closed and forked again, it is in the same frame.
    memory = memory_with()
    fork_space(memory, 0, 0, 1)
    frame = pin_page(memory, 0, 1, 0, 0)
    generation = int(memory.frames[0, frame]["generation"])
    unpin_frame(memory, 0, 1, frame)
    unmap_pages(memory, 0, 1, 0, 8)
    fork_space(memory, 0, 0, 1)

    assert pin_page(memory, 0, 1, 0, 0) == frame

    assert not may_transfer(memory, 0, frame, generation)


def test_a_page_that_was_read_in_and_not_written_goes_out_without_writing():
    memory = memory_with()
    keep_free(memory, 0, 7)
    assert [got(memory, 0, page) for page in range(4)] == [1, 2, 3, 4]

    assert keep_free(memory, 0, 7) == 4

    assert (memory.hosts[0]["page_outs"], memory.hosts[0]["page_ins"]) == (4, 4)
    assert [got(memory, 0, page) for page in range(4)] == [1, 2, 3, 4]


def test_without_a_frame_or_a_block_an_access_says_so_and_harms_nothing():
    memory = memory_with(frames=5, blocks=0)
    map_pages(memory, 0, 0, 4, 1, BOTH)

    assert put(memory, 0, 4, 9) == code.NO_FRAME
    assert [got(memory, 0, page) for page in range(4)] == [1, 2, 3, 4]


@pytest.mark.parametrize("sizes", [(0, 2, 16, 1, 1, 0), (1, 1, 16, 1, 1, 0), (1, 2, 24, 1, 1, 0)])
def test_sizes_that_make_no_memory_are_refused(sizes):
    with pytest.raises(ValueError, match=r"a host needs|power of two"):
        new_memory(*sizes)


@pytest.mark.parametrize("which", ["frames", "swap_blocks", "pages_per_space", "spaces"])
def test_more_than_numbers_of_31_bits_can_name_is_refused(which):
    sizes = {"frames": 2, "spaces": 1, "pages_per_space": 1, "swap_blocks": 0, which: 1 << 31}

    with pytest.raises(ValueError, match="31 bits"):
        new_memory(hosts=1, page_size=16, **sizes)


def test_the_frame_that_the_cpu_works_on_is_not_taken_before_it_is_done():
    memory = new_memory(1, 3, SIZE, 1, 4, 8)  # two frames beside the garbage page
    map_pages(memory, 0, 0, 0, 4, BOTH)
    frame = bring_page(memory, 0, 0, 1, 1)

    assert lock_address(memory, 0, 0, SIZE + 5, 1) == frame * SIZE + 5
    for page in (0, 2, 3):  # all others share the other frame
        assert bring_page(memory, 0, 0, page, 1) not in (frame, code.NO_FRAME)
    assert not evict_page(memory, 0, 0, 1)
    assert memory.entries[0, 0, 1]["frame"] == frame

    unlock_address(memory, 0)
    assert evict_page(memory, 0, 0, 1)
    assert lock_address(memory, 0, 0, SIZE + 5, 1) == -1  # it is not there any more
    assert memory.hosts[0]["accessed"] == 0


def test_memory_that_is_resident_has_a_frame_for_each_page_and_the_rest_free():
    memory = new_memory(2, 7, SIZE, 1, 4, 8)
    make_resident(memory, 1)
    check_invariants(memory, 1)

    assert [bring_page(memory, 1, 0, page, 1) for page in range(4)] == [1, 2, 3, 4]
    assert memory.hosts[1]["free_frames"] == 2
    assert memory.hosts[1]["zeroed"] == 0  # none of them had to be brought
    assert map_pages(memory, 1, 0, 0, 1, BOTH) == code.ALREADY_MAPPED
    assert not memory.entries[0]["state"].any()  # the other host's is as it was


def test_resident_memory_may_fill_the_host():
    memory = new_memory(1, 5, SIZE, 1, 4, 8)
    make_resident(memory, 0)
    check_invariants(memory, 0)

    assert [bring_page(memory, 0, 0, page, 1) for page in range(4)] == [1, 2, 3, 4]
