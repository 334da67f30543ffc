"""VIA with parts of other systems: translation caches, and delivery that cuts through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nicscope.interfaces.via.journal import TRANSLATING, Journal, Part
from nicscope.interfaces.via.translating import Translation
from numba.core import config
from pairs import COHERENT, DELIVERY, RECEPTION, UNRELIABLE, run_pair

from nicscope.config.design import load_design, with_settings
from nicscope.errors import DesignError, SimulationError
from nicscope.interfaces.via import Cluster, Error, Status

BY_NIC = (*COHERENT, "dma")
MOST = 900 if config.DISABLE_JIT else 20_000
FEW = 4 if config.DISABLE_JIT else 12
PRICES = {
    "user_check": 1, "user_pin": 1000, "ni_check": 17, "ni_miss": 300, "interrupt": 10_000,
    "kernel_pin": 100, "user_unpin": 0, "kernel_unpin": 0,
}  # fmt: skip
PRICED = {
    "user_check": "lookups", "user_pin": "pins", "ni_check": "lookups", "ni_miss": "ni_misses",
    "interrupt": "interrupts", "kernel_pin": "interrupts",
}  # fmt: skip


def pattern(size, seed):
    return bytes((seed * 31 + i * 7 + (i >> 8)) % 256 for i in range(size))


def prices(steps):
    def of(counts):
        return {step: PRICES[step] * counts[PRICED[step]] for step in steps}

    return of


UTLB = ("user_check", "user_pin", "ni_check", "ni_miss")
INTERRUPT = ("ni_check", "interrupt", "kernel_pin")


def translation(name, steps, *changes):
    return Translation(with_settings(load_design(name), list(changes)), prices(steps))


def exchange(size, mechanism, messages=2, pages=1, **how):
    """Journals of ``messages`` messages over ``pages`` buffers in turn; each arrives unchanged."""
    room = pages * 4096 * (size // 4096 + 1)
    step = room // pages

    async def first(end):
        for seed in range(messages):
            at = seed % pages * step
            await end.nic.write(end.out.address + at, pattern(size, seed))
            await end.nic.post_send(end.vi, end.send(at, size))
            assert (await end.nic.send_wait(end.vi)).ok
            await end.nic.compute(2000)

    async def second(end):
        journals = []
        for seed in range(messages):
            at = seed % pages * step
            await end.nic.post_recv(end.vi, end.receive(at, size))
            found = await end.nic.recv_wait(end.vi)
            assert found.ok
            assert found.journal.at == end.nic.now_ps
            assert sum(found.journal.parts) == found.journal.at - found.journal.begin
            assert await end.nic.read(end.into.address + at, size) == pattern(size, seed)
            journals.append(found.journal)
        return journals

    async def later(end):
        await end.nic.compute(100)
        await first(end)

    return run_pair(later, second, mechanism, posted=0, room=room, **how)[1]


@settings(max_examples=FEW)
@given(
    mechanism=st.sampled_from(BY_NIC),
    size=st.integers(0, MOST),
    mtu=st.sampled_from([64, 700, 1500]),
    level=st.sampled_from([UNRELIABLE, DELIVERY, RECEPTION]),
    scattered=st.booleans(),
    loss=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 99),
)
def test_what_cuts_through_arrives_unchanged_and_its_parts_add_up(
    mechanism, size, mtu, level, scattered, loss, seed
):
    how = {"loss": 0.0 if level is UNRELIABLE else loss, "seed": seed, "scattered": scattered}
    changed = {"mtu": mtu, "retries": 60}
    exchange(size, mechanism, level=level, delivery="cut-through", settings=changed, **how)


@pytest.mark.parametrize("mechanism", BY_NIC)
def test_cutting_through_hides_transfers_of_all_but_one_fragment(mechanism):
    size = 900

    def took(size, delivery):
        found = exchange(
            size, mechanism, level=UNRELIABLE, delivery=delivery, settings={"mtu": 300}
        )
        return found[-1].at - found[-1].begin

    assert took(300, "cut-through") == took(300, "store-and-forward")
    assert took(size, "cut-through") < took(size, "store-and-forward")


def test_a_message_that_loses_a_fragment_after_some_went_through_is_not_completed():
    async def first(end):
        for seed in range(12):
            await end.nic.write(end.out.address, pattern(300, seed))
            await end.nic.post_send(end.vi, end.send(0, 300))
            await end.nic.send_wait(end.vi)
            await end.nic.compute(50)

    async def second(end):
        for place in range(12):
            await end.nic.post_recv(end.vi, end.receive(place * 320, 320))
        await end.nic.compute(5000)
        found = []
        while (done := await end.nic.recv_done(end.vi)) is not None:
            found.append(await end.nic.read(done.data[0].address, 300))
        return found

    how = {"loss": 0.3, "seed": 3, "settings": {"mtu": 100}, "delivery": "cut-through"}
    _, found = run_pair(first, second, "cc-dma-intervention", UNRELIABLE, posted=0, **how)
    assert 0 < len(found) < 12
    assert all(one in [pattern(300, seed) for seed in range(12)] for one in found)


@pytest.mark.parametrize("level", [UNRELIABLE, DELIVERY])
def test_a_message_that_does_not_fit_does_not_go_through(level):
    async def first(end):
        await end.nic.write(end.out.address, b"x" * 300)
        await end.nic.post_send(end.vi, end.send(0, 300))
        await end.nic.send_wait(end.vi)

    async def second(end):
        await end.nic.post_recv(end.vi, end.receive(0, 299))
        done = await end.nic.recv_wait(end.vi)
        return done.status, await end.nic.read(end.into.address, 299), end.nic.errors(end.vi)

    async def later(end):
        await end.nic.compute(100)
        await first(end)

    how = {"delivery": "cut-through", "settings": {"mtu": 100}}
    status, raw, errors = run_pair(later, second, "edt", level, posted=0, **how)[1]
    assert status & Status.VIP_STATUS_LENGTH_ERROR
    assert raw == bytes(299)
    assert errors == ([] if level is UNRELIABLE else [Error.VIP_ERROR_COMP_PROT])


@pytest.mark.parametrize(("name", "steps"), [("utlb", UTLB), ("vmmc-interrupt", INTERRUPT)])
@pytest.mark.parametrize("mechanism", ["cc-dma-intervention", "dma"])
def test_a_hit_takes_its_lookups_in_place_of_the_messagings_own(name, steps, mechanism):
    size = 200
    plain = exchange(size, mechanism, messages=3)[-1]
    found = exchange(size, mechanism, messages=3, translation=translation(name, steps))[-1]
    changed = {part: ps for part, ps in enumerate(found.parts) if ps != plain.parts[part]}
    own = 200_000  # of a segment, as the platform has it
    # Looked up: the send's descriptor and its message there, the receive's memory here.
    assert changed.pop(Part.TRANSLATION) == 3 * PRICES["ni_check"]
    assert changed.pop(Part.PIN, 0) == 2 * PRICES["user_check"] * ("user_check" in steps)
    assert plain.parts[Part.SEND] - changed.pop(Part.SEND) == 2 * own
    assert plain.parts[Part.RECEIVE] - changed.pop(Part.RECEIVE) == own
    assert found.parts[Part.MISS] == 0
    assert all(part in (Part.DMA_EXEC, Part.LIBRARY, Part.COPY) for part in changed)


@pytest.mark.parametrize(
    ("name", "steps", "miss"), [("utlb", UTLB, 300), ("vmmc-interrupt", INTERRUPT, 10_100)]
)
def test_more_buffers_than_entries_miss_each_time_and_each_miss_is_served(name, steps, miss):
    def last(pages, entries):
        made = translation(name, steps, f"entries={entries}")
        return exchange(64, "cc-dma-intervention", messages=16, pages=pages, translation=made)[
            -1
        ].parts

    hit, missed = last(1, 64), last(8, 2)
    assert hit[Part.MISS] == 0
    assert missed[Part.MISS] in (2 * miss, 3 * miss)  # the message here and there, and descriptors
    assert missed[Part.TRANSLATION] == hit[Part.TRANSLATION]


@pytest.mark.parametrize("mechanism", ["edt", "cni", "pio", "pio-combined"])
def test_a_translation_cache_makes_no_sense_where_the_nic_needs_no_translation(mechanism):
    with pytest.raises(SimulationError, match=f"^{mechanism} takes no translation cache: "):
        Cluster(mechanism=mechanism, translation=translation("utlb", UTLB))


@pytest.mark.parametrize("mechanism", ["cni", "pio", "pio-combined"])
def test_what_the_processor_moves_whole_cannot_cut_through(mechanism):
    with pytest.raises(SimulationError, match=f"^{mechanism} cannot cut through: "):
        Cluster(mechanism=mechanism, delivery="cut-through")


def test_a_design_that_copies_instead_of_translating_is_refused():
    with pytest.raises(DesignError, match=r"'unet': VI-MSG translates by .*, not by pinned"):
        Cluster(mechanism="dma", translation=translation("unet", ()))


def test_time_that_ran_beside_is_not_booked_twice():
    own, other = Journal(0), Journal(100)
    other.spend(Part.DMA_INIT, 130)
    other.spend(Part.DMA_EXEC, 180)
    other.spend(Part.DMA_INTERRUPT, 190)
    own.spend(Part.SEND, 140)
    own.overlap(other)
    assert own.at == 190
    expected = {Part.SEND: 140, Part.DMA_EXEC: 40, Part.DMA_INTERRUPT: 10}
    assert {part: ps for part, ps in enumerate(own.parts) if ps} == expected
    own.overlap(other)
    assert own.at == 190
    assert all(own.parts[part] == 0 for part in TRANSLATING)
