"""When a refused packet is acknowledged, beside acknowledgements of the other direction.

A packet is refused when its place is sought, so before it is completed; others of its sender are
completed in between.
"""

from __future__ import annotations

from test_ports_agree_with_the_oracle import PAGE, compare, driven, in_order

from nicscope.drivers.simulate.observe import Engine
from nicscope.nic.delivery import COMPLETE, POST_PAYLOAD, SERVE
from nicscope.nic.ports.layout import SEND
from oracle.delivery_records import STORE_AND_FORWARD, Delivery
from oracle.delivery_strategies import PCI_RATES, STARTS, crossbar
from oracle.ports_sizes import BUFFERS
from oracle.ports_worlds import STEPS, Channel, Program, World

UNIT = 100
FREE = dict.fromkeys(STARTS, 0) | dict.fromkeys(PCI_RATES, 1)
COSTS = FREE | {
    "firmware_start": 1000,
    "link_per_byte": 1,
    "link_watchdog": 10**12,
    "nic_memory_per_byte": 0,
    "block_copy_per_byte": 1,
    "block_copy_contended_per_byte": 1,
    "cell_bytes": 0,
    "trailer_bytes": 0,
}


def one_buffer_too_few(sleep: int) -> World:
    """A message needs three buffers where two are; the other way goes a byte after ``sleep`` ps."""
    receiver = [("provide", (BUFFERS + place) * PAGE) for place in range(2)]
    receiver += [("sleep", sleep), ("post", SEND, 1, [(0, 1)], 0, False), ("sleep", 100_000)]
    sender = [("post", SEND, 2, [(PAGE - UNIT - 1, 3 * UNIT)], 0, False)]
    return World(
        crossbar(2),
        COSTS,
        dict.fromkeys(STEPS, 0) | {"post": 1},
        [0] * 65,
        [0] * 65,
        Delivery(
            policy=STORE_AND_FORWARD,
            eager=False,
            minpulse_send=40,
            minpulse_receive=40,
            send_buffers=4,
            receive_buffers=4,
            send_ring=4,
            receive_ring=4,
            max_payload=PAGE,
            logging=False,
        ),
        [Program(0, receiver), Program(1, sender)],
        [Channel(0, 1, 1, 2, UNIT), Channel(1, 2, 0, 1, UNIT)],
        settings={"entries": 1024},
        reliable=True,
        ack_delay=0,
    )


def test_a_bare_acknowledgement_asks_for_none_while_one_is_due_for_the_packet_behind_it():
    """Found at random: the twin had it go when the bare one was completed."""
    log = in_order(driven(one_buffer_too_few(1500))[1])
    firmware = [row for row in log if row[2:4] == (0, int(Engine.FIRMWARE))]
    ended = {(row[0], row[4]): row[7] for row in firmware if row[1] == 1}
    # Of the sender's packets 3 acknowledges the byte, and 4 finds no buffer.
    assert (3, POST_PAYLOAD) not in ended
    assert ended[4, POST_PAYLOAD] <= ended[3, COMPLETE] < ended[4, COMPLETE]
    served = [row[6] for row in firmware if row[4] == SERVE and row[6] >= ended[4, POST_PAYLOAD]]
    assert min(served) >= ended[4, COMPLETE]


def test_what_is_refused_is_acknowledged_when_the_twin_says_whatever_crosses_it():
    for sleep in range(0, 20_000, 500):
        compare(one_buffer_too_few(sleep))
