"""The firmware of ports needs no agenda: a driver without one carries a send to its receive."""

import pytest
from bare_driver import PAGE, Bare, Nics

from nicscope.drivers.simulate.machine import Machine
from nicscope.nic.ports.layout import DONE, RECEIVED, SENT

DESIGNS = ("vmmc-static", "vmmc-interrupt", "unet-mm-pca200")
TEXT = bytes(range(1, 251)) * 60


def ready(design, **how):
    bare = Bare(design, **how)
    bare.join(0)
    bare.map(0, 4, TEXT[: 4 * PAGE])
    bare.map(1, 8)
    return bare


def report(bare, node, ring):
    ports = bare.ports
    return ports.reports[node, 1, ring, 0]


def received(bare):
    """The bytes of node 1's first message, from the buffers that its report names."""
    told = report(bare, 1, RECEIVED)
    places = bare.ports.report_buffers[1, 1, 0, : told["buffers"]]
    return b"".join(bare.read(1, int(place), PAGE) for place in places)[: told["length"]]


def test_firmware_has_no_agenda_no_costs_and_no_programs():
    assert set(Machine._fields) - set(Nics._fields) >= {
        "agenda", "costs", "nodes", "processes", "paths", "pci_flows", "link_flows", "account",
    }  # fmt: skip


@pytest.mark.parametrize("design", DESIGNS)
def test_a_send_reaches_its_receive(design):
    bare = ready(design)
    for page in (3, 1):
        bare.provide(1, page * PAGE)
    bare.post(0, 0, 100, 5000)

    bare.run()

    assert bare.ports.table[1, 1]["received"] == 1
    assert received(bare) == TEXT[100:5100]
    assert bare.ports.table[0, 1]["reported"] == 0
    bare.wait_long(1)  # for a packet that the acknowledgement could go with
    bare.run()
    assert bare.ports.table[0, 1]["reported"] == 1
    assert report(bare, 0, SENT)["status"] == DONE


def test_only_misses_leave_something_to_the_driver():
    served, registered = ready("vmmc-interrupt"), ready("vmmc-static")
    for bare in (served, registered):
        bare.provide(1, 0)
        bare.post(0, 0, 0, 3 * 1000)
        bare.run()

    assert served.misses == 2  # the page that is sent from, and the buffer
    assert registered.misses == 0


@pytest.mark.parametrize("frame", [0, 1])
def test_a_lost_frame_is_retransmitted_when_its_deadline_passes(frame):
    bare = ready("vmmc-interrupt", loses=lambda number: number == frame)
    for page in range(2):
        bare.provide(1, page * PAGE)
    bare.post(0, 0, 0, 2 * PAGE)

    bare.run()
    assert bare.ports.table[1, 1]["received"] == 0
    assert bare.ports.table[0, 1]["reported"] == 0

    bare.wait_long(0)
    bare.run()
    bare.wait_long(1)
    bare.run()
    assert received(bare) == TEXT[: 2 * PAGE]
    assert report(bare, 0, SENT)["status"] == DONE


def test_nothing_is_sent_into_a_receive_queue_without_buffers():
    bare = ready("vmmc-interrupt")
    bare.post(0, 0, 0, 10)

    bare.run()

    assert bare.ports.table[1, 1]["received"] == 0
    assert bare.ports.table[1, 1]["dropped"] == 1
    bare.provide(1, 0)
    bare.wait_long(0)
    bare.run()
    assert received(bare) == TEXT[:10]
