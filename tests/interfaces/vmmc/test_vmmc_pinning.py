"""VMMC's user library at work: what is pinned when, what goes, and who decides."""

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces.vmmc import Cluster
from nicscope.memory.pinning import PINNED
from nicscope.nic.layout import FRAME_BITS
from nicscope.nic.ports.layout import WRITE
from program_results import results_of
from refusals import refused

PAGE = 4096


def run(program, design="utlb", kept=1, **settings):
    async def keep(endpoint):
        await endpoint.export(endpoint.allocate(kept * PAGE), "b")

    async def user(endpoint):
        return await program(endpoint, await endpoint.import_buffer(0, "b"))

    cluster = Cluster(design, **settings)
    return cluster, results_of(cluster, keep, user)[1]


async def send_pages(endpoint, remote, buffer, pages):
    """Store one page after the other, each to its end; whether all did."""
    ended = []
    for page in pages:
        transfer = await endpoint.store(remote, buffer, at=page * PAGE, length=64)
        ended.append((await endpoint.wait(transfer)).ok)
    return all(ended)


def pages_of(endpoint):
    return [pinned.page for pinned in endpoint.pinned_pages()]


@pytest.mark.requirement("UT-1", "UT-4", "UT-30")
def test_pages_are_pinned_at_first_use_and_later_sends_make_no_further_call():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(2 * PAGE)
        nothing = pages_of(endpoint)
        await send_pages(endpoint, remote, buffer, [0])
        first = pages_of(endpoint), endpoint.cluster.counts(1)
        await send_pages(endpoint, remote, buffer, [0] * 30)
        return nothing, first, endpoint.cluster.counts(1)

    cluster, (nothing, (pinned, before), after) = run(program)

    assert nothing == []
    assert pinned == [0]
    assert before["pin_calls"] == after["pin_calls"] == 1
    assert before["ni_misses"] == after["ni_misses"] == 1
    assert after["lookups"] == 31
    assert cluster.served(1)["interrupts"] == 0


@pytest.mark.requirement("UT-13")
def test_one_call_pins_a_run_and_puts_its_frames_at_the_indices_that_the_library_chose():
    """The lowest free ones of its process's table; the frames are those of the page table."""

    async def program(endpoint, remote):
        buffer = endpoint.allocate(6 * PAGE)
        machine = endpoint.cluster.simulation.machine
        frames = machine.ports.memory.entries[1, 0, :6]["frame"]

        def seen():
            at = [int(frame) & FRAME_BITS for frame in machine.ports.translations.nic.frames[1, :6]]
            pages = [[*frames].index(frame) if frame in frames else None for frame in at]
            return endpoint.cluster.counts(1)["pin_calls"], pages_of(endpoint), pages

        await send_pages(endpoint, remote, buffer, [3])
        found = [seen()]
        await endpoint.wait(await endpoint.store(remote, buffer.part(0, 4 * PAGE)))
        found.append(seen())
        await endpoint.unpin(buffer.part(PAGE, 2 * PAGE))
        await send_pages(endpoint, remote, buffer, [5])
        return [*found, seen()]

    _, found = run(program, "utlb-process", kept=4, entries=8)
    assert found[0] == (1, [3], [3, *[None] * 5])
    assert found[1] == (2, [0, 1, 2, 3], [3, 0, 1, 2, None, None])
    assert found[2][:2] == (3, [0, 3, 5])
    assert found[2][2][:3] == [3, 0, 5]


# The last page that was used is 0; 1 was used once, all others twice; a fifth does not fit.
@pytest.mark.requirement("UT-40", "UT-41", "UT-42", "UT-45")
@pytest.mark.parametrize(
    ("policy", "victim"),
    [("lru", {2}), ("mru", {0}), ("lfu", {1}), ("mfu", {2}), ("random", {0, 1, 2, 3})],
)
def test_the_five_policies_choose_by_their_rules(policy, victim):
    async def program(endpoint, remote):
        buffer = endpoint.allocate(5 * PAGE)
        assert await send_pages(endpoint, remote, buffer, [0, 2, 3, 2, 3, 1, 0])
        assert await send_pages(endpoint, remote, buffer, [4])
        return {0, 1, 2, 3, 4} - set(pages_of(endpoint))

    cluster, gone = run(program, pin_limit=4, replacement=policy)

    assert len(gone) == 1
    assert gone <= victim
    assert cluster.counts(1)["peak_pinned_pages"] == 4
    assert cluster.counts(1)["unpins"] == 1


@pytest.mark.requirement("UT-40", "UT-15")
@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process"])
def test_an_application_may_bring_a_policy_of_its_own(design):
    asked = []

    def second_lowest(pages):
        asked.append(pages)
        return sorted(page.page for page in pages)[1]

    async def program(endpoint, remote):
        endpoint.policy = second_lowest
        buffer = endpoint.allocate(8 * PAGE)
        ok = await send_pages(endpoint, remote, buffer, [0, 1, 2, 2, 3, 4, 5])
        return ok, pages_of(endpoint)

    limit = "entries" if design == "utlb-process" else "pin_limit"
    cluster, (ok, pinned) = run(program, design, **{limit: 4})

    assert ok
    assert pinned == [0, 3, 4, 5]  # 1 went for 4, then 2 for 5
    assert [[page.page for page in pages] for pages in asked] == [[0, 1, 2, 3], [0, 2, 3, 4]]
    assert [page.uses for page in asked[0]] == [1, 1, 2, 1]
    assert asked[0][0].last_use_us < asked[0][1].last_use_us
    counts = cluster.counts(1)
    assert counts["unpin_calls"] == counts["unpins"] == 2
    assert counts["peak_pinned_pages"] == 4
    assert cluster.served(1)["stale"] == 0


def test_a_policy_that_names_what_it_was_not_handed_is_stopped():
    async def program(endpoint, remote):
        endpoint.policy = lambda _: 77
        await send_pages(endpoint, remote, endpoint.allocate(5 * PAGE), range(5))

    with refused(SimulationError, "page 77"):
        run(program, pin_limit=2)


@pytest.mark.requirement("UT-16")
@pytest.mark.parametrize("own", [False, True])
def test_pages_of_outstanding_requests_are_never_victims(own):
    async def program(endpoint, remote):
        if own:
            endpoint.policy = lambda pages: pages[0].page
        buffer = endpoint.allocate(8 * PAGE)
        for page in range(8):
            await buffer.write(bytes([page + 1]) * PAGE, page * PAGE)
        for page in range(8):  # posted without a wait: six of them must wait for room
            await endpoint.store(remote, buffer, page * 512, at=page * PAGE, length=512)
            assert len(endpoint.pinned_pages()) <= 2
            pinning = endpoint._ports.translations.host.pinning
            assert (pinning.state[pinning.held > 0] & PINNED).all()
        statuses = {(await endpoint.wait()).status for _ in range(8)}
        back = endpoint.allocate(PAGE)
        await endpoint.wait(await endpoint.fetch(remote, back))
        return statuses, await back.read()

    # MRU would name the page that was posted last, which its transfer still needs.
    cluster, (statuses, content) = run(program, pin_limit=2, replacement="mru")

    assert statuses == {"done"}
    assert content == b"".join(bytes([page + 1]) * 512 for page in range(8))
    assert cluster.counts(1)["unpins"] == 7
    assert cluster.served(0)["stale"] == cluster.served(1)["stale"] == 0


@pytest.mark.requirement("UT-42")
def test_more_than_the_limit_is_refused_and_nothing_is_pinned():
    async def program(endpoint, remote):
        transfer = await endpoint.store(remote, endpoint.allocate(5 * PAGE))
        return (await endpoint.wait(transfer)).status, pages_of(endpoint)

    assert run(program, pin_limit=4)[1] == ("no room", [])


@pytest.mark.requirement("UT-35", "UT-42")
def test_exported_pages_count_and_stay_and_what_does_not_fit_beside_them_is_refused():
    async def program(endpoint):
        mine = endpoint.allocate(3 * PAGE)
        exported = await endpoint.export(mine, "mine")
        remote = await endpoint.import_buffer(0, "b")
        buffer = endpoint.allocate(2 * PAGE)
        fits = await endpoint.wait(await endpoint.store(remote, buffer, length=PAGE))
        too_much = await endpoint.wait(await endpoint.store(remote, buffer))
        with refused(SimulationError, "'more'", "8192 bytes"):
            await endpoint.export(endpoint.allocate(2 * PAGE), "more")
        await endpoint.unexport(exported)
        then = await endpoint.wait(await endpoint.store(remote, buffer))
        return fits.status, too_much.status, then.status

    cluster = Cluster("utlb", pin_limit=4)

    async def keep_little(endpoint):
        await endpoint.export(endpoint.allocate(2 * PAGE), "b")

    assert results_of(cluster, keep_little, program)[1] == ("done", "no room", "done")


@pytest.mark.requirement("UT-91")
def test_pages_ahead_are_pinned_by_one_call():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(8 * PAGE)
        await send_pages(endpoint, remote, buffer, [0])
        ahead = pages_of(endpoint)
        began = endpoint.now_us
        await send_pages(endpoint, remote, buffer, [1, 2, 3])
        return ahead, endpoint.now_us - began

    many, (ahead, quick) = run(program, prepin=4)
    one, (alone, slow) = run(program)

    assert ahead == [0, 1, 2, 3]
    assert alone == [0]
    assert many.counts(1)["pin_calls"] == 1
    assert one.counts(1)["pin_calls"] == 4
    assert quick < slow - 3 * 26


@pytest.mark.requirement("UT-14", "UT-39")
def test_an_unpinned_page_leaves_the_nic_too():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(3 * PAGE)
        await send_pages(endpoint, remote, buffer, [0, 1, 2])
        gone = await endpoint.unpin(buffer)
        again = await endpoint.unpin(buffer)
        before = endpoint.cluster.counts(1)
        ok = await send_pages(endpoint, remote, buffer, [0])
        return gone, again, ok, before, endpoint.cluster.counts(1)

    cluster, (gone, again, ok, before, after) = run(program)

    assert (gone, again, ok) == (3, 0, True)
    assert (before["unpins"], before["unpin_calls"]) == (3, 1)
    assert after["ni_misses"] == before["ni_misses"] + 1
    assert after["pins"] == before["pins"] + 1
    assert cluster.served(1)["stale"] == 0
    assert cluster.served(1)["garbage"] == 0


@pytest.mark.requirement("UT-16")
def test_what_a_transfer_needs_is_not_unpinned_on_request_either():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(4 * PAGE)
        transfer = await endpoint.store(remote, buffer)
        early = await endpoint.unpin(buffer)
        done = await endpoint.wait(transfer)
        return early, done.status, await endpoint.unpin(buffer)

    cluster, result = run(program, kept=4)

    assert result == (0, "done", 4)
    assert cluster.served(1)["stale"] == 0


@pytest.mark.requirement("UT-33")
def test_a_bit_for_each_page_tells_whether_it_is_pinned_and_nothing_else_does():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(3 * PAGE)
        found = []

        async def look():
            parts = [buffer.part(page * PAGE, PAGE) for page in range(3)]
            bits = [await endpoint.check(part) for part in parts]
            found.append((bits, await endpoint.check(buffer)))

        await look()
        await send_pages(endpoint, remote, buffer, [1])
        await look()
        await send_pages(endpoint, remote, buffer, [0, 2])
        await look()
        await endpoint.unpin(buffer.part(0, PAGE))
        await look()
        return found

    assert run(program)[1] == [
        ([False, False, False], False),
        ([False, True, False], False),
        ([True, True, True], True),
        ([False, True, True], False),
    ]


@pytest.mark.requirement("UT-71")
def test_the_library_s_check_takes_longer_the_later_in_its_word_the_page_lies():
    async def program(endpoint, _):
        buffers = [endpoint.allocate(PAGE) for _ in range(33)]
        times = []
        for buffer in buffers:
            began = endpoint.now_us
            assert not await endpoint.check(buffer)
            times.append(round(endpoint.now_us - began, 6))
        return times

    times = run(program)[1]

    assert times[0] == times[32] == 0.2
    assert times[31] == 0.4
    assert times[:32] == sorted(times[:32])


def test_without_a_user_library_there_is_nothing_to_unpin():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(PAGE)
        await send_pages(endpoint, remote, buffer, [0])
        return await endpoint.unpin(buffer), len(endpoint.pinned_pages())

    assert run(program, "vmmc-static")[1] == (0, 1)


@pytest.mark.requirement("UT-17")
def test_a_small_table_of_a_process_makes_the_library_unpin_where_a_shared_cache_need_not():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(8 * PAGE)
        return await send_pages(endpoint, remote, buffer, list(range(8)) * 3)

    small, _ = run(program, "utlb-process", entries=8)
    tight, _ = run(program, "utlb-process", entries=4)
    shared, _ = run(program, "utlb", entries=4)

    assert small.counts(1)["unpins"] == 0
    assert tight.counts(1)["unpins"] == 20
    assert shared.counts(1)["unpins"] == 0


@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process", "vmmc-static"])
def test_what_could_not_be_pinned_does_not_count_as_pinned_once_it_is_mapped(design):
    async def program(endpoint, remote):
        await endpoint.post(WRITE, remote.number, [(0, 16)])  # nothing is mapped yet
        early = (await endpoint.done()).status
        nothing = pages_of(endpoint)
        buffer = endpoint.allocate(PAGE)
        await buffer.write(b"here")
        ended = await endpoint.wait(await endpoint.store(remote, buffer))
        back = endpoint.allocate(4)
        await endpoint.wait(await endpoint.fetch(remote, back))
        return early, nothing, ended.status, await back.read()

    cluster, result = run(program, design)

    assert result == ("no rights", [], "done", b"here")
    assert cluster.served(1)["garbage"] == 0
    assert cluster.counts(1)["pins"] == 2
    assert cluster.counts(1)["unpins"] == 0


@pytest.mark.requirement("UT-91")
def test_pages_ahead_that_do_not_exist_yet_are_pinned_when_they_do():
    async def program(endpoint, remote):
        buffer = endpoint.allocate(2 * PAGE)
        await send_pages(endpoint, remote, buffer, [0])
        before = pages_of(endpoint)
        other = endpoint.allocate(PAGE)
        await other.write(b"late")
        await endpoint.wait(await endpoint.store(remote, other))
        back = endpoint.allocate(4)
        await endpoint.wait(await endpoint.fetch(remote, back))
        return before, await back.read()

    assert run(program, prepin=4)[1] == ([0, 1], b"late")


@pytest.mark.requirement("UT-5")
def test_nothing_but_pins_is_asked_of_the_host():
    """Through misses, evictions and the pin limit: no interrupt, no thread, no changed page."""
    pages = 12

    async def sender(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(pages * PAGE)
        for page in range(pages):
            await buffer.write(bytes([page]) * PAGE, page * PAGE)
        memory = endpoint._ports.memory
        before = memory.entries[1, 0, :pages].tobytes()
        began = endpoint.now_us
        for _ in range(2):
            for page in range(pages):
                await endpoint.wait(
                    await endpoint.store(remote, buffer.part(page * PAGE, PAGE), page * PAGE)
                )
        await endpoint.wait(await endpoint.fetch(remote, buffer))
        assert endpoint.now_us > began
        return memory.entries[1, 0, :pages].tobytes() == before

    async def owner(endpoint):
        table = endpoint.allocate(pages * PAGE)
        await endpoint.export(table, "table")

    cluster = Cluster("utlb", entries=4, pin_limit=pages)
    _, untouched = results_of(cluster, owner, sender)
    assert untouched
    counts = cluster.counts(1)
    assert counts["ni_misses"] > counts["lookups"] / 2
    assert counts["interrupts"] == 0
    for node in cluster.simulation.machine.ports.nodes:
        assert not any(
            node[name]
            for name in ("interrupts", "thread_misses", "stolen", "kernel_time", "page_ins")
        )


@pytest.mark.parametrize("pages", [0, 1, 3])
@pytest.mark.parametrize("design", ["utlb", "vmmc-interrupt"])
def test_closing_unpins_by_one_call_or_none_where_nothing_was_pinned(design, pages):
    async def program(endpoint, remote):
        await send_pages(endpoint, remote, endpoint.allocate(4 * PAGE), range(pages))
        await endpoint.close_port()
        return endpoint.cluster.counts(1)

    _, counts = run(program, design)

    assert counts["unpins"] == counts["pins"] == pages
    # The kernel's own unpinning, for a NIC that interrupts it, is no call of a process.
    assert counts["unpin_calls"] == (pages > 0 and design == "utlb")
