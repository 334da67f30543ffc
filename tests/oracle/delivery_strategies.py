"""Hypothesis strategies: few nodes, awkward costs, tiny buffers and rings, short watchdogs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from hypothesis import strategies as st

from oracle.delivery_records import CUT_THROUGH, STORE_AND_FORWARD, Delivery

MAX_PAYLOAD = 300
MAX_MESSAGES = 14
AGES = 10**12  # ps: longer than any run drawn here
WATCHDOGS = (AGES, AGES, AGES, AGES, 40, 300, 1000, 2500, 2500, 6000, 6000, 15_000)
STARTS = (
    "send_call",
    "pio_write",
    "pio_read",
    "pci_read_start",
    "pci_write_start",
    "link_start",
    "switch_hop",
    "firmware_start",
    "firmware_finish",
    "firmware_accept",
    "firmware_log",
)
PCI_RATES = (
    "pci_read_per_byte",
    "pci_read_contended_per_byte",
    "pci_write_per_byte",
    "pci_write_contended_per_byte",
)
# A host with a 33 MHz PCI bus and a 1.28 Gbit/s link, in round numbers.
PLAUSIBLE = {
    "send_call": 500_000,
    "pio_write": 3_300_000,
    "pio_read": 3_000_000,
    "pci_read_start": 4_000_000,
    "pci_read_per_byte": 7_576,
    "pci_read_contended_per_byte": 26_000,
    "pci_write_start": 4_000_000,
    "pci_write_per_byte": 7_576,
    "pci_write_contended_per_byte": 26_000,
    "link_start": 3_000_000,
    "link_per_byte": 6_250,
    "link_watchdog": AGES,
    "switch_hop": 1_000_000,
    "nic_memory_per_byte": 3_788,
    "firmware_start": 1_500_000,
    "firmware_finish": 1_000_000,
    "firmware_accept": 800_000,
    "firmware_log": 700_000,
    "block_copy_per_byte": 20_000,
    "block_copy_contended_per_byte": 30_000,
}


@dataclass
class Network:
    """Links of every path, in order, and the switches on it."""

    nodes: int
    links: int
    paths: dict[tuple[int, int], tuple[int, ...]]
    hops: dict[tuple[int, int], int]


def pair():
    return Network(2, 2, {(0, 1): (0,), (1, 0): (1,)}, {(0, 1): 0, (1, 0): 0})


def crossbar(nodes):
    """A link to the switch (s) and one from it (nodes + d) for each node."""
    ways = [(s, d) for s in range(nodes) for d in range(nodes) if s != d]
    return Network(
        nodes, 2 * nodes, {(s, d): (s, nodes + d) for s, d in ways}, dict.fromkeys(ways, 1)
    )


def trunk(left, right):
    """Two crossbars that one link each way joins."""
    nodes, paths, hops = left + right, {}, {}
    for s, d in crossbar(nodes).paths:
        if (s < left) == (d < left):
            paths[s, d], hops[s, d] = (s, nodes + d), 1
        else:
            paths[s, d], hops[s, d] = (s, 2 * nodes + (s >= left), nodes + d), 2
    return Network(nodes, 2 * nodes + 2, paths, hops)


@dataclass
class Scenario:
    """All that a run is made of; printed whole by Hypothesis when it fails."""

    network: Network
    costs: list[dict[str, int]]
    delivery: Delivery
    runs: list[tuple[int, int, int, int, int]]  # sender, destination, payload, count, gap
    copies: list[tuple[int, int]] = field(default_factory=list)  # node, bytes
    masters: list[tuple[int, int, int]] = field(default_factory=list)  # node, held, of every

    def settings(self):
        return asdict(self.delivery)


def starts():
    return st.sampled_from((0, 1, 3, 7, 10, 10, 10, 29, 100, 331, 1000))


@st.composite
def costs(draw, watchdogs):
    memory = draw(st.integers(0, 4))
    found = {name: draw(starts()) for name in STARTS}
    found |= {name: memory + draw(st.sampled_from((1, 2, 3, 5, 11))) for name in PCI_RATES}
    return found | {
        "link_per_byte": draw(st.integers(1, 9)),
        "link_watchdog": draw(st.sampled_from(watchdogs)),
        "nic_memory_per_byte": memory,
        "block_copy_per_byte": draw(st.integers(1, 9)),
        "block_copy_contended_per_byte": draw(st.integers(1, 20)),
    }


def deliveries():
    minpulses = st.one_of(st.integers(1, 60), st.sampled_from((1, 64, 128, MAX_PAYLOAD)))
    few = st.integers(1, 4)
    rings = st.integers(1, 5)
    return st.builds(
        Delivery,
        policy=st.sampled_from((STORE_AND_FORWARD, CUT_THROUGH, CUT_THROUGH)),
        eager=st.sampled_from((True, True, False)),
        minpulse_send=minpulses,
        minpulse_receive=minpulses,
        send_buffers=few,
        receive_buffers=few,
        send_ring=rings,
        receive_ring=rings,
        max_payload=st.just(MAX_PAYLOAD),
        logging=st.booleans(),
    )


def networks():
    return st.one_of(
        st.builds(pair),
        st.builds(crossbar, st.integers(2, 5)),
        st.builds(trunk, st.integers(1, 2), st.integers(1, 3)),
    )


@st.composite
def run_lists(draw, network, senders):
    """Runs of which each sender may have several, to the same or to other destinations."""
    ways = sorted(way for way in network.paths if way[0] in senders)
    runs, left = [], MAX_MESSAGES
    for _ in range(draw(st.integers(1, 6))):
        payload = draw(st.one_of(st.sampled_from((0, 1, 128, MAX_PAYLOAD)), st.integers(0, 300)))
        count = draw(st.integers(1, 5))
        gap = draw(st.sampled_from((0, 0, 1, 13, 500, 4000)))
        if count <= left:
            runs.append((*draw(st.sampled_from(ways)), payload, count, gap))
            left -= count
    return runs


@st.composite
def scenarios(draw, watchdogs=WATCHDOGS):
    """Nodes alike or not; a node that copies sends nothing."""
    network = draw(networks())
    if draw(st.booleans()):
        each = [draw(costs(watchdogs))] * network.nodes
    else:
        each = [draw(costs(watchdogs)) for _ in range(network.nodes)]
    copying = draw(st.sets(st.integers(0, network.nodes - 1), max_size=network.nodes - 1))
    copying = copying if draw(st.booleans()) else set()
    copies = [(node, draw(st.integers(1, 400))) for node in sorted(copying)]
    runs = draw(run_lists(network, set(range(network.nodes)) - copying))
    masters = [
        (node, held, held + draw(st.sampled_from((1, 5, 40, 900))))
        for node in sorted(draw(st.sets(st.integers(0, network.nodes - 1))))
        for held in [draw(st.sampled_from((1, 8, 70, 1500)))]
    ]
    return Scenario(network, each, draw(deliveries()), runs, copies, masters)


def unhurried_scenarios():
    """No watchdog ever expires."""
    return scenarios(watchdogs=(AGES,))
