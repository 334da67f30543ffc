"""Trapeze's figures and Table 1: transfers, latency and bandwidth by policy, shared buses.

Latency is one message between idle hosts, from the send call until the receiver has read it.
Bandwidth is payload over time in the later half of a long stream.  MB are 10^6 bytes.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.design import POLICIES, Delivery
from nicscope.config.platform import delivery_costs, load_platform
from nicscope.config.toml_files import open_shelf
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.script import Outcome as Traffic
from nicscope.drivers.simulate.script import Run, simulate_script
from nicscope.errors import StudyError
from nicscope.fabric import topology
from nicscope.interfaces.trapeze import Cluster, Endpoint
from nicscope.studies.reproduce.verdict import Item, Outcome, rising

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Costs = Mapping[str, int]  # ps by the names of DELIVERY_COSTS
    Cell = tuple[str, str, str, str]  # kind, size, quantity, pair
    Curves = Mapping[str, list[float]]  # by policy


PS_PER_US = 10**6
STREAM = 160  # messages: more than two rings of 64, so that the later half is steady

PLATFORMS = P6, PENTIUM2, ALCOR, MIATA = ("p6-natoma", "pentium2-440lx", "alcor", "miata")
# The paper's pairs of hosts: (sender, receiver).  Alphas change roles to avoid slow directions.
PAIRS = {
    P6: (P6, P6),
    PENTIUM2: (PENTIUM2, PENTIUM2),
    ALCOR: (ALCOR, ALCOR),
    "alcor-to-miata": (ALCOR, MIATA),
}
# What Table 1 measures.
SIZES = {"4k": 4096, "8k": 8192}
POLICY_OF = {"store": "store-and-forward", "cut": "cut-through"}
# Of Figure 4's cold start.
PAYLOAD = 8192  # bytes
SMALL = 368  # bytes of its first hostRcv transfer
MESSAGES = 80  # more than the ring takes, so that the host writes on
FULL = 8192 / 66  # MB/s: "close to full bandwidth", 66 us (3.4), which the text rounds to 124
RECORDS = 1 << 16  # of a log: more than any of these runs makes
STEADY = 20  # packet: beyond 800 us, which is the tenth


@cache
def platform_costs() -> Mapping[str, Costs]:
    """Delivery costs of the catalog's four platforms."""
    return {name: delivery_costs(load_platform(name)) for name in PLATFORMS}


@cache
def all_together() -> Mapping[str, Costs]:
    """Delivery costs of the four platforms with the constants fitted to all of Table 1."""
    _, _, fitted = open_shelf("calibrations", "trapeze-all", StudyError)
    return {name: {**costs, **fitted[name]} for name, costs in platform_costs().items()}


def pair_costs(costs: Mapping[str, Costs], pair: str) -> tuple[Costs, Costs]:
    """Delivery costs of the sender and the receiver of one of ``PAIRS``."""
    sender, receiver = PAIRS[pair]
    return costs[sender], costs[receiver]


def policy(name: str, payload: int, *, logging: bool = False) -> Delivery:
    """A published policy on NICs whose buffers hold ``payload`` bytes."""
    chosen = POLICIES[name]
    largest = max(chosen.max_payload, payload)
    return msgspec.structs.replace(chosen, max_payload=largest, logging=logging)


def stream(
    ends: Sequence[Costs],
    delivery: Delivery,
    payload: int,
    count: int,
    *,
    gap_ps: int = 0,
    keep_log: int = 0,
) -> Traffic:
    """``count`` messages from one host to another across one switch."""
    run = Run(sender=0, destination=1, payload=payload, count=count, gap_ps=gap_ps)
    return simulate_script(list(ends), delivery, topology.crossbar(2), [run], keep_log=keep_log)


def latency_us(ends: Sequence[Costs], name: str, payload: int) -> float:
    """One-way latency of a single message under the policy ``name``."""
    message = stream(ends, policy(name, payload), payload, 1).messages[0]
    return float(message["read"] - message["posted"]) / PS_PER_US


def bandwidth_mbytes_s(
    ends: Sequence[Costs], name: str, payload: int, *, logging: bool = False
) -> float:
    """Bandwidth of a steady stream under the policy ``name``."""
    read = stream(ends, policy(name, payload, logging=logging), payload, STREAM).messages["read"]
    return steady_mbytes_s(read, payload)


def steady_mbytes_s(read: NDArray[Any], payload: int) -> float:
    """Payload over time between the message in the middle and the last; ``read`` are ps."""
    half = len(read) // 2
    between = int(read[-1] - read[half - 1])
    return payload * (len(read) - half) * PS_PER_US / between


class ColdStart(msgspec.Struct, frozen=True):
    """A stream's log of transfers, and the duration of one small transfer to the host."""

    log: NDArray[Any]  # LOG
    small_us: float

    def of(self, engine: Engine, packet: int | None = None) -> NDArray[Any]:
        """Payload transfers of ``engine``, of one packet or of all, in order of their start."""
        log = self.log
        chosen = (log["engine"] == engine) & (log["control"] == 0)
        if packet is not None:
            chosen &= log["packet"] == packet
        found: NDArray[Any] = log[chosen]
        return found[found["start"].argsort(kind="stable")]

    def duration_us(self, packet: int) -> float:
        """How long the hostTx transfer of ``packet`` took."""
        (transfer,) = self.of(Engine.HOST_TX, packet)
        return float(transfer["end"] - transfer["start"]) / PS_PER_US

    def lost_to_gaps(self) -> float:
        """Share of the bus's bandwidth that the steady stream leaves unused.

        The bus's bandwidth is what the paper calls full (3.4), the 124 MB/s of the second hostTx.
        """
        transfers = self.of(Engine.HOST_TX)
        steady = transfers[transfers["packet"] >= STEADY]["start"]
        moved = PAYLOAD * PS_PER_US * (len(steady) - 1) / int(steady[-1] - steady[0])
        return 1 - moved / FULL

    def events(self) -> dict[str, float]:
        """The durations (us) that Figure 4 prints, by the names of the calibration."""
        return {
            "host_tx_first": self.duration_us(0),
            "host_tx_second": self.duration_us(1),
            "host_rcv_368": self.small_us,
        }


def cold_start(ends: Sequence[Costs], *, logging: bool = False) -> ColdStart:
    """A stream of 8 KB, as fast as the ring takes them, between hosts that were idle before."""
    delivery = policy("adaptive", PAYLOAD, logging=logging)
    found = stream(ends, delivery, PAYLOAD, MESSAGES, keep_log=RECORDS)
    alone = stream(ends, policy("store-and-forward", SMALL), SMALL, 1, keep_log=RECORDS).log
    (small,) = alone[alone["engine"] == Engine.HOST_RCV]
    return ColdStart(found.log, float(small["end"] - small["start"]) / PS_PER_US)


def lost_to_gaps(ends: Sequence[Costs]) -> float:
    """``ColdStart.lost_to_gaps``, with the log."""
    return cold_start(ends, logging=True).lost_to_gaps()


def dma_mbytes_s(costs: Costs, size: int) -> dict[str, float]:
    """Bandwidth of one transfer of ``size`` bytes in each direction, set-up included."""
    delivery = policy("store-and-forward", size)
    log = stream([costs, costs], delivery, size, 1, keep_log=RECORDS).log
    found = {}
    for direction, engine in DIRECTIONS.items():
        (transfer,) = log[log["engine"] == engine]
        found[direction] = size * PS_PER_US / float(transfer["end"] - transfer["start"])
    return found


TRANSFERS = tuple(128 << power for power in range(10))  # bytes, to 64 KB
DIRECTIONS = {"send": Engine.HOST_TX, "receive": Engine.HOST_RCV}


def figure1(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 1: bandwidth of single DMA transfers by size, both directions.

    One message per size and platform between idle hosts, so that DMA has the bus alone.
    """
    printed, costs = item.printed, platform_costs()
    curves = {
        (name, direction): [dma_mbytes_s(costs[name], size)[direction] for size in TRANSFERS]
        for name, direction in product(PLATFORMS, DIRECTIONS)
    }
    good = {
        f"{name} {direction}": curve[-1]
        for (name, direction), curve in curves.items()
        if name in (P6, PENTIUM2)
    }
    outcome.shape(
        "good-pci-over-120",
        min(good.values()) > printed["p6_and_pentium2_mbytes_s_over"],
        ", ".join(f"{name} {rate:.1f}" for name, rate in good.items()),
    )
    peak = max(map(max, curves.values()))
    outcome.shape(
        "bus-is-the-limit", peak <= printed["pci_peak_mbytes_s"][1], f"at most {peak:.1f} MB/s"
    )
    outcome.shape(
        "rises-with-size",
        all(map(rising, curves.values())),
        "; ".join(
            f"{name} {direction} {curve[0]:.0f} to {curve[-1]:.0f} MB/s"
            for (name, direction), curve in curves.items()
        ),
    )
    received = curves[ALCOR, "receive"][-1]
    share = received / printed["link_mbytes_s"]
    outcome.shape(
        "alcor-receives-at-half",
        abs(share / float(printed["alcor_receive_share_of_link"]) - 1) <= 0.1,
        f"{received:.1f} MB/s, {100 * share:.0f} % of the link",
    )


PACKETS = 6
BANDS = (Engine.HOST_TX, Engine.NET_TX, Engine.NET_RCV, Engine.HOST_RCV)


def figure3(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 3: packet flow of 8 KB payloads so far apart that they never overlap.

    Send a few packets and look at their transfers, band by band.
    """
    payload, control = item.printed["payload_bytes"], item.printed["control_bytes"]
    ends = pair_costs(platform_costs(), P6)
    log = stream(
        ends,
        policy("cut-through", payload),
        payload,
        PACKETS,
        gap_ps=item.printed["gap_us"] * PS_PER_US,
        keep_log=RECORDS,
    ).log
    log = log[np.argsort(log["start"], kind="stable")]
    bands = {
        (band, packet): log[(log["engine"] == band) & (log["packet"] == packet)]
        for band in BANDS
        for packet in range(PACKETS)
    }
    payloads = {key: band[band["control"] == 0] for key, band in bands.items()}
    sources, links, sinks, hosts = (
        list(product(engines, range(PACKETS)))
        for engines in (
            (Engine.HOST_TX, Engine.NET_RCV),
            (Engine.NET_TX, Engine.NET_RCV),
            (Engine.NET_TX, Engine.HOST_RCV),
            (Engine.HOST_TX, Engine.HOST_RCV),
        )
    )
    sizes = {tuple(payloads[key]["bytes"].tolist()) for key in sources}
    outcome.shape("sources-are-whole", sizes == {(payload,)}, f"transfers of {sorted(sizes)} bytes")
    first = [(int(bands[key]["bytes"][0]), bands[key]["control"].tolist()) for key in links]
    on_pci = sum(int(bands[key]["control"].sum()) for key in hosts)
    outcome.shape(
        "control-first",
        on_pci == 0
        and all(size == control and kinds[0] == 1 and sum(kinds) == 1 for size, kinds in first),
        f"{control} bytes before each of {PACKETS} payloads, {on_pci} control messages on PCI",
    )
    parts = [payloads[key]["bytes"] for key in sinks]
    outcome.shape(
        "sinks-are-split",
        all(len(sizes) > 1 and sizes.sum() == payload for sizes in parts),
        f"{parts[0].tolist()} and {parts[PACKETS].tolist()} bytes in the first packet",
    )
    halves = [
        (int(sizes[: len(sizes) // 2].sum()), int(sizes[-(len(sizes) // 2) :].sum()))
        for sizes in parts
    ]
    outcome.shape(
        "transfers-grow",
        all(early < late for early, late in halves),
        f"netTx {halves[0][0]} then {halves[0][1]} bytes, "
        f"hostRcv {halves[PACKETS][0]} then {halves[PACKETS][1]}, the middle one left out",
    )
    left = [bands[Engine.NET_TX, n]["end"][-1] for n in range(PACKETS)]
    begun = [bands[Engine.HOST_TX, n]["start"][0] for n in range(PACKETS)]
    apart = [float(b - a) / PS_PER_US for a, b in zip(left[:-1], begun[1:], strict=True)]
    outcome.shape("packets-keep-apart", min(apart) > 0, f"{min(apart):.1f} us between them")
    on_link = payload * ends[0]["link_per_byte"]
    received = (payloads[Engine.NET_RCV, n][0] for n in range(PACKETS))
    took = min(int(each["end"] - each["start"]) for each in received)
    outcome.shape(
        "receiver-stalls",
        took > on_link,
        f"{took / PS_PER_US:.1f} us for what takes {on_link / PS_PER_US:.1f} us on the link",
    )


FIRST_NET_TX = 3  # transfers that the text names


def figure4(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 4: the start of a stream of 8 KB payloads under adaptive delivery.

    The stream with the log compiled in, as it was drawn; T = 0 is the first hostTx.
    """
    found = cold_start(pair_costs(platform_costs(), P6), logging=True)
    origin = found.of(Engine.HOST_TX, 0)["start"][0]
    to_link, to_host = found.of(Engine.NET_TX, 1), found.of(Engine.HOST_RCV, 1)
    named = to_link[:FIRST_NET_TX]
    sizes = named["bytes"].tolist()
    rates = (named["bytes"] * PS_PER_US / (named["end"] - named["start"])).tolist()
    received = to_host["bytes"].tolist()
    outcome.measure(
        item,
        host_tx={"first": found.duration_us(0), "second": found.duration_us(1)}.get,
        host_rcv={SMALL: found.small_us}.get,
        net_tx=lambda transfer: sizes[transfer - 1],
        net_tx_rate=lambda transfer: rates[transfer - 1],
        net_tx_rate_of_largest=rates[-1],
        host_rcv_first=received[0],
        second_arrival=float(to_link["start"][0] - origin) / PS_PER_US,
        second_host_rcv=float(to_host["start"][0] - origin) / PS_PER_US,
    )
    # Shares of the hostTx of a packet during which the sender's CPU writes to the ring.
    competing = []
    writes = found.log[found.log["engine"] == Engine.HOST_WRITE]
    for packet in (0, 1):
        (transfer,) = found.of(Engine.HOST_TX, packet)
        begin, end = (
            writes[side].clip(transfer["start"], transfer["end"]) for side in ("start", "end")
        )
        competing.append(float((end - begin).sum() / (transfer["end"] - transfer["start"])))
    outcome.shape(
        "first-payload-is-slow",
        competing[0] > 0.95 and competing[1] <= 0.1,
        f"{100 * competing[0]:.1f} % of the first, {100 * competing[1]:.1f} % of the second",
    )
    outcome.shape(
        "net-tx-grows",
        rising(sizes) and rising(rates),
        f"{to_link['bytes'].tolist()} bytes; "
        + ", ".join(f"{rate:.1f}" for rate in rates)
        + " MB/s",
    )
    outcome.shape(
        "host-rcv-grows",
        rising(received[:-1]),
        f"{received} bytes; printed {item.printed['host_rcv_bytes']} and more",
    )
    third = found.of(Engine.HOST_RCV, 2)["bytes"].tolist()
    outcome.shape(
        "growth-carries-over", third[0] > received[0], f"{received[0]}, then {third[0]} bytes"
    )


ENGINES = (Engine.HOST_TX, Engine.NET_TX, Engine.HOST_RCV)  # netRcv moves in lockstep with netTx


def figure5(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 5: bandwidth of each engine over time, with and without the log.

    The cold start's stream to its end, with the log and without.
    """
    printed, ends = item.printed, pair_costs(platform_costs(), P6)
    logged, plain = cold_start(ends, logging=True), cold_start(ends)
    without = bandwidth_mbytes_s(ends, "adaptive", PAYLOAD)
    outcome.measure(item, without_logging=without, lost_to_gaps=100 * lost_to_gaps(ends))

    source = logged.of(Engine.HOST_TX)
    origin, stop = int(logged.of(Engine.HOST_TX, 0)["start"][0]), int(source["end"][-1])
    start = origin + printed["steady_state_us"] * PS_PER_US
    over = printed["steady_state_mbytes_s_over"]
    rates, passes = {}, {}
    for engine in ENGINES:
        # Bytes over time, idle time included; a transfer counts by the share inside.
        records = logged.of(engine)
        inside = np.clip(records["end"], start, stop) - np.clip(records["start"], start, stop)
        moved = records["bytes"] * (inside / (records["end"] - records["start"]))
        rates[engine.name] = float(moved.sum() * PS_PER_US / (stop - start))
        passes[engine.name] = _first_over(logged, engine, over) - origin
    outcome.shape(
        "steady-at-800",
        min(rates.values()) > over,
        ", ".join(f"{name} {rate:.1f} MB/s" for name, rate in rates.items()),
    )
    outcome.shape(
        "sender-first",
        rising(passes.values()),
        ", ".join(f"{name} at {when / PS_PER_US:.0f} us" for name, when in passes.items()),
    )
    with_log = bandwidth_mbytes_s(ends, "adaptive", PAYLOAD, logging=True)
    outcome.shape("logging-costs", with_log < without, f"{with_log:.1f} of {without:.1f} MB/s")
    steady, told = [], []
    for found in (logged, plain):
        transfers = found.of(Engine.HOST_RCV)
        sizes = set(transfers[transfers["packet"] >= STEADY]["bytes"].tolist())
        steady.append(sizes)
        told.append(" to ".join(map(str, sorted({min(sizes), max(sizes)}))))
    outcome.shape(
        "log-keeps-cut-through",
        max(steady[0]) < PAYLOAD and steady[1] == {PAYLOAD},
        f"{told[0]} bytes with the log, {told[1]} without",
    )
    store = bandwidth_mbytes_s(ends, "store-and-forward", PAYLOAD)
    stated, table = printed["without_logging_mbytes_s"], printed["store_and_forward_mbytes_s"]
    outcome.shape(
        "adaptive-is-108-or-111",
        stated < table and abs(without / store - 1) < (1 - stated / table),
        f"printed {stated} and {table} MB/s; ours {without:.1f} and {store:.1f}",
    )


def _first_over(found: ColdStart, engine: Engine, mbytes_s: float) -> int:
    """When (ps) a payload after the first has passed ``engine`` faster than that, idle included."""
    last = int(found.of(engine, 0)["end"][-1])
    packet = 1
    while True:
        end = int(found.of(engine, packet)["end"][-1])
        if PAYLOAD * PS_PER_US / (end - last) > mbytes_s:
            return end
        last, packet = end, packet + 1


PAYLOADS = tuple(1024 << power for power in range(7))  # 1 to 64 KB
BY_POLICY = ("store-and-forward", "cut-through", "adaptive")
WITHIN = 0.03
LARGE = 8192  # bytes, from which on adaptive should near the bus
SHARE_OF_BUS = 0.85


def figure6(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the statements need no printed number
    """Trapeze Figure 6: bandwidth by payload size under three policies, and latency when idle.

    A stream per pair, policy and payload, and a message alone for the latencies.
    """
    costs = platform_costs()
    both = {pair: pair_costs(costs, pair) for pair in PAIRS}
    rates, latencies = (
        {
            pair: {name: [measure(ends, name, size) for size in PAYLOADS] for name in BY_POLICY}
            for pair, ends in both.items()
        }
        for measure in (bandwidth_mbytes_s, latency_us)
    )
    _near(outcome, "adaptive-is-store-and-forward", rates, "store-and-forward")
    _near(outcome, "adaptive-is-cut-through", latencies, "cut-through")
    below = {
        pair: max(
            cut / min(store, adaptive) for store, cut, adaptive in zip(*found.values(), strict=True)
        )
        for pair, found in rates.items()
    }
    outcome.shape(
        "pure-is-below",
        max(below.values()) < 1,
        "at most " + ", ".join(f"{100 * most:.0f} % on {pair}" for pair, most in below.items()),
    )
    bus = {}
    for pair, (sender, receiver) in both.items():
        limits = {
            size: min(dma_mbytes_s(sender, size)["send"], dma_mbytes_s(receiver, size)["receive"])
            for size in PAYLOADS
            if size >= LARGE
        }
        own = dict(zip(PAYLOADS, rates[pair]["adaptive"], strict=True))
        bus[pair] = min(own[size] / limit for size, limit in limits.items())
    outcome.shape(
        "adaptive-nears-the-bus",
        min(bus.values()) >= SHARE_OF_BUS,
        "at least " + ", ".join(f"{100 * least:.0f} % on {pair}" for pair, least in bus.items()),
    )


def _near(outcome: Outcome, shape: str, found: Mapping[str, Curves], other: str) -> None:
    """The statement holds if adaptive is within 3 % of ``other`` on every pair."""
    furthest = {}
    for pair, curves in found.items():
        quotients = [a / b for a, b in zip(curves["adaptive"], curves[other], strict=True)]
        furthest[pair] = max(quotients, key=lambda q: abs(q - 1))
    told = ", ".join(f"{100 * (q - 1):+.2f} % on {pair}" for pair, q in furthest.items())
    near = all(abs(q - 1) <= WITHIN for q in furthest.values())
    outcome.shape(shape, near, f"furthest {told}")


def headline(outcome: Outcome, item: Item) -> None:
    """Trapeze's abstract: 4 KB in 70 us, and 126 MB/s, under adaptive delivery.

    One message of 4 KB on each pair, a stream of 64 KB on Pentium-II/440LX.
    """
    ends = {pair: pair_costs(platform_costs(), pair) for pair in PAIRS}
    latency = {pair: latency_us(each, "adaptive", SIZES["4k"]) for pair, each in ends.items()}
    largest = 1024 * item.printed["bandwidth_packet_kbytes"]
    outcome.measure(
        item,
        latency_4k=latency.get,
        bandwidth_64k=lambda pair: bandwidth_mbytes_s(ends[pair], "adaptive", largest),
    )
    below = item.printed["latency_4k_us_good_pci_below"]
    outcome.shape(
        "below-80-on-good-pci",
        all((value < below) == (pair != ALCOR) for pair, value in latency.items()),
        ", ".join(f"{pair} {value:.1f} us" for pair, value in latency.items()),
    )


QUANTITIES = {"latency": ("us", "us"), "bandwidth": ("MB/s", "mbytes_s")}  # unit, printed column
MEAN_PREDICTED, WORST_PREDICTED, MEAN_TOGETHER = 0.05, 0.10, 0.025


def cells(costs: Mapping[str, Costs]) -> dict[Cell, float]:
    """The 32 numbers of the table with ``costs`` by platform."""
    found: dict[Cell, float] = {}
    for pair, size, kind in product(PAIRS, SIZES, POLICY_OF):
        asked = pair_costs(costs, pair), POLICY_OF[kind], SIZES[size]
        found[kind, size, "latency", pair] = latency_us(*asked)
        found[kind, size, "bandwidth", pair] = bandwidth_mbytes_s(*asked)
    return found


def table1(outcome: Outcome, item: Item) -> None:
    """Trapeze Table 1: latency and bandwidth of 4 and 8 KB, store-and-forward and cut-through.

    Measure all cells with the catalog's costs, and again with those fitted to all cells.
    """
    found, together = cells(platform_costs()), cells(all_together())
    printed = {}
    for kind, size, quantity, pair in found:
        unit, column = QUANTITIES[quantity]
        listed = item.printed[f"{kind}_{size}_{column}"]
        printed[kind, size, quantity, pair] = listed[list(PAIRS).index(pair)]
        value = found[kind, size, quantity, pair]
        outcome.point(f"{kind}_{size}_{quantity}", unit, value, pair=pair)
    predicted = [abs(found[key] / printed[key] - 1) for key in found if key[1] == "8k"]
    mean, worst = sum(predicted) / len(predicted), max(predicted)
    outcome.shape(
        "predicted-half",
        mean <= MEAN_PREDICTED and worst <= WORST_PREDICTED,
        f"mean {100 * mean:.2f} %, worst {100 * worst:.2f} %",
    )
    errors = [abs(together[key] / printed[key] - 1) for key in together]
    mean = sum(errors) / len(errors)
    outcome.shape(
        "fitted-together",
        mean <= MEAN_TOGETHER,
        f"mean {100 * mean:.2f} %, worst {100 * max(errors):.2f} %",
    )

    gain = {
        pair: 1 - found["cut", "8k", "latency", pair] / found["store", "8k", "latency", pair]
        for pair in PAIRS
    }
    by_gain = sorted(gain, key=gain.__getitem__)
    outcome.shape(
        "gain-by-platform",
        (by_gain[-1], by_gain[0]) == (PENTIUM2, ALCOR),
        ", ".join(f"{pair} {100 * value:.1f} %" for pair, value in gain.items()),
    )
    kept = [
        found["cut", size, "bandwidth", pair] / found["store", size, "bandwidth", pair]
        for pair, size in product(PAIRS, SIZES)
    ]
    outcome.shape(
        "cut-through-costs-bandwidth",
        max(kept) < 1,
        f"it keeps {100 * min(kept):.0f} to {100 * max(kept):.0f} %",
    )
    smallest = item.printed["latency_gain_percent"][0]
    by_size = [item.derived[f"latency_gain_{size}_percent"] for size in SIZES]
    outcome.shape(
        "gain-is-31",
        all(smallest not in gains for gains in by_size),
        f"the text says {smallest} %; least {min(by_size[0])} % at 4 KB, {min(by_size[1])} % at 8",
    )
    swapped = []  # pairs whose order at 8 KB is not the printed one
    for kind, quantity, pairs in product(POLICY_OF, QUANTITIES, combinations(PAIRS, 2)):
        one, other = ((kind, "8k", quantity, pair) for pair in pairs)
        if (found[one] < found[other]) != (printed[one] < printed[other]):
            swapped.append(
                f"{pairs[0]} and {pairs[1]} in {kind} {quantity}: {found[one]:.1f} and "
                f"{found[other]:.1f} {QUANTITIES[quantity][0]} for {printed[one]} and "
                f"{printed[other]}"
            )
    outcome.shape("ranking-at-8k", not swapped, "; ".join(swapped) or "none is swapped")


LONGEST = 65536  # bytes of one hostTx, long enough that its start is nothing
LONG_COPY = 1 << 20  # bytes: goes on after the DMA's end
SHORT_COPY = 1024  # bytes: ends before the DMA does
SETTLING_US = 10.0  # until the hostTx moves bytes
SLOWED = 0.15


class Shared(msgspec.Struct, frozen=True):
    """MB/s of each side, alone and against the other."""

    dma: float
    dma_shared: float
    copy: float
    copy_shared: float

    @property
    def dma_kept(self) -> float:
        """Share of its bandwidth that DMA keeps."""
        return self.dma_shared / self.dma

    @property
    def copy_kept(self) -> float:
        """Share of its bandwidth that the copy keeps."""
        return self.copy_shared / self.copy


def _host_tx_and_copy(platform: str, copied: int = 0, *, send: bool = True) -> tuple[float, float]:
    """Bandwidth of the hostTx and of the copy, of those that there are."""
    delivery = msgspec.structs.replace(
        POLICIES["store-and-forward"], max_payload=LONGEST, receive_ring=1
    )
    cluster = Cluster(platform, policy=delivery, keep_log=RECORDS)
    copying_us = []

    async def sender(endpoint: Endpoint) -> None:
        if send:
            await endpoint.send(1, endpoint.allocate(LONGEST))
        if copied:
            if send:
                await endpoint.sleep(SETTLING_US)
            begun = endpoint.now_us
            await endpoint.copy(copied)
            copying_us.append(endpoint.now_us - begun)

    async def receiver(endpoint: Endpoint) -> None:
        if send:
            await endpoint.receive()

    cluster.start(0, sender)
    cluster.start(1, receiver)
    cluster.run()
    assert cluster.simulation is not None
    machine = cluster.simulation.machine
    log = machine.log[: machine.tally[0]["log"]]
    transfers = log[log["engine"] == Engine.HOST_TX]
    dma = sum(LONGEST * 1e6 / float(each["end"] - each["start"]) for each in transfers)
    return dma, sum(copied / took for took in copying_us)


def figure7(outcome: Outcome, item: Item) -> None:
    """Trapeze Figure 7: a CPU that copies memory while the NIC reads it.

    On each platform one hostTx of 64 KB alone, one under a long copy, and copies alone and within.
    """
    found = {
        name: Shared(
            dma=_host_tx_and_copy(name)[0],
            dma_shared=_host_tx_and_copy(name, LONG_COPY)[0],
            copy=_host_tx_and_copy(name, SHORT_COPY, send=False)[1],
            copy_shared=_host_tx_and_copy(name, SHORT_COPY)[1],
        )
        for name in PLATFORMS
    }
    natoma, cia = found[P6], found[ALCOR]
    outcome.measure(item, host_tx_slowdown=100 * (1 - natoma.dma_kept))
    outcome.shape(
        "natoma-shares-evenly",
        abs(natoma.copy_shared / natoma.dma_shared - 1) <= 0.1,
        f"copy {natoma.copy_shared:.1f}, DMA {natoma.dma_shared:.1f} MB/s",
    )
    outcome.shape(
        "cia-starves-the-cpu",
        cia.dma_kept > 0.99 and cia.copy_kept < 0.1,
        f"DMA keeps {100 * cia.dma_kept:.0f} %, the copy {100 * cia.copy_kept:.0f} %",
    )
    others = {name: found[name] for name in (PENTIUM2, MIATA)}
    outcome.shape(
        "others-serve-both",
        all(min(each.dma_kept, each.copy_kept) >= 1 - SLOWED for each in others.values()),
        "; ".join(
            f"{name}: DMA keeps {100 * each.dma_kept:.0f} %, the copy {100 * each.copy_kept:.0f} %"
            for name, each in others.items()
        ),
    )


TRUNK_MESSAGES = 60
GAP_PS = 90 * PS_PER_US  # more than a message takes alone, less than two take in turn
SHORT_WATCHDOG_PS = 60 * PS_PER_US  # a packet under cut-through holds its path for longer


def _over_trunk(
    hosts: list[Costs], name: str, senders: int, count: int = TRUNK_MESSAGES, gap_ps: int = 0
) -> Traffic:
    """Node 0 to node 2 and, with two senders, node 1 to node 3, across one trunk."""
    runs = [Run(n, n + 2, PAYLOAD, count, gap_ps) for n in range(senders)]
    return simulate_script(hosts, POLICIES[name], topology.trunk(2, 2), runs, keep_log=RECORDS)


def _to_link(found: Traffic) -> NDArray[Any]:
    transfers: NDArray[Any] = found.log[found.log["engine"] == Engine.NET_TX]
    return transfers


def trunk(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - nothing of it is printed
    """Trapeze 3.5: what cut-through does to a trunk between two switches.

    One sender and two, under three policies.
    """
    costs = platform_costs()[P6]
    hosts = [costs] * 4
    # How long the first packet holds its path: from its first link on to its last byte.
    held = []
    for name in ("cut-through", "store-and-forward"):
        transfers = _to_link(_over_trunk(hosts, name, 1, 1))
        begin = int(transfers["start"].min()) + costs["link_start"]
        held.append((int(transfers["end"].max()) - begin) / PS_PER_US)
    fed = (PAYLOAD - POLICIES["cut-through"].minpulse_send) * costs["pci_read_per_byte"]
    outcome.shape(
        "held-at-pci-pace",
        held[0] >= fed / PS_PER_US and held[1] < held[0],
        f"PCI {fed / PS_PER_US:.1f} us, cut-through {held[0]:.1f}, store-and-forward {held[1]:.1f}",
    )
    rates = {
        name: [
            steady_mbytes_s(_over_trunk(hosts, name, senders).messages["read"], PAYLOAD)
            for senders in (1, 2)
        ]
        for name in ("store-and-forward", "adaptive")
    }
    outcome.shape(
        "throughput-of-two",
        all(one < two for one, two in rates.values()),
        ", ".join(f"{name} {one:.1f} and {two:.1f} MB/s" for name, (one, two) in rates.items()),
    )
    # Mean bytes of a payload's transfers to the link.
    streams = [_to_link(_over_trunk(hosts, "adaptive", n, gap_ps=GAP_PS)) for n in (1, 2)]
    alone, both = (float(each["bytes"][each["control"] == 0].mean()) for each in streams)
    outcome.shape(
        "stalled-senders-leave-cut-through",
        both > alone,
        f"{alone:.0f} bytes a transfer alone, {both:.0f} with two",
    )
    hasty = {**costs, "link_watchdog": SHORT_WATCHDOG_PS}
    mixed = _over_trunk([hasty, costs, costs, costs], "adaptive", 2, gap_ps=GAP_PS)
    messages = mixed.messages
    aborted = int(mixed.counters["aborted"][0])
    arrived = int(((messages["sender"] == 1) & (messages["read"] >= 0)).sum())
    outcome.shape(
        "watchdog-frees-the-trunk",
        aborted > 0 and arrived == TRUNK_MESSAGES,
        f"{aborted} of {TRUNK_MESSAGES} aborted, {arrived} of {TRUNK_MESSAGES} of the other sender "
        "arrive",
    )
