"""Bandwidth and latency of verbs between two simulated nodes, as perftest measures them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from nicscope.config.design import Scheme, Way
from nicscope.drivers.simulate.observe import Engine, Task
from nicscope.drivers.simulate.records import POLLING
from nicscope.errors import SimulationError, StudyError
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import World, use
from nicscope.interfaces.verbs.cq import CQ, cqe_status_to_str
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.mr import MR, PD
from nicscope.interfaces.verbs.qp import QP, QPAttr, QPCap, QPInitAttr
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR
from nicscope.studies.latency import Part, Sent, parts_of, prices_of
from nicscope.studies.sources import numbers, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


SHARES = ("cpu_share", "nic_share", "bus_share", "link_share")
COUNTS = ("pins", "unpins", "interrupts", "checks")


class Costs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The costs of part of a run."""

    virtual_ns: int
    busy_ns: dict[str, float]  # of the sender's processor, NIC, bus and link
    lookups: int
    ni_misses: int
    pins: int
    unpins: int
    interrupts: int
    checks: int  # pages that the library looked at before it posted or registered
    retransmitted: int = 0  # packets that were not acknowledged in time

    @property
    def missed_percent(self) -> float:
        """The percentage of lookups that missed."""
        return 100 * self.ni_misses / self.lookups if self.lookups else 0.0

    def busy_percent(self, who: str) -> float:
        """The percentage of the time that an engine was busy."""
        return 100 * self.busy_ns[who] / self.virtual_ns if self.virtual_ns else 0.0

    def since(self, before: Costs) -> Costs:
        """The costs since ``before``."""
        found: dict[str, Any] = {}
        for name in self.__struct_fields__:
            now, then = getattr(self, name), getattr(before, name)
            found[name] = (
                {who: now[who] - then[who] for who in now} if isinstance(now, dict) else now - then
            )
        return Costs(**found)


def costs_so_far(worlds: Sequence[World]) -> Costs:
    """The costs so far: what the first world's node was busy with, and what all nodes counted."""
    report = worlds[0].device.report()
    elapsed = report.elapsed_us * 1000
    bills = [world.device.bill() for world in worlds]
    return Costs(
        virtual_ns=bills[0].virtual_ns,
        busy_ns={
            name.removesuffix("_share"): (getattr(report.nodes[0], name) or 0.0) * elapsed
            for name in SHARES
        },
        lookups=sum(bill.lookups for bill in bills),
        retransmitted=sum(node.sent.again or 0 for node in report.nodes),
        ni_misses=sum(bill.misses for bill in bills),
        **{name: sum(getattr(node, name) or 0 for node in report.nodes) for name in COUNTS},
    )


OPCODES = {
    "send": e.IBV_WR_SEND,
    "write": e.IBV_WR_RDMA_WRITE,
    "read": e.IBV_WR_RDMA_READ,
    "atomic": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}
RIGHTS = {
    "send": e.IBV_ACCESS_LOCAL_WRITE,
    "write": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE,
    "read": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ,
    "atomic": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC,
}
PAGE = 4096
AT_ONCE = 16  # reads and atomics of a pair that its peer answers at once
AGAIN = 2  # receives posted for each message that may be outstanding
NODES = 2  # one at either end, joined by a switch
PATIENCE = 100_000  # empty polls, each up to 1 ms of virtual time, before nothing more is expected


class End:
    """One end: a protection domain, a registered buffer, two completion queues and queue pairs."""

    def __init__(self, world: World, question: Question, size: int) -> None:
        self.size, self.operation, self.question = size, question.operation, question
        self.room = -(-size // PAGE) * PAGE  # of a pair: no page is two pairs'
        self.context = Context(name=world.name)
        self.pd = PD(self.context)
        self.rights = RIGHTS[question.operation]
        self.mr = MR(self.pd, self.room * question.pairs, self.rights)
        depth = min(question.depth, question.iterations)
        receives = AGAIN * depth if question.operation == "send" else 1
        self.sent = CQ(self.context, depth * question.pairs + 1)
        self.come = CQ(self.context, receives * question.pairs + 1)
        flags = e.IBV_SEND_SIGNALED
        inline = size if size <= question.inline else 0
        if inline:
            flags |= e.IBV_SEND_INLINE
        cap = QPCap(depth, receives, 1, 1, inline)
        self.pairs = [
            QP(self.pd, QPInitAttr(e.IBV_QPT_RC, None, self.sent, self.come, None, cap, 0))
            for _ in range(question.pairs)
        ]
        self.by_number = {qp.qp_num: number for number, qp in enumerate(self.pairs)}
        pieces = [
            SGE(self.mr.buf + number * self.room, size, self.mr.lkey)
            for number in range(question.pairs)
        ]
        opcode = OPCODES[self.operation]
        self.sends = [SendWR(0, opcode, 1, 0, [piece], flags) for piece in pieces]
        self.receives = [RecvWR(0, 1, [piece]) for piece in pieces]
        self.receives_posted = receives

    def connect(self, peer: End) -> None:
        """Connect each queue pair with the peer's, and learn the peer's address and rkey."""
        for number, qp in enumerate(self.pairs):
            attr = QPAttr(port_num=1, path_mtu=e.IBV_MTU_4096)
            route = GlobalRoute(dgid=peer.context.query_gid(1, 0), sgid_index=0)
            attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
            attr.dest_qp_num = peer.pairs[number].qp_num
            attr.qp_access_flags = self.rights
            attr.min_rnr_timer, attr.rnr_retry = 12, 7
            attr.timeout, attr.retry_cnt = self.question.timeout, self.question.retry_count
            attr.max_rd_atomic = attr.max_dest_rd_atomic = AT_ONCE
            qp.to_rts(attr)
            target = peer.mr.rkey, peer.mr.buf + number * peer.room
            if self.operation == "atomic":
                self.sends[number].set_wr_atomic(*target, 1)
            elif self.operation != "send":
                self.sends[number].set_wr_rdma(*target)
            if self.operation == "send":
                for _ in range(self.receives_posted):
                    qp.post_recv(self.receives[number])

    def post(self, number: int = 0) -> None:
        """Post the next operation on that queue pair."""
        self.pairs[number].post_send(self.sends[number])

    def receive(self, number: int = 0) -> None:
        """Post a receive on that queue pair."""
        self.pairs[number].post_recv(self.receives[number])

    def ended(self, queue: CQ, most: int = 1) -> list[int]:
        """Wait for completions: the queue pairs of each, one entry per completion."""
        for _ in range(PATIENCE):
            count, found = queue.poll(most)
            if count:
                return [self._good(completion) for completion in found]
        raise SimulationError("nothing completes any more: what was posted is lost")

    def polled(self, queue: CQ, most: int) -> list[int]:
        """Poll once: the queue pairs of the completions, of which there may be none."""
        return [self._good(completion) for completion in queue.poll(most)[1]]

    def _good(self, completion: Any) -> int:
        if completion.status:
            raise SimulationError(
                f"an operation {self.operation!r} of {self.size:,} bytes ended with "
                f"{cqe_status_to_str(completion.status)!r}"
            )
        return self.by_number[completion.qp_num]

    def close(self) -> None:
        """Destroy all objects."""
        self.context.close()


def both_ends(worlds: Sequence[World], question: Question, size: int) -> tuple[End, End]:
    """Two connected ends, one in each of the worlds."""
    ends = []
    for world in worlds:
        use(world)
        ends.append(End(world, question, size))
    left, right = ends
    left.connect(right)
    right.connect(left)
    return left, right


OPERATIONS = ("send", "write", "read", "atomic")
WITHOUT_INLINE = ("read", "atomic")
WORD = 8  # bytes of an atomic operation
MOST_BYTES = 1 << 20
MOST_PAIRS = 128
MOST_DEPTH = 1 << 12
MOST_COUNT = 10**6
MOST_INLINE = 512
NO_DELAY = "0us"
TIMEOUT = 14  # as perftest's --qp-timeout: 67 ms
MOST_TIMEOUT = 31  # that five bits can say (InfiniBand Architecture, 11.2.5)
RETRY_COUNT = 7  # the most that three bits can say


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement on each design for each size."""

    operation: str
    sizes: list[int]
    iterations: int  # by each queue pair
    pairs: int = 1
    depth: int = 1  # requests of a queue pair that may be outstanding
    inline: int = 0  # messages of up to so many bytes go with the request
    delay: str = NO_DELAY  # of a packet between the two nodes
    bursts: bool = False  # several packets of a message move as one
    timeout: int = TIMEOUT  # 4.096 us times 2 to this power without an acknowledgement; 0: for ever
    retry_count: int = RETRY_COUNT  # how often unacknowledged packets are retransmitted
    designs: Sequence[Any] = (None,)  # names, files or designs; None: the device's own
    platform: Any = None
    seed: int = 0


def ask(
    *,
    operation: str,
    sizes: str | None,
    iterations: int,
    pairs: int = 1,
    depth: int = 1,
    inline: int = 0,
    delay: str | None = None,
    bursts: bool = False,
    timeout: int = TIMEOUT,
    retry_count: int = RETRY_COUNT,
    designs: Sequence[Any] = (None,),
    platform: Any = None,
    most_sizes: str = "64..65536",
) -> Question:
    """Parse and check the options.  Errors: ``StudyError`` naming the option."""
    if operation not in OPERATIONS:
        raise StudyError(f"--op is one of {', '.join(OPERATIONS)}, got {operation!r}")
    if operation == "atomic":
        chosen = [WORD] if sizes is None else numbers("--size", sizes, MOST_BYTES)
        if chosen != [WORD]:
            raise StudyError(f"--size: an atomic operation is of {WORD} bytes; leave it out")
    else:
        chosen = numbers("--size", most_sizes if sizes is None else sizes, MOST_BYTES)
    for option, value, least, most in (
        ("--iters", iterations, 2, MOST_COUNT),
        ("--qps", pairs, 1, MOST_PAIRS),
        ("--tx-depth", depth, 1, MOST_DEPTH),
        ("--inline", inline, 0, MOST_INLINE),
        ("--qp-timeout", timeout, 0, MOST_TIMEOUT),
        ("--retry-count", retry_count, 0, RETRY_COUNT),
    ):
        if not least <= value <= most:
            raise StudyError(f"{option} must be from {least} to {most:,}, got {value:,}")
    if inline and operation in WITHOUT_INLINE:
        raise StudyError(f"--inline: nothing of an operation {operation!r} goes with its request")
    if bursts and delay is not None:
        raise StudyError(
            "--bursts: windows count bursts, which matters over a --delay; leave one out"
        )
    return Question(
        operation=operation,
        sizes=chosen,
        iterations=iterations,
        pairs=pairs,
        depth=depth,
        inline=inline,
        delay=NO_DELAY if delay is None else delay,
        bursts=bursts,
        timeout=timeout,
        retry_count=retry_count,
        designs=designs,
        platform=platform,
    )


MIB = 1 << 20
NS_PER_S = 10**9


class Bandwidth(msgspec.Struct, frozen=True, kw_only=True):
    """The bandwidth at one size on one design."""

    design: str
    platform: str
    payload_bytes: int
    iterations: int  # of all queue pairs
    peak_mib_s: float
    average_mib_s: float
    rate_mpps: float  # as perftest's Mpps
    costs: Costs


def bandwidth(
    worlds: Sequence[World], question: Question, size: int, watch: Callable[[], object]
) -> Bandwidth:
    """Keep the queues full until all operations have completed; ``watch``: after each."""
    device = worlds[0].device
    left, right = both_ends(worlds, question, size)
    before = costs_so_far(worlds)
    count, all_of_them = question.iterations, question.iterations * question.pairs
    depth = min(question.depth, count)
    posted, ended = [0] * question.pairs, [0] * question.pairs
    posted_at: list[int] = []
    ended_at: list[int] = []
    taken = 0  # by the receiver
    sends = question.operation == "send"
    while len(ended_at) < all_of_them:
        for number in range(question.pairs):
            while posted[number] < count and posted[number] - ended[number] < depth:
                posted_at.append(device.now_ns)
                left.post(number)
                posted[number] += 1
        for number in left.ended(left.sent, AT_ONCE):
            ended[number] += 1
            ended_at.append(device.now_ns)
            watch()
        if sends and len(ended_at) - taken >= depth:
            for number in right.ended(right.come, AT_ONCE):
                right.receive(number)
                taken += 1
    after = costs_so_far(worlds)
    left.close()
    right.close()
    rate = all_of_them * NS_PER_S / max(ended_at[-1] - posted_at[0], 1)
    return Bandwidth(
        design=device.design_name,
        platform=device.fabric.platform.name,
        payload_bytes=size,
        iterations=all_of_them,
        peak_mib_s=NS_PER_S / shortest(posted_at, ended_at) * size / MIB,
        average_mib_s=rate * size / MIB,
        rate_mpps=rate / 1e6,
        costs=after.since(before),
    )


def shortest(posted_ns: Sequence[int], ended_ns: Sequence[int]) -> float:
    """The least ns per message between any post and any completion not before its own."""
    posted, ended = np.asarray(posted_ns), np.asarray(ended_ns)
    least = float("inf")
    for first in range(len(posted)):
        spans = (ended[first:] - posted[first]) / np.arange(1, len(ended) - first + 1)
        least = min(least, float(spans.min()))
    return max(least, 1 / NS_PER_S)


NS_PER_US = 1000
KEPT = 1 << 17  # records of the log, of which messages are taken apart


# What the NIC does for what comes; the rest is for what goes.
OF_RECEIVER = (Engine.NET_RCV, Engine.HOST_RCV, Engine.HOST_READ, Engine.REPORT)
TASKS_OF_RECEIVER = (Task.POST_CONTROL, Task.POST_PAYLOAD, Task.HOST_RCV, Task.COMPLETE)


class Latencies(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latencies (ns) at one size on one design."""

    design: str
    platform: str
    payload_bytes: int
    iterations: int
    least: float
    most: float
    typical: float  # the median
    average: float
    deviation: float
    p99: float
    p99_9: float
    taken_apart: int  # messages that ``parts_ns`` is the mean of
    parts_ns: dict[str, float]  # by the name of the ``Part``, in lower case
    costs: Costs
    propagation_ns: float = 0  # of a message, on the way there and, until it completes, back

    def us(self, *parts: Part) -> float:
        """The mean microseconds of a message in these parts."""
        return sum(self.parts_ns[part.name.lower()] for part in parts) / NS_PER_US


def latencies(
    worlds: Sequence[World], question: Question, size: int, watch: Callable[[], object]
) -> Latencies:
    """Time messages one by one: sends as ping-pong, other operations until completion."""
    device = worlds[0].device
    left, right = both_ends(worlds, question, size)
    before = costs_so_far(worlds)
    sends = question.operation == "send"
    messages: list[Sent] = []
    for number in range(question.iterations):
        ends = (left, right) if number % 2 == 0 or not sends else (right, left)
        begun, seen = _timed(device, *ends, sends=sends)
        messages.append(Sent(0, 1, size, begun, seen, seen))
        watch()
    after = costs_so_far(worlds)
    left.close()
    right.close()
    apart = _message_parts(device, messages)
    taken = np.array([one.seen - one.begun for one in messages]) / NS_PER_US  # ps to ns
    in_order = np.sort(taken)
    parts_ns = {
        part.name.lower(): sum(one[part] for one in apart) / max(len(apart), 1) / NS_PER_US
        for part in Part
    }
    ways = 1 if sends else 2  # that a message's packets go, one after the other: there, and back
    delay_ps = device.fabric.topology.delay_ps
    propagation_ns: float = 0  # as it is by default, and then not told
    if delay_ps:
        propagation_ns = ways * delay_ps / NS_PER_US
    if delay_ps and apart:
        propagation_ns = min(propagation_ns, parts_ns["wait"])
        parts_ns["wait"] -= propagation_ns
    return Latencies(
        design=device.design_name,
        platform=device.fabric.platform.name,
        payload_bytes=size,
        iterations=len(taken),
        least=float(in_order[0]),
        most=float(in_order[-1]),
        typical=float(np.median(in_order)),
        average=float(taken.mean()),
        deviation=float(taken.std()),
        p99=percentile(in_order, 0.99),
        p99_9=percentile(in_order, 0.999),
        taken_apart=len(apart),
        parts_ns=parts_ns,
        propagation_ns=propagation_ns,
        costs=after.since(before),
    )


def percentile(in_order: NDArray[Any], share: float) -> float:
    """The value that a share of the sorted values does not exceed."""
    return float(in_order[math.ceil(len(in_order) * share) - 1])


def _timed(device: Any, here: End, there: End, *, sends: bool) -> tuple[int, int]:
    """When a message was posted, and when it was detected, ps."""
    begun = device.now_ps
    here.post()
    if not sends:
        here.ended(here.sent)
        return begun, device.now_ps
    there.ended(there.come)
    seen = device.now_ps
    there.receive()
    here.ended(here.sent)
    return begun, seen


def _message_parts(device: Any, messages: Sequence[Sent]) -> list[list[int]]:
    """Ps by ``Part`` of each message whose records were kept."""
    log = device.records()
    kept = [each for each in messages if len(log) and each.seen <= int(log["end"][-1])]
    costs = {name: cost.high_ps for name, cost in device.fabric.platform.costs.items()}
    own_table = device.fabric.design.scheme is Scheme.STATIC
    prices = prices_of(Way.PCI, costs, {}, own_table=own_table)
    parted = by_direction(log)
    return [parts_of(parted, each, prices) for each in kept]


def by_direction(log: NDArray[Any]) -> NDArray[Any]:
    """Records of one message at a time: node 0 has what was done for what goes, 1 for what comes.

    Of a read that is done on either node.  A miss is the direction's whose lookup was before it.
    """
    found = log.copy()
    firmware = found["engine"] == Engine.FIRMWARE
    missing = firmware & (found["task"] == Task.MISSING) | (found["engine"] == Engine.TABLE)
    comes = np.isin(found["engine"], OF_RECEIVER)
    comes |= firmware & np.isin(found["task"], TASKS_OF_RECEIVER)
    comes |= (found["engine"] == Engine.CPU) & (found["task"] == POLLING)
    side = comes.copy()
    for node in range(NODES):
        own = np.flatnonzero(found["node"] == node)
        looked = np.where(firmware[own] & ~missing[own], np.arange(len(own)), 0)
        if len(own):
            side[own] = comes[own][np.maximum.accumulate(looked)]
    found["node"] = np.where(missing, side, comes)
    return found


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.platform import Platform
    from nicscope.interfaces.verbs_device.fabric import Fabric

    Watch = Callable[[int, int], None]
    Measure = Callable[[Sequence[World], Question, int, Callable[[], object]], "T"]

T = TypeVar("T")


class Measured(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The common fields of both kinds of results."""

    operation: str
    queue_pairs: int
    depth: int
    inline_bytes: int
    delay: str = NO_DELAY  # of a packet between the nodes
    bursts: bool = False  # messages move in bursts of packets
    qp_timeout: int = TIMEOUT
    retry_count: int = RETRY_COUNT
    nodes: int
    evidence: dict[str, dict[str, int]]  # by platform: how many of its costs, by class
    repeat: dict[str, Any]

    @property
    def has_delay(self) -> bool:
        """Whether packets propagate for a time between the nodes."""
        return self.delay != NO_DELAY

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Bandwidths(Measured, frozen=True, kw_only=True):
    """Of each design and size."""

    rows: list[Bandwidth]


class AllLatencies(Measured, frozen=True, kw_only=True):
    """Of each design and size."""

    rows: list[Latencies]


def bandwidths(question: Question, command: Sequence[str], watch: Watch) -> Bandwidths:
    """Measure bandwidth on each design, for each size.  Errors: ``NicscopeError``."""
    rows, said = _measured(question, command, watch, bandwidth, 0)
    return Bandwidths(rows=rows, **said)


def all_latencies(question: Question, command: Sequence[str], watch: Watch) -> AllLatencies:
    """Measure latency on each design, for each size.  Errors: ``NicscopeError``."""
    rows, said = _measured(question, command, watch, latencies, KEPT)
    return AllLatencies(rows=rows, **said)


def _measured(
    question: Question, command: Sequence[str], watch: Watch, measure: Measure[T], keep_log: int
) -> tuple[list[T], dict[str, Any]]:
    from nicscope.interfaces.verbs_device.device import Device

    for design in question.designs:
        _fabric(question, design, 0)  # all of them can be, before the first is measured
    each = question.iterations * question.pairs
    total = each * len(question.sizes) * len(question.designs)
    done, rows = 0, []
    evidence: dict[str, dict[str, int]] = {}

    def one_more() -> None:
        nonlocal done
        done += 1
        watch(done, total)

    for design in question.designs:
        for size in question.sizes:
            fabric = _fabric(question, design, keep_log)
            worlds = [World(Device.on(fabric), node) for node in range(NODES)]
            try:
                rows.append(measure(worlds, question, size, one_more))
            finally:
                use(None)
            platform = fabric.platform
            evidence[platform.name] = _classes(platform)
    return rows, {
        "operation": question.operation,
        "queue_pairs": question.pairs,
        "depth": min(question.depth, question.iterations),
        "inline_bytes": question.inline,
        "delay": question.delay,
        "bursts": question.bursts,
        "qp_timeout": question.timeout,
        "retry_count": question.retry_count,
        "nodes": NODES,
        "evidence": evidence,
        "repeat": repeat(command),
    }


def _classes(platform: Platform) -> dict[str, int]:
    """The number of its costs by class of evidence."""
    found: dict[str, int] = {}
    for cost in platform.costs.values():
        kind = cost.origin.evidence.value
        found[kind] = found.get(kind, 0) + 1
    return found


def _fabric(question: Question, design: Any, keep_log: int) -> Fabric:
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.interfaces.verbs_device.fabric import DESIGN, Fabric

    return Fabric(
        DESIGN if design is None else design,
        question.platform,
        faults=Faults(seed=question.seed),
        nodes=NODES,
        delay=question.delay,
        bursts=question.bursts,
        one_program=True,
        keep_log=keep_log,
    )
