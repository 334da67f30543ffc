"""What the papers say that each translation scheme does, in traces short enough to follow."""

import pytest
from test_against_oracle import columns_of, design_of

from nicscope.drivers.replay import replay

PAGE = 4096


def touch(page, pages=1, pid=1, op="send"):
    return (0, 0, pid, op, page * PAGE, pages * PAGE)


def result(rows, **flat):
    return replay([columns_of(rows)], [design_of(flat)])[0]


def total(rows, **flat):
    return result(rows, **flat).total


def counted(rows, names, **flat):
    counts = total(rows, **flat)
    return tuple(counts[name] for name in names.split())


# --- U-Net and static registration ----------------------------------------------------------


@pytest.mark.requirement("UM-16")
def test_the_baseline_copies_through_one_pinned_area_per_process():
    rows = [touch(0, 2), touch(9, 3), touch(0, 2, pid=2)]
    names = "pins pin_calls ni_misses bytes_copied rejected"
    assert counted(rows, names, scheme="pinned", area_bytes=2 * PAGE) == (4, 2, 0, 4 * PAGE, 1)


@pytest.mark.requirement("MI-60")
def test_static_registration_never_misses_and_ends_when_the_table_is_full():
    rows = [touch(page) for page in (0, 1, 2, 0, 1, 2)]
    names = "pins unpins ni_misses rejected"
    assert counted(rows, names, scheme="static", entries=2) == (2, 0, 0, 2)


# --- U-Net/MM -------------------------------------------------------------------------------


@pytest.mark.requirement("UM-42")
def test_a_displaced_entry_is_found_among_the_victims_and_changes_places():
    rows = [touch(0), touch(4), touch(0), touch(4)]
    names = "ni_misses victim_hits interrupts unpins"
    assert counted(rows, names, scheme="unet-mm", entries=4, victim_entries=1) == (2, 2, 2, 0)


@pytest.mark.requirement("UM-43")
def test_the_first_victim_leaves_first_and_its_page_is_unpinned():
    design = {"scheme": "unet-mm", "entries": 1, "victim_entries": 2}
    history = [touch(page) for page in (0, 1, 2, 3)]  # on the NIC: 3, then 1 and 2
    assert counted(history, "pins unpins", **design) == (4, 1)
    for page in range(4):
        assert total([*history, touch(page)], **design)["ni_misses"] == 4 + (page == 0)


@pytest.mark.requirement("UM-46")
def test_nothing_but_want_of_room_takes_an_entry_from_unet_mm():
    rows = [touch(page, pid=pid) for pid in range(9) for page in range(40)]
    names = "ni_misses_invalidated unpin_calls pin_calls"
    assert counted(rows, names, scheme="unet-mm", entries=16, victim_entries=4) == (0, 0, 0)


@pytest.mark.requirement("UM-48")
@pytest.mark.parametrize(("entries", "misses"), [(1024, 512), (256, 1024)])
def test_a_primary_of_256_entries_forgets_what_one_of_1024_keeps(entries, misses):
    rows = [touch(page) for page in range(512)] * 2
    assert total(rows, scheme="unet-mm", entries=entries, victim_entries=16)["ni_misses"] == misses


@pytest.mark.requirement("UM-83")
@pytest.mark.parametrize(("entries", "again"), [(1024, 0), (256, 60)])
def test_sixty_four_receive_buffers_and_some_pages_to_send_from_are_traced_through_both_tables(
    entries, again
):
    # The buffers come round in order.  Of 60 pages to send from 30 meet a buffer in one of 256
    # entries; 16 victims are too few for those.
    receive = [touch(page, op="recv") for page in range(64)]
    send = [touch(226 + page) for page in range(60)]
    names = "ni_misses_noncompulsory ni_misses_send_compulsory ni_misses_receive_compulsory"
    found = counted(
        (receive + send) * 2, names, scheme="unet-mm", entries=entries, victim_entries=16
    )
    assert found == (again, 60, 64)


@pytest.mark.requirement("UM-83", "UM-41", "UM-42")
@pytest.mark.parametrize(("meeting", "again"), [(16, 0), (17, 2 * 17)])
def test_sixteen_pages_that_meet_buffers_find_their_places_among_the_victims(meeting, again):
    # Round after round each drives the other of its slot out, and calls it back from 16 victims;
    # of 17 the first in has gone when it is wanted, and so on with each.
    receive = [touch(page, op="recv") for page in range(64)]
    send = [touch(256 + page) for page in range(meeting)]
    design = {"scheme": "unet-mm", "entries": 256, "victim_entries": 16}
    found = counted((receive + send) * 2, "ni_misses_noncompulsory", **design)
    assert found == (again,)


@pytest.mark.requirement("UM-86", "UM-40")
@pytest.mark.parametrize("entries", [1024, 256])
def test_buffers_of_32_processes_at_equal_addresses_are_first_missed_by_each_and_then_stay(entries):
    # One process after the other, as the paper's zero of others implies: 2048 do not fit at once.
    rows = [
        touch(page, pid=pid, op="recv")
        for pid in range(32)
        for page in [*range(64)] * 3  # its buffers go round
    ]
    names = "ni_misses_receive_compulsory ni_misses_noncompulsory ni_misses_send"
    design = {"scheme": "unet-mm", "entries": entries, "victim_entries": 16}
    assert counted(rows, names, **design) == (64 * 32, 0, 0)
    # Whoever comes back to them finds them gone: each was displaced by the next process's.
    assert counted(rows * 2, names, **design) == (64 * 32, 64 * 32, 0)


@pytest.mark.requirement("UM-86")
@pytest.mark.parametrize(("entries", "again"), [(1024, 0), (256, 2 * 2 * (300 - 256))])
def test_pages_that_a_table_of_256_has_no_room_for_are_missed_again_and_not_in_one_of_1024(
    entries, again
):
    # Of 300 pages 44 share a set of the small table with another, and 16 victims do not last.
    rows = [touch(page) for page in range(300)] * 3
    names = "ni_misses_send_compulsory ni_misses_noncompulsory"
    design = {"scheme": "unet-mm", "entries": entries, "victim_entries": 16}
    assert counted(rows, names, **design) == (300, again)


@pytest.mark.requirement("UM-85", "MI-54")
@pytest.mark.parametrize(
    "flat", [{"scheme": "unet-mm", "victim_entries": 0}, {"scheme": "handle"}], ids=str
)
def test_misses_are_told_apart_by_path_and_by_being_the_first(flat):
    rows = [touch(0), touch(4, op="recv"), touch(8, op="recv"), touch(0, op="recv"), touch(4)]
    names = (
        "ni_misses_send ni_misses_receive ni_misses_send_compulsory ni_misses_receive_compulsory"
    )
    assert counted(rows, names, entries=4, **flat) == (2, 3, 1, 2)


@pytest.mark.requirement("UM-15")
@pytest.mark.parametrize("scheme", ["unet-mm", "interrupt", "utlb", "utlb-shared", "handle"])
def test_any_address_may_be_a_buffer_and_is_pinned_without_being_asked_for(scheme):
    rows = [(0, 0, 1, "send", 2**64 - 5, 5), (0, 0, 1, "recv", 12_345, 7)]
    victims = {"victim_entries": 1} if scheme == "unet-mm" else {}
    assert total(rows, scheme=scheme, entries=4, **victims)["pins"] == 2


# --- UTLB -----------------------------------------------------------------------------------


@pytest.mark.requirement("UT-1")
def test_a_page_is_pinned_at_its_first_use_and_stays_pinned():
    rows = [touch(5)] * 10
    names = "check_misses pins unpins pin_calls ni_misses"
    assert counted(rows, names, scheme="utlb", entries=4) == (1, 1, 0, 1, 1)


@pytest.mark.requirement("UT-57", "UT-60")
@pytest.mark.parametrize("scheme", ["utlb", "utlb-shared", "utlb-process"])
def test_each_run_of_unpinned_pages_of_a_request_is_pinned_by_one_call(scheme):
    rows = [touch(3), touch(0, 8)]  # 0-2 and 4-7 are missing
    assert counted(rows, "check_misses pins pin_calls", scheme=scheme, entries=8) == (8, 8, 3)


@pytest.mark.requirement("UT-59")
def test_a_transfer_is_split_at_page_boundaries_and_each_page_looked_up():
    rows = [(0, 0, 1, "send", PAGE - 1, PAGE + 2)]
    assert counted(rows, "requests lookups ni_misses", scheme="utlb", entries=4) == (1, 3, 3)


@pytest.mark.requirement("UT-10", "UT-14", "UT-17")
def test_a_full_table_of_a_process_makes_it_unpin_whatever_room_others_have():
    rows = [touch(0, pid=2), *(touch(page) for page in (0, 1, 2, 0))]
    names = "ni_misses pins unpins peak_pinned_pages"
    assert counted(rows, names, scheme="utlb-process", entries=2) == (0, 5, 2, 3)


@pytest.mark.requirement("UT-10")
def test_each_process_takes_a_table_of_fixed_size_on_the_nic():
    rows = [touch(page, pid=pid) for pid in (1, 2, 3) for page in range(5)]
    account = result(rows, scheme="utlb-process", entries=256).nic_memory_bytes
    assert account == {"tables": 3 * 256 * 4}


@pytest.mark.requirement("UT-16")
@pytest.mark.parametrize("policy", ["lru", "mru", "lfu", "mfu", "random"])
def test_no_page_of_the_request_itself_is_unpinned_for_it(policy):
    design = {"scheme": "utlb", "entries": 8, "pin_limit": 3, "replacement": policy}
    history = [touch(0, 3), touch(2, 2), touch(2, 2)]  # the last finds both its pages pinned
    assert counted(history, "check_misses unpins pins peak_pinned_pages", **design) == (4, 1, 4, 3)


@pytest.mark.requirement("UT-20", "UT-21")
def test_processes_share_the_cache_but_not_the_entries():
    alone = [touch(0, pid=1), touch(0, pid=1)]
    shared = [touch(0, pid=1), touch(0, pid=2), touch(0, pid=1)]
    for scheme in ("utlb", "utlb-shared"):
        assert total(alone, scheme=scheme, entries=1)["ni_misses"] == 1
        assert total(shared, scheme=scheme, entries=1)["ni_misses"] == 3
        assert total(shared, scheme=scheme, entries=2, ways=2)["ni_misses"] == 2


@pytest.mark.requirement("UT-3", "UT-11")
def test_the_shared_cache_is_asked_for_indices_which_are_dense_whatever_the_pages():
    rows = [touch(page) for page in (0, 400, 8000, 12)] * 2  # all in one set, as pages
    assert total(rows, scheme="utlb-shared", entries=4)["ni_misses"] == 4
    assert total(rows, scheme="utlb", entries=4)["ni_misses"] == 8


@pytest.mark.requirement("UT-23")
def test_misses_are_compulsory_capacity_or_conflict():
    names = "ni_misses_compulsory ni_misses_capacity ni_misses_conflict"
    in_one_set = [touch(page) for page in (0, 4, 0, 4)]
    too_many = [touch(page) for page in (0, 1, 2, 3, 4, 0)]
    assert counted(in_one_set, names, scheme="utlb", entries=4) == (2, 0, 2)
    assert counted(too_many, names, scheme="utlb", entries=4) == (5, 1, 0)


@pytest.mark.requirement("UT-24")
@pytest.mark.parametrize(("ways", "misses"), [(1, 8), (2, 8), (4, 4)])
def test_ways_hold_as_many_pages_of_one_set(ways, misses):
    rows = [touch(page) for page in (0, 16, 32, 48)] * 2
    assert total(rows, scheme="utlb", entries=16, ways=ways)["ni_misses"] == misses


@pytest.mark.requirement("UT-25")
@pytest.mark.parametrize("scheme", ["interrupt", "utlb", "utlb-shared"])
@pytest.mark.parametrize("ways", [1, 2])
def test_the_index_offset_keeps_equal_pages_of_processes_apart_and_can_be_off(scheme, ways):
    rows = [touch(0, pid=pid) for pid in range(4)] * 2
    design = {"scheme": scheme, "entries": 1024, "ways": ways}
    assert total(rows, **design)["ni_misses"] == 4
    assert total(rows, **design, index_offset=False)["ni_misses"] == 8


@pytest.mark.requirement("UT-29")
def test_what_utlb_leaves_open_is_chosen_as_it_is_written_down():
    design = {"scheme": "utlb", "entries": 8192}
    # 4 bytes to an entry: 8 K of them are the prototype's 32 KB.
    assert result([touch(0)], **design).nic_memory_bytes["frames"] == 32 << 10
    # The set is the page plus so many times a constant as the process came late on its node.
    step = 0x29B27
    for ordinal in (1, 2, 5):
        first = [touch(100, pid=pid) for pid in range(ordinal + 1)]
        meeting = touch(100 - step * ordinal % 8192 + 8192, pid=ordinal)
        beside = touch(101 - step * ordinal % 8192 + 8192, pid=ordinal)
        assert total([*first, meeting, touch(100, pid=0)], **design)["ni_misses"] == ordinal + 3
        assert total([*first, beside, touch(100, pid=0)], **design)["ni_misses"] == ordinal + 2
    # In a set the page leaves that was looked up longest ago.
    rows = [touch(page) for page in (0, 8, 0, 16, 0, 8)]
    assert total(rows, scheme="utlb", entries=16, ways=2)["ni_misses"] == 4


@pytest.mark.requirement("UT-26")
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_one_miss_brings_as_many_consecutive_entries_as_are_asked_for(width):
    rows = [touch(0, 64)]
    names = "ni_misses entries_fetched"
    assert counted(rows, names, scheme="utlb", entries=64, prefetch=width) == (64 // width, 64)


@pytest.mark.requirement("UT-27")
def test_prefetching_neighbours_that_are_not_pinned_is_of_no_use():
    rows = [touch(page) for page in range(64)]  # each is pinned only when its turn comes
    assert total(rows, scheme="utlb", entries=64, prefetch=8)["ni_misses"] == 64
    assert total(rows, scheme="utlb", entries=64, prefetch=8, prepin=8)["ni_misses"] == 8


@pytest.mark.requirement("UT-32")
def test_one_dma_reads_entries_of_one_second_level_table_and_ends_with_it():
    rows = [touch(1020, 8)]  # the table ends with page 1023
    names = "ni_misses entries_fetched interrupts"
    assert counted(rows, names, scheme="utlb", entries=64, prefetch=16) == (2, 4 + 16, 0)


@pytest.mark.requirement("UT-31")
def test_the_nic_holds_a_directory_of_the_second_level_tables_in_use():
    near = result([touch(0), touch(1023)], scheme="utlb", entries=4).nic_memory_bytes
    far = result([touch(0), touch(1024), touch(0, pid=2)], scheme="utlb", entries=4)
    assert far.nic_memory_bytes["directory"] == 3 * near["directory"] > 0


def test_tables_that_only_another_design_needs_are_not_in_the_account():
    designs = [design_of({"scheme": "utlb", "entries": 4, "prepin": n}) for n in (1, 2)]
    one, two = replay([columns_of([touch(1023)])], designs)
    assert two.nic_memory_bytes["directory"] == 2 * one.nic_memory_bytes["directory"]


@pytest.mark.requirement("UT-34")
@pytest.mark.parametrize(("scheme", "misses"), [("utlb", 3), ("utlb-shared", 4)])
def test_tables_by_page_do_not_fragment_as_tables_of_indices_do(scheme, misses):
    # pages 1 and 3 make room for 10 and 11, whose indices are then no neighbours
    rows = [touch(0, 4), touch(0), touch(2), touch(10, 2)]
    design = {"scheme": scheme, "entries": 64, "pin_limit": 4, "prefetch": 2}
    assert total(rows, **design)["ni_misses"] == misses


@pytest.mark.requirement("UT-39")
@pytest.mark.parametrize("scheme", ["utlb", "utlb-shared", "interrupt"])
def test_the_entry_of_a_page_that_is_unpinned_leaves_the_nic(scheme):
    rows = [touch(0), touch(1), touch(0)]
    names = "unpins ni_misses ni_misses_noncompulsory ni_misses_invalidated"
    repeated = {"utlb": (2, 3, 1, 1), "utlb-shared": (2, 3, 2, 2), "interrupt": (2, 3, 1, 1)}
    assert counted(rows, names, scheme=scheme, entries=64, pin_limit=1) == repeated[scheme]


@pytest.mark.requirement("UT-40", "UT-41", "UT-45", "UT-15")
@pytest.mark.parametrize(("policy", "victim"), [("lru", 0), ("mru", 3), ("lfu", 2), ("mfu", 1)])
def test_the_policy_chooses_what_is_unpinned_at_the_limit(policy, victim):
    history = [touch(page) for page in (0, 0, 1, 1, 1, 2, 3, 3, 4)]
    design = {"scheme": "utlb", "entries": 8, "pin_limit": 4, "replacement": policy}
    for page in range(4):
        assert total([*history, touch(page)], **design)["check_misses"] == 5 + (page == victim)


@pytest.mark.requirement("UT-42")
def test_a_request_longer_than_the_limit_is_rejected_and_pins_nothing():
    names = "rejected pins ni_misses"
    assert counted([touch(0, 5)], names, scheme="utlb", entries=8, pin_limit=4) == (1, 0, 0)


@pytest.mark.requirement("UT-44", "UT-82")
def test_a_displaced_entry_returns_without_a_pin_under_utlb_and_with_one_under_interrupts():
    rows = [touch(0), touch(4), touch(0)]
    names = "ni_misses pins unpins interrupts entries_fetched"
    assert counted(rows, names, scheme="utlb", entries=4) == (3, 2, 0, 0, 3)
    assert counted(rows, names, scheme="interrupt", entries=4) == (3, 3, 2, 3, 0)


@pytest.mark.requirement("SH-9")
@pytest.mark.parametrize(
    ("scheme", "by_whom"),
    [
        # interrupts, pins in the kernel's hands, entries that the NIC reads itself, drops
        ("interrupt", (1, 1, 0, 0)),
        ("unet-mm", (1, 1, 0, 0)),
        ("utlb", (0, 0, 1, 0)),
        ("utlb-shared", (0, 0, 1, 0)),
        ("handle", (1, 1, 0, 1)),
    ],
)
def test_who_acts_on_a_miss_is_the_host_the_nic_or_a_kernel_thread(scheme, by_whom):
    victims = {"victim_entries": 1} if scheme == "unet-mm" else {}
    counts = total([touch(0)] * 2, scheme=scheme, entries=4, **victims)
    by_library = counts["check_misses"] or 0  # before the NIC is asked
    acts = (
        counts["interrupts"],
        counts["pins"] - by_library,
        counts["entries_fetched"],
        counts["dropped"],
    )
    assert tuple(each or 0 for each in acts) == by_whom
    assert counts["ni_misses"] == counts["pins"] == 1


@pytest.mark.requirement("UT-91")
def test_pinning_ahead_takes_n_pages_from_the_missing_one_and_unpins_one_by_one():
    rows = [touch(0), touch(20), touch(40)]
    names = "check_misses pins pin_calls unpins unpin_calls"
    found = counted(rows, names, scheme="utlb", entries=64, prepin=16, pin_limit=32)
    assert found == (3, 48, 3, 16, 16)


# --- one component, configured ---------------------------------------------------------------


@pytest.mark.requirement("SH-6")
def test_the_same_cache_misses_the_same_in_three_systems():
    rows = [touch(page * page % 53) for page in range(300)]
    misses = {
        total(rows, scheme="unet-mm", entries=16, victim_entries=0)["ni_misses"],
        total(rows, scheme="interrupt", entries=16, index_offset=False)["ni_misses"],
        total(rows, scheme="utlb", entries=16, index_offset=False)["ni_misses"],
        total(rows, scheme="handle", entries=16)["ni_misses"],
    }
    assert len(misses) == 1
