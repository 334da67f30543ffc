"""Counters by Linux's names: each counts what its definition says, and nothing else does."""

import re
from pathlib import Path

import pytest
from device_world import World
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.device import COUNTERS, Device
from nicscope.nic.ports.traffic import ENDED_NAMES, MADE_NAMES
from oracle.verbs_counters import of_completions, of_packets
from suite import share

LOG = 1 << 14
MTU = 1024
TRAFFIC = {name for name in COUNTERS if name.startswith("port_") and "errors" not in name}
COMPLETIONS = {*of_completions([], [])}


def begun(**options):
    return World("utlb", keep_log=LOG, **options)


def counted(world):
    """Counters that are not 0, but for those that any packet moves."""
    found = world.device.counters()
    return {name: value for name, value in found.items() if value and name not in TRAFFIC}


def packets_said(world, *, reliable):
    """What records of packets make of the same counters."""
    ports = world.device.fabric.source()._machine.ports
    assert ports.happened[0] <= LOG
    records = ports.happenings[: ports.happened[0]]
    sides = [
        [
            (names[int(one["what"])], int(one["kind"]), int(one["payload"]))
            for one in records[records["came"] == came]
        ]
        for came, names in ((0, MADE_NAMES), (1, ENDED_NAMES))
    ]
    return of_packets(*sides, reliable=reliable)


def quiet(world):
    """Let everything that is under way come to its end."""
    for _ in range(40):
        world.device.poll(world.cqs[0], 1)


def test_a_device_that_nobody_uses_counts_nothing():
    assert Device("utlb").counters() == dict.fromkeys(COUNTERS, 0)


def test_what_crosses_the_link_is_counted_in_words_with_its_headers():
    world = begun().connect()
    world.to_other(1, calls.WR_WRITE, 5000)
    assert world.statuses(0) == [(1, calls.SUCCESS)]
    quiet(world)
    found = world.device.counters()
    packets = found["port_xmit_packets"]
    acknowledgements = packets - -(-5000 // MTU)
    assert 1 <= acknowledgements <= 5
    assert found["port_xmit_data"] == (packets * 128 + 5000) // 4
    assert found["port_rcv_packets"] == packets
    assert found["port_rcv_data"] == found["port_xmit_data"]
    assert counted(world) == {"rx_write_requests": 1}


def test_requests_are_counted_by_kind_once_each_where_they_are_served():
    world = begun().connect()
    world.receive(1, 50)
    world.receive(1, 51)
    for number, (opcode, length, more) in enumerate(
        [
            (calls.WR_WRITE, 3000, {}),
            (calls.WR_WRITE, 8, {}),
            (calls.WR_WRITE_IMM, 16, {"imm": 7}),
            (calls.WR_READ, 5000, {}),
            (calls.WR_FETCH_ADD, 8, {"compare_add": 1}),
            (calls.WR_CMP_SWP, 8, {"compare_add": 1, "swap": 2}),
            (calls.WR_CMP_SWP, 8, {"compare_add": 1, "swap": 2}),
            (calls.WR_SEND, 16, {"remote_address": 0, "rkey": 0}),
        ]
    ):
        world.to_other(number, opcode, length, **more)
    assert world.statuses(0, 8) == [(number, calls.SUCCESS) for number in range(8)]
    assert counted(world) == {
        "rx_write_requests": 3,
        "rx_read_requests": 1,
        "rx_atomic_requests": 3,
    }


def test_a_send_without_a_receive_is_tried_as_often_as_it_may_be():
    world = begun().connect(rnr_retry=2)
    world.send(0, 1)
    world.send(0, 2)
    assert world.statuses(0, 2) == [(1, calls.RNR_RETRY_EXC_ERR), (2, calls.WR_FLUSH_ERR)]
    found = counted(world)
    assert found.pop("out_of_buffer") == 3  # dropped at first, and at both tries after
    assert found.pop("rnr_nak_retry_err") == 2  # the third uses up what is allowed
    assert found.pop("out_of_sequence") == 3  # the other one, each time behind what came in vain
    assert found == {"req_rnr_retries_exceeded": 1, "req_cqe_error": 2, "req_cqe_flush_error": 1}


def test_a_receive_that_comes_late_ends_the_rests():
    world = begun().connect(rnr_retry=7, min_rnr_timer=1)
    world.send(0, 1)
    while not world.device.counters()["rnr_nak_retry_err"]:
        world.device.poll(world.cqs[0], 1)
    rests = world.device.counters()["rnr_nak_retry_err"]
    world.receive(1, 9)
    assert world.statuses(0) == [(1, calls.SUCCESS)]
    found = counted(world)
    assert found["rnr_nak_retry_err"] >= rests >= 1
    assert found["out_of_buffer"] == found["rnr_nak_retry_err"]
    assert {*found} == {"out_of_buffer", "rnr_nak_retry_err"}


def test_a_datagram_without_a_receive_is_dropped_and_counted():
    world = begun(kind=calls.UC).connect()
    world.send(0, 1)
    assert world.statuses(0) == [(1, calls.SUCCESS)]
    quiet(world)
    assert counted(world) == {"out_of_buffer": 1}


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ({"loss": 1.0}, {}),
        # A damaged packet is answered, by one that is damaged too.
        ({"corruption": 1.0}, {"port_rcv_errors": 6, "rx_icrc_encapsulated": 6}),
    ],
)
def test_what_is_never_acknowledged_times_out_as_often_as_it_may(faults, told):
    world = begun(faults=Faults(seed=1, **faults)).connect(retry=2)
    world.receive(1, 9)
    world.send(0, 1)
    assert world.statuses(0) == [(1, calls.RETRY_EXC_ERR)]
    found = world.device.counters()
    assert found["port_xmit_packets"] == (3 if "loss" in faults else 6)
    assert found["port_rcv_packets"] == (0 if "loss" in faults else 6)
    assert counted(world) == told | {
        "local_ack_timeout_err": 2,
        "req_transport_retries_exceeded": 1,
        "req_cqe_error": 1,
    }


def test_rests_are_no_time_outs_and_the_other_way_round():
    world = begun(faults=Faults(seed=1, loss=1.0)).connect(retry=1)
    world.send(0, 1)
    assert world.statuses(0) == [(1, calls.RETRY_EXC_ERR)]
    assert "rnr_nak_retry_err" not in counted(world)
    other = begun().connect(rnr_retry=1)
    other.send(0, 1)
    assert other.statuses(0) == [(1, calls.RNR_RETRY_EXC_ERR)]
    assert "local_ack_timeout_err" not in counted(other)


def test_copies_of_a_request_are_duplicates_and_of_an_acknowledgement_are_not():
    world = begun(faults=Faults(seed=1, duplication=1.0)).connect()
    world.receive(1, 5)
    world.send(0, 1)
    assert world.statuses(0) == [(1, calls.SUCCESS)]
    quiet(world)
    found = world.device.counters()
    assert counted(world) == {"duplicate_request": 1}
    assert found["port_rcv_packets"] == 2 * found["port_xmit_packets"]


@pytest.mark.parametrize("opcode", [calls.WR_WRITE, calls.WR_READ])
def test_memory_that_is_not_permitted_counts_at_both_ends(opcode):
    world = begun().connect()
    world.receive(1, 5)
    world.to_other(1, opcode, rkey=world.regions[1].rkey + 1)
    assert world.statuses(0) == [(1, calls.REM_ACCESS_ERR)]
    quiet(world)
    found = counted(world)
    assert (found["req_remote_access_errors"], found["resp_remote_access_errors"]) == (1, 1)
    assert found["req_cqe_error"] == 1
    # The receive that waited there is flushed with its connection.
    assert (found["resp_cqe_error"], found["resp_cqe_flush_error"]) == (1, 1)
    assert not {*found} & {"req_remote_invalid_request", "rx_write_requests", "rx_read_requests"}


def test_what_a_queue_pair_does_not_let_do_is_invalid_and_no_access_error():
    world = begun().connect(access=calls.LOCAL_WRITE)
    world.to_other(1, calls.WR_READ)
    assert world.statuses(0) == [(1, calls.REM_INV_REQ_ERR)]
    assert counted(world) == {"req_remote_invalid_request": 1, "req_cqe_error": 1}


def test_a_message_longer_than_its_receive_counts_at_both_ends():
    world = begun().connect()
    world.receive(1, 5, 16)
    world.send(0, 1, 64)
    assert world.statuses(0) == [(1, calls.REM_INV_REQ_ERR)]
    assert world.statuses(1) == [(5, calls.LOC_LEN_ERR)]
    assert counted(world) == {
        "req_remote_invalid_request": 1,
        "req_cqe_error": 1,
        "resp_local_length_error": 1,
        "resp_cqe_error": 1,
    }


def test_flushed_receives_count_where_they_complete_and_not_where_they_vanish():
    world = begun().connect()
    for number in range(3):
        world.receive(0, number)
        world.receive(1, number)
    world.device.modify_qp(
        world.pairs[0], world.device._pair(world.pairs[0]).attributes._replace(state=calls.ERR)
    )
    assert [status for _, status in world.statuses(0, 3)] == [calls.WR_FLUSH_ERR] * 3
    world.device.free_qp(world.pairs[1])
    assert counted(world) == {"resp_cqe_error": 3, "resp_cqe_flush_error": 3}


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [calls.WR_SEND, calls.WR_WRITE, calls.WR_READ, calls.WR_FETCH_ADD, calls.WR_WRITE_IMM]
        ),
        st.sampled_from([1, 8, 900, 2500]),
        st.booleans(),  # of a wrong key, or into a receive that is too short
    ),
    min_size=1,
    max_size=6,
)
SHARES = st.sampled_from([0.0, 0.1, 0.3])


@share(0.4)
@given(
    kind=st.sampled_from([calls.RC, calls.RC, calls.UC]),
    asked=OPERATIONS,
    receives=st.integers(0, 6),
    seed=st.integers(0, 1 << 16),
    faults=st.fixed_dictionaries(
        dict.fromkeys(("loss", "duplication", "reordering", "corruption"), SHARES)
    ),
)
def test_counters_are_those_of_the_records_and_of_the_completions(
    kind, asked, receives, seed, faults
):
    world = begun(kind=kind, faults=Faults(seed=seed, **faults)).connect(retry=7, rnr_retry=1)
    if kind == calls.UC:
        asked = [one for one in asked if one[0] not in (calls.WR_READ, calls.WR_FETCH_ADD)]
    for number in range(receives):
        world.receive(1, number, 1000)
    for number, (opcode, length, is_bad) in enumerate(asked):
        wrong = is_bad and number == len(asked) - 1
        size = 8 if opcode == calls.WR_FETCH_ADD else length
        more = {"compare_add": 1} if opcode == calls.WR_FETCH_ADD else {}
        world.to_other(number, opcode, size, rkey=world.regions[1].rkey + wrong, **more)
    sent = [status for _, status in world.statuses(0, len(asked))]
    assert len(sent) == len(asked)
    for _ in range(30):
        world.device.poll(world.cqs[0], 1)
    received = [each.status for each in world.device.poll(world.cqs[1], 64)]
    found = world.device.counters()
    told = packets_said(world, reliable=kind == calls.RC) | of_completions(sent, received)
    for name, value in told.items():
        assert found[name] == value, name
    if kind == calls.RC and not any(sent):
        kinds = [opcode for opcode, _, _ in asked]
        writes = kinds.count(calls.WR_WRITE) + kinds.count(calls.WR_WRITE_IMM)
        assert found["rx_write_requests"] == writes
        assert found["rx_read_requests"] == kinds.count(calls.WR_READ)
        assert found["rx_atomic_requests"] == kinds.count(calls.WR_FETCH_ADD)


def test_every_counter_stands_in_the_docs_with_what_it_counts():
    page = Path("docs/verbs.md").read_text()
    for name, counter in COUNTERS.items():
        row = re.search(rf"^\| `{name}` \| `{counter.folder}` \| (.+) \|$", page, re.MULTILINE)
        assert row, name
