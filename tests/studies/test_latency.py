"""Latency taken apart: parts add up, and have the shapes that the paper describes."""

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from nicscope.config.design import Way
from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.observe import Engine
from nicscope.errors import NicscopeError, StudyError
from nicscope.interfaces.via import Cluster, Nic, Reliability
from nicscope.studies import latency
from nicscope.studies.latency import (
    DATA_TRANSFER,
    TRANSPORT,
    Part,
    Setting,
    ask,
    measure,
    ping_pong,
)
from refusals import refused
from suite import share

pytestmark = pytest.mark.compiled  # thousands of messages

THREE = ("edt", "cc-dma-intervention", "cc-dma-retry")
WAYS = [way.value for way in Way]
PACKETS = 4  # before the first that counts


@pytest.fixture(autouse=True)
def soon_warm(monkeypatch):
    """Have caches be warm after a few messages."""
    monkeypatch.setattr(latency, "WARM_UP", PACKETS)


@pytest.mark.parametrize("mechanism", [way for way in WAYS if way not in ("pci", "cni")])
def test_each_message_that_counts_takes_as_long_as_the_others(mechanism):
    one, eight = (ping_pong(Setting("sonic-via", mechanism, {}), 64, count) for count in (1, 8))

    assert eight.total == 8 * one.total
    assert eight.parts == [8 * part for part in one.parts]


def test_messages_that_count_go_around_a_cacheable_queue_and_meet_each_burst_everywhere():
    assert latency.rounds_of(Setting("sonic-via", "cni"), 64) == (34, 32)
    assert latency.rounds_of(Setting("sonic-via", "cni"), 4096)[1] == 8
    assert latency.rounds_of(Setting("sonic-via", "edt", pages=40), 64) == (40, 40)

    platform = load_platform("sonic-via")
    said = msgspec.structs.replace(platform.machine["background_percent"], value=25)
    busy = msgspec.structs.replace(
        platform, machine={**platform.machine, "background_percent": said}
    )

    assert latency.rounds_of(Setting(busy, "edt"), 64) == (8, 16)
    assert latency.rounds_of(Setting(busy, "edt", {"background_percent": 0}), 64) == (PACKETS, 2)
    assert latency.rounds_of(Setting("sonic-via", "dma", {"background_percent": 9}), 64) == (8, 16)


@pytest.mark.parametrize(("mechanism", "operations"), [("edt", 1), ("cc-dma-intervention", 3)])
def test_each_operation_of_an_engine_waits_an_eighth_of_a_burst_in_the_mean(mechanism, operations):
    """Under EDT the write-back; by DMA descriptor and message out, message in.  4 KB: 2,560 ns."""
    bursts = {"background_percent": 25, "background_bytes": 4096}
    quiet = ping_pong(Setting("sonic-via", mechanism), 64)
    busy = ping_pong(Setting("sonic-via", mechanism, bursts), 64)

    slower = busy.total / busy.messages - quiet.total / quiet.messages
    # But for what else crosses the bus, and is met or not met then.
    assert slower == pytest.approx(operations * 2_560_000 / 8, rel=0.1)


def parts_of(mechanism, size, **changed):
    found = ping_pong(Setting("sonic-via", mechanism, changed), size, 1)
    return {part: found.parts[part] for part in Part}


@pytest.mark.requirement("ED-82")
@share(0.3, suppress_health_check=list(HealthCheck))
@given(
    way=st.sampled_from(WAYS),
    size=st.integers(1, 8192),
    mtu=st.sampled_from([100, 1500]),
    reliability=st.sampled_from(list(Reliability)),
    delivery=st.sampled_from(["message-store-and-forward", "store-and-forward"]),
)
def test_the_parts_add_up_to_the_latency(way, size, mtu, reliability, delivery):
    setting = Setting(
        "sonic-via-utlb", way, {"mtu": mtu}, delivery=delivery, reliability=reliability
    )
    found = ping_pong(setting, size, 2)

    assert sum(found.parts) == found.total
    assert min(found.parts) >= 0
    assert found.parts[Part.NETWORK] > 0  # there links take time


@pytest.mark.requirement("ED-63", "ED-82")
@pytest.mark.parametrize("mechanism", THREE)
def test_transport_steps_at_each_multiple_of_the_mtu(mechanism):
    found = [parts_of(mechanism, size, mtu=64) for size in (1, 64, 65, 128, 129)]
    moved = [sum(parts[part] for part in TRANSPORT) for parts in found]

    # Of a further frame: the sender serves it, with a lookup, takes it, and sends it in two
    # transfers, in the second of which the receiver finds its place; that has it go in and is done.
    frame = 400_000 + 200_000 + 400_000 + 200_000 + 200_000
    assert {parts[Part.NETWORK] for parts in found} == {0}  # which takes no time
    assert moved == [moved[0], moved[0], *[moved[0] + frame] * 2, moved[0] + 2 * frame]


def test_a_dearer_completion_is_all_that_a_message_waits_for():
    parts = [parts_of("edt", 64, receive_queue=ps) for ps in (500_000, 900_000)]

    assert parts[1][Part.RECEIVE] - parts[0][Part.RECEIVE] == 400_000
    assert all(parts[0][part] == parts[1][part] for part in Part if part is not Part.RECEIVE)


@pytest.mark.requirement("ED-82", "ED-81")
@pytest.mark.parametrize("size", [64, 256])
def test_mechanisms_differ_in_data_transfer_alone_and_in_the_order_of_the_paper(size):
    found = [parts_of(mechanism, size) for mechanism in THREE]

    moved = [sum(parts[part] for part in DATA_TRANSFER) for parts in found]
    assert moved[0] < moved[1] < moved[2]
    for part in (Part.USER_DATA, Part.SEND, Part.RECEIVE):
        assert len({parts[part] for parts in found}) == 1


@pytest.mark.requirement("ED-84", "ED-85")
def test_only_the_run_of_the_dma_engine_grows_with_the_message():
    small, large = (parts_of("cc-dma-intervention", size) for size in (64, 256))

    grown = {part for part in Part if large[part] > small[part]}
    with_it = {Part.USER_DATA, Part.DMA_EXEC, Part.USER_READ}
    assert with_it <= grown <= {*with_it, Part.LIBRARY}
    # The descriptor is fetched, the message is, and it is delivered.
    nic = Cluster("sonic-via").settings.nic
    for part, each in ((Part.DMA_INIT, "dma_init"), (Part.DMA_INTERRUPT, "dma_interrupt")):
        assert small[part] == large[part] == 3 * nic[each]


@pytest.mark.requirement("ED-86")
@pytest.mark.parametrize("mechanism", THREE)
def test_the_clock_runs_from_the_first_user_write_until_the_program_has_the_message(mechanism):
    found = ping_pong(Setting("sonic-via", mechanism, {}), 64, 1)

    # The right to write the block, a second line of it, and 14 words for which that is there.
    writes = (10 + 40 + 1) + (10 + 1) + 14
    assert writes <= found.parts[Part.USER_DATA] / 1000 < writes + 10  # up to the bus's next edge
    assert found.until_seen == found.total - found.parts[Part.USER_READ]
    if mechanism == "edt":
        # A block from memory, a second line of it, and 14 words that are there.
        loads = (10 + 40 + 60 + 80 + 1) + (10 + 1) + 14
        assert loads <= found.parts[Part.USER_READ] / 1000 < loads + 10


@pytest.mark.requirement("ED-4")
@pytest.mark.parametrize("mechanism", ["edt", "cc-dma-intervention"])
def test_a_message_is_told_of_in_its_queue_and_in_the_completion_queue(mechanism, monkeypatch):
    logs = []
    kept = latency.parts_of
    monkeypatch.setattr(
        latency, "parts_of", lambda log, *rest: logs.append(log) or kept(log, *rest)
    )
    ping_pong(Setting("sonic-via", mechanism, {}), 64, 1)

    reports = [row for row in logs[0] if row["engine"] == Engine.REPORT]
    rounds = PACKETS + 1
    # Nodes, messages, a send and a receive, in two places.
    assert len(reports) == 2 * rounds * 2 * 2


@pytest.mark.requirement("ED-80")
def test_the_platform_is_that_of_table_1():
    settings = Cluster("sonic-via").settings
    table = {
        "l1_bytes": 32 << 10, "l1_line": 32, "l1_ways": 2, "l1_latency": 1000,
        "l2_bytes": 1 << 20, "l2_line": 128, "l2_ways": 2, "l2_latency": 10_000,
        "bus_bytes": 16, "bus_cycle": 10_000,
    }  # fmt: skip
    assert {name: settings.host[name] for name in table} == table
    assert settings.nic["dma_mbytes_s"] == 1600
    assert settings.host["device_latency"] == 10_000  # of the interface's memory
    costs = settings.platform.costs
    assert [costs[name].high_ps for name in ("link_start", "link_per_byte", "switch_hop")] == [
        0
    ] * 3
    # Its processor has 100 MHz and no cache: an instruction is a cycle, and one to fetch it.
    of_firmware = "send_queue", "receive_queue", "ni_table_read", "firmware_start"
    assert all(costs[name].high_ps % 20_000 == 0 for name in (*of_firmware, "firmware_finish"))


def test_the_whole_message_is_on_the_nic_before_its_first_frame_leaves():
    by_message, by_frame = (
        ping_pong(Setting("sonic-via", "cc-dma-intervention", {"mtu": 128}, delivery=each), 512, 1)
        for each in ("message-store-and-forward", "store-and-forward")
    )

    assert by_message.total > by_frame.total


@pytest.mark.requirement("ED-6", "ED-81")
def test_the_measured_messages_are_sends_and_receives_there_and_back_and_no_rdma(monkeypatch):
    posted = {"post_send": [], "post_recv": []}

    def keeping(kept, before):
        def call(nic, vi, descriptor):
            kept.append(descriptor)
            return before(nic, vi, descriptor)

        return call

    for name, kept in posted.items():
        monkeypatch.setattr(Nic, name, keeping(kept, getattr(Nic, name)))
    found = ping_pong(Setting("sonic-via", "edt"), 64, 2)

    assert [one.control for one in posted["post_send"]] == [0] * 2 * (PACKETS + 2)
    assert all(one.remote is None for one in posted["post_send"])
    assert all(one.length == 64 for one in posted["post_send"])
    received = [one for one in posted["post_recv"] if one.ok]
    assert len(received) == len(posted["post_recv"]) == 2 * (PACKETS + 2)
    assert {one.length for one in received} == {64}
    assert found.messages == 2


def test_a_report_says_what_was_asked():
    told = []
    question = ask(mechanisms="edt,pio", sizes="8,65", dma_rate=800, mtu=64)
    report = measure(question, watch=lambda *pair: told.append(pair))

    asked = [(one.byte_count, one.mechanism) for one in report.latencies]
    assert asked == [(8, "edt"), (8, "pio"), (65, "edt"), (65, "pio")]
    each = told[0][0]  # packets of the first, whose messages are as many as any other's
    assert told == [(part * each, 6 * each) for part in (1, 2, 4, 6)]  # of 65 bytes two a message
    assert (report.mtu, report.dma_mbytes_s) == (64, 800)
    assert report.evidence == {"derived": 3, "published": 4, "assumed": 11, "fitted": 3}
    for one in report.to_json()["latencies"]:
        assert sum(one["parts_ps"].values()) == one["total_ps"]


@pytest.mark.parametrize("scheme", ["static", "utlb", "utlb-shared", "utlb-process"])
def test_every_scheme_that_pins_what_is_registered_translates(scheme):
    asked = ask(mechanisms="cc-dma-intervention", sizes="8", translation=scheme)
    hit = measure(asked)
    (one,) = hit.latencies
    # A page at either end, for messages both ways.
    assert (one.lookups, one.misses) == (4 * one.messages, 0)
    assert sum(one.parts_ps.values()) == one.total_ps
    assert one.parts_ps["translation"] > 0 == one.parts_ps["miss"]
    assert hit.translation.scheme == scheme


def test_misses_are_served_at_the_costs_of_the_designs_platform():
    asked = ask(mechanisms="dma", sizes="8", translation="utlb", entries=4, pages=12)
    (one,) = measure(asked).latencies

    assert one.misses == one.lookups == 4 * one.messages
    # UTLB, 6.2: two lookups of 0.8 us, and a miss of 1.8 at either end.
    assert one.parts_ps["miss"] == one.messages * 2 * 1_800_000
    assert one.parts_ps["translation"] == one.messages * 2 * 800_000
    assert one.parts_ps["pin"] == one.messages * 500_000  # the library checks that it is pinned


@pytest.mark.parametrize("scheme", ["unet-mm", "handle", "interrupt"])
def test_what_pins_a_page_when_it_is_missed_is_refused_in_a_line(scheme):
    with refused(NicscopeError, "VIA", "static, utlb, "):
        measure(ask(mechanisms="dma", sizes="8", translation=scheme))


def test_only_mechanisms_that_make_sense_are_asked_for_by_default():
    dma = ("cc-dma-intervention", "cc-dma-retry", "dma")
    assert len(ask(translation="utlb").mechanisms) == 6
    assert ask(delivery="cut-through").mechanisms == ("edt", *dma)
    assert len(ask().mechanisms) == 6


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("64", (64,)),
        ("64..512", (64, 128, 256, 512)),
        ("100..500", (100, 200, 400, 500)),
        ("1500,64..128", (64, 128, 1500)),
        ("7..7", (7,)),
    ],
)
def test_sizes_are_lists_and_ranges_by_powers_of_two(text, sizes):
    assert ask(sizes=text).sizes == sizes


def test_entries_that_a_cache_cannot_have_are_named_as_they_were_given():
    question = ask(mechanisms="dma", sizes="64", translation="utlb", entries=3)
    with refused(StudyError, "--entries", "power of two", "got 3"):
        measure(question, [])


@pytest.mark.parametrize("text", ["60000", "60ns", "0.06us"])
def test_a_time_is_set_in_picoseconds_or_with_its_unit(text):
    assert ask(overrides=[f"cache_supply={text}"]).settings == (("cache_supply", 60_000),)
