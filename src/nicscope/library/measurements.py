"""Virtual time measured: latencies, packets taken apart, verbs' bandwidth, collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nicscope.library.command import (
    Assignments,
    Bytes,
    Delay,
    Option,
    Text,
    Values,
    byte_count,
    command,
    designs,
    each_given,
    platform_option,
)
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.reports.applications import ShownCollectives, ShownKernel
    from nicscope.reports.flow import ShownFlow
    from nicscope.reports.latency import ShownLatencies
    from nicscope.reports.verbs import ShownBandwidths, ShownVerbsLatencies


@command(
    "nicscope latency",
    "nicscope latency --mechanism edt,cc-dma-intervention --bytes 64..4096 --dma-rate 800",
    "nicscope latency --mechanism cc-dma-intervention,dma --translation utlb --entries 64 "
    "--pages 64 --delivery cut-through",
    "nicscope latency --mechanism edt --bytes 256 --set cache_supply=60ns --json",
    out="Folder for results.json, latency.parquet and a figure.",
)
def latency(
    repeat: list[str],
    /,
    mechanism: Annotated[
        Text,
        Option(
            "NAME,...",
            "edt (eager data transfer), cc-dma-intervention, cc-dma-retry (coherent DMA), "
            "cni (cacheable queues), dma (the library flushes caches), pio, pio-combined (write "
            "combining), pci (on a platform with an I/O bus).  All but the last two, as far as the "
            "other options allow.",
        ),
    ] = None,
    platform: Annotated[
        str | Path | Platform,
        platform_option("Platform with the costs: a name of the catalog, or a .toml file."),
    ] = "sonic-via",
    *,
    sizes: Annotated[
        Text,
        Option(
            "LOW..HIGH",
            "Message sizes by powers of two, or a list such as 64,1500; from 1 to 65536.",
            ("--bytes",),
        ),
    ] = "64..4096",
    mtu: Annotated[
        Bytes, Option("BYTES", "Bytes of a message in a frame. Default: 1500.", read=byte_count)
    ] = None,
    dma_rate: Annotated[
        int | None, Option("MB/s", "Peak rate of the DMA engine. Default: 1600.")
    ] = None,
    translation: Annotated[
        Text,
        Option(
            "SCHEME",
            "Translation in place of a table on the NIC: static, utlb, utlb-"
            "shared, utlb-process, or a design of one of these.",
        ),
    ] = None,
    entries: Annotated[
        int | None, Option("N", "Entries of the translation cache. Default: the design's.")
    ] = None,
    pages: Annotated[
        int | None,
        Option(
            "N",
            "Buffers that messages use in turn, so that the translation cache misses. Default: 1.",
        ),
    ] = None,
    delivery: Annotated[
        Text,
        Option(
            "POLICY",
            "message-store-and-forward (a message is whole on a NIC before it goes on), "
            "store-and-forward (a frame is) or cut-through.",
        ),
    ] = "message-store-and-forward",
    assignments: Annotated[
        Values,
        Option(
            "NAME=NUMBER",
            "Change a time (in ps, or such as 60ns), a size or a switch of the machine or of its "
            "messaging; docs/via.md lists them. May be repeated.",
            ("--set",),
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    **_settings: One,
) -> ShownLatencies:
    """Show what a message's latency is made of.

    One row for each way between host and NIC: DMA, programmed I/O, CNI, eager data transfer.
    """
    from nicscope.reports.latency import ShownLatencies
    from nicscope.studies.latency import ask, measure

    question = ask(
        mechanisms=mechanism,
        sizes=sizes,
        platform=platform,
        mtu=mtu,
        dma_rate=dma_rate,
        overrides=assignments,
        translation=translation,
        entries=entries,
        pages=pages,
        delivery=delivery,
    )
    with progress("measuring", "packets", always_say=True) as watch:
        return ShownLatencies(measure(question, repeat, watch))


@command(
    "nicscope flow --platform p6-natoma --policy adaptive --payload 8192 --count 8",
    "nicscope flow --policy cut-through --gap 130us --out results",
    "nicscope flow --platform alcor --to miata --payload 4KiB --logging --json",
    "nicscope flow --topology trunk --nodes 4 --set link_per_byte=5ns/B",
    out="Folder for results.json, tables, figures and a timeline.",
)
def flow(
    repeat: list[str],
    /,
    platform: Annotated[
        str | Path | Platform, platform_option("Platform of the senders.")
    ] = "p6-natoma",
    to: Annotated[
        str | Path | Platform | None,
        platform_option("Platform of the receivers. Default: the senders'."),
    ] = None,
    *,
    policy: Annotated[
        Text,
        Option(
            "NAME",
            "store-and-forward, cut-through, cut-through-minpulse, adaptive or "
            "message-store-and-forward.",
        ),
    ] = "adaptive",
    payload: Annotated[
        Text, Option("BYTES", "Size of each message, such as 8192 or 8KiB.")
    ] = "8192",
    count: Annotated[int, Option("N", "Messages that each sender sends.")] = 8,
    gap: Annotated[
        Text,
        Option("TIME", "Least time from one message's start to the next one's, such as 130us."),
    ] = "0us",
    minpulse: Annotated[
        Bytes,
        Option(
            "BYTES",
            "Least bytes of a cut-through transfer, on both sides. Default: the policy's, 128.",
            read=byte_count,
        ),
    ] = None,
    buffers: Annotated[
        int | None, Option("N", "Packet buffers of a NIC in each direction. Default: the policy's.")
    ] = None,
    ring: Annotated[int | None, Option("N", "Entries of each ring. Default: 64.")] = None,
    max_payload: Annotated[Text, Option("BYTES", "Size of a packet buffer. Default: 8192.")] = None,
    logging: Annotated[
        bool, Option("", "Let the firmware write its log, which takes time.")
    ] = False,
    topology: Annotated[
        Text, Option("crossbar|pair|trunk", "Topology of the network.")
    ] = "crossbar",
    nodes: Annotated[int, Option("N", "Number of nodes: the first half sends to the second.")] = 2,
    bus_master: Annotated[
        Text,
        Option(
            "HOLD/PERIOD",
            "Another bus master holds each host's bus for HOLD of every PERIOD, "
            "such as 10us/100us.",
        ),
    ] = None,
    assignments: Annotated[
        Values,
        Option(
            "COST=VALUE",
            "Change a cost on both platforms, such as firmware_start=2us; may be repeated.",
            ("--set",),
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    **_costs: One,
) -> ShownFlow:
    """Show where a packet's microseconds go, stage by stage."""
    from nicscope.reports.flow import ShownFlow
    from nicscope.studies.flow import ask, report

    question = ask(
        platform=platform,
        to=to,
        policy=policy,
        payload=payload,
        count=count,
        gap=gap,
        minpulse=minpulse,
        buffers=buffers,
        ring=ring,
        max_payload=max_payload,
        logging=logging,
        topology=topology,
        nodes=nodes,
        bus_master=bus_master,
        assignments=assignments,
    )
    with progress("simulating", "messages") as watch:
        return ShownFlow(report(question, repeat, watch))


Sizes = Annotated[
    Text,
    Option(
        "LOW..HIGH",
        "Message sizes by powers of two, or a list such as 64,1500. Default: "
        "64..65536; 8 for atomic.",
    ),
]
Bursts = Annotated[
    bool, Option("", "Move messages in bursts of packets, as 'verbs exec' does; RDMA NICs alone.")
]
Inline = Annotated[
    Bytes,
    Option("BYTES", "Largest message that is sent inline, with its request.", read=byte_count),
]
Designs = Annotated[
    Values,
    designs("Design of the NICs; may be repeated to compare. Default: rnic, an RDMA NIC of today."),
]
QpTimeout = Annotated[
    int,
    Option(
        "N",
        "Retry timeout of the queue pairs: 4.096 us times 2 to the power N; 0 waits for ever.",
        least=0,
    ),
]
RetryCount = Annotated[
    int, Option("N", "How often a queue pair retransmits before it gives up.", least=0)
]
OnPlatform = Annotated[Any, platform_option("Platform with the costs. Default: the design's own.")]


@command(
    "nicscope verbs bw",
    "nicscope verbs bw --size 4096 --iters 200 --tx-depth 64 --delay 1ms",
    "nicscope verbs bw --op read --size 64..4096 --qps 4 --tx-depth 8 --design utlb --design "
    "vmmc-interrupt",
    words="verbs bw",
    out="Folder for results.json, bandwidth.parquet and a figure.",
)
def verbs_bandwidth(
    repeat: list[str],
    /,
    *,
    op: Annotated[Text, Option("OP", "Operation: send, write, read or atomic.")] = "write",
    size: Sizes = None,
    qps: Annotated[int, Option("N", "Queue pairs of each node.", least=1)] = 1,
    iters: Annotated[int, Option("N", "Messages of each queue pair.", least=2)] = 1000,
    tx_depth: Annotated[
        int,
        Option(
            "N",
            "Requests of a queue pair that may be outstanding.",
            ("--outstanding", "--tx-depth"),
            least=1,
        ),
    ] = 16,
    inline: Inline = 0,
    delay: Delay = None,
    bursts: Bursts = False,
    qp_timeout: QpTimeout = 14,
    retry_count: RetryCount = 7,
    design: Designs = None,
    platform: OnPlatform = None,
) -> ShownBandwidths:
    """Measure message rate and bandwidth, as ib_write_bw does."""
    from nicscope.reports.verbs import ShownBandwidths
    from nicscope.studies.verbs_measures import ask, bandwidths

    question = ask(
        operation=op,
        sizes=size,
        iterations=iters,
        pairs=qps,
        depth=tx_depth,
        inline=inline,
        delay=delay,
        bursts=bursts,
        timeout=qp_timeout,
        retry_count=retry_count,
        designs=design or [None],
        platform=platform,
    )
    with progress("measuring", "messages", always_say=True) as watch:
        return ShownBandwidths(bandwidths(question, repeat, watch))


@command(
    "nicscope verbs lat",
    "nicscope verbs lat --op write --size 64 --iters 10 --delay 40ms --qp-timeout 15",
    "nicscope verbs lat --op atomic --design utlb --design via-static --json",
    words="verbs lat",
    out="Folder for results.json, two tables and a figure.",
)
def verbs_latency(
    repeat: list[str],
    /,
    *,
    op: Annotated[
        Text,
        Option(
            "OP",
            "Operation: send is timed until its receiver has it; write, read "
            "and atomic until they complete.",
        ),
    ] = "send",
    size: Sizes = None,
    iters: Annotated[int, Option("N", "Messages, sent one after another.", least=2)] = 100,
    inline: Inline = 0,
    delay: Delay = None,
    bursts: Bursts = False,
    qp_timeout: QpTimeout = 14,
    retry_count: RetryCount = 7,
    design: Designs = None,
    platform: OnPlatform = None,
) -> ShownVerbsLatencies:
    """Measure latency, as ib_write_lat does, and what it is made of."""
    from nicscope.reports.verbs import ShownVerbsLatencies
    from nicscope.studies.verbs_measures import all_latencies, ask

    question = ask(
        operation=op,
        sizes=size,
        iterations=iters,
        inline=inline,
        delay=delay,
        bursts=bursts,
        timeout=qp_timeout,
        retry_count=retry_count,
        designs=design or [None],
        platform=platform,
    )
    with progress("measuring", "messages", always_say=True) as watch:
        return ShownVerbsLatencies(all_latencies(question, repeat, watch))


def collective_names() -> list[str]:
    """What ``run_collective`` runs: a collective, or all of them."""
    from nicscope.studies.collectives import ALGORITHMS

    return [*ALGORITHMS, "all"]


@command(
    "nicscope apps collective allreduce --on vmmc --nodes 8 --sizes 8:1M:8",
    "nicscope apps collective barrier,lock --on all",
    "nicscope apps collective broadcast --on via --way cni --algorithm tree,ring",
    "nicscope apps collective allreduce --on mini --loss 0.01 --seed 3 --json",
    words="apps collective",
    out="Folder for results.json and collectives.parquet.",
)
def run_collective(
    repeat_line: list[str],
    /,
    name: Annotated[
        Text,
        Option(
            "NAME,...",
            "broadcast, allreduce, alltoall, barrier, lock, or all.",
            offers="collectives",
            is_argument=True,
        ),
    ],
    on: Annotated[
        Text, Option("NAME,...", "Interface: unet, vmmc, mini, via, trapeze, or all.")
    ] = "vmmc",
    *,
    nodes: Annotated[int, Option("N", "Nodes, with a process each.", least=1, most=64)] = 4,
    sizes: Annotated[
        Text,
        Option(
            "LOW:HIGH",
            "Bytes of each process's array, doubling; LOW:HIGH:FACTOR, or a list such as 8,1500.",
        ),
    ] = "8:64K:8",
    algorithm: Annotated[
        Text,
        Option(
            "NAME,...",
            "Algorithm: tree or ring (broadcast, allreduce), manager or "
            "remote (lock), or all. Default: the usual one.",
        ),
    ] = None,
    design: Annotated[Text, Option("NAME", "Design of the NICs.", offers="designs")] = None,
    platform: Annotated[
        Text, Option("NAME", "Platform with the costs.", offers="platforms")
    ] = None,
    way: Annotated[
        Text, Option("NAME", "Way between host and NIC: pci, edt, cni, dma and others.")
    ] = None,
    kind: Annotated[
        Text, Option("NAME", "Type of the numbers: u1, i4, i8, f4 or f8.", ("--type",))
    ] = "f8",
    operation: Annotated[Text, Option("NAME", "Reduction: sum, max or min.")] = "sum",
    repeat: Annotated[int, Option("N", "Calls that are timed, after the first.", least=1)] = 3,
    seed: Annotated[int, Option("N", "Seed of the numbers and of the faults.", least=0)] = 0,
    loss: Annotated[
        float, Option("SHARE", "Share of packets that are lost.", least=0, most=1)
    ] = 0.0,
    duplication: Annotated[
        float, Option("SHARE", "Share of packets that are duplicated.", least=0, most=1)
    ] = 0.0,
    corruption: Annotated[
        float, Option("SHARE", "Share of packets that are corrupted.", least=0, most=1)
    ] = 0.0,
    dead: Annotated[
        Values,
        Option(
            "NODE@US",
            "Node that dies after so many us. May be repeated.",
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    add: Annotated[
        float, Option("NS", "Time of the processor to reduce a byte of two arrays.", least=0)
    ] = 0.0,
    assignments: Assignments = None,
    **_settings: One,
) -> ShownCollectives:
    """Run a collective (allreduce, ...), check and time it."""
    from nicscope.reports.applications import ShownCollectives
    from nicscope.studies.collectives import ask, dead_node, faults_of, measure

    question = ask(
        name,
        on,
        sizes=sizes,
        algorithms=algorithm,
        nodes=nodes,
        design=design,
        platform=platform,
        way=way,
        assignments=assignments,
        kind=kind,
        operation=operation,
        repeat=repeat,
        seed=seed,
        faults=faults_of(
            seed,
            loss=loss,
            duplication=duplication,
            corruption=corruption,
            deaths=[dead_node(one) for one in each_given("dead", dead)],
        ),
        add_ns_per_byte=add,
    )
    with progress("calling", "calls", always_say=True) as watch:
        return ShownCollectives(measure(question, repeat_line, watch))


@command(
    "nicscope apps kernel",
    "nicscope apps kernel --policy all --page 4096 --pages 512 --frames 128",
    "nicscope apps kernel --platform alcor --to miata --offset 100 --loss 0.001 --json",
    words="apps kernel",
    out="Folder for results.json and kernel.parquet.",
)
def run_kernel(
    repeat: list[str],
    /,
    platform: Annotated[
        str | Path | Platform, platform_option("Platform of the client and of the stream's sender.")
    ] = "pentium2-440lx",
    to: Annotated[
        str | Path | Platform | None,
        platform_option("Platform of the other host. Default: the same."),
    ] = None,
    *,
    policy: Annotated[
        Text, Option("NAME,...", "Delivery policy, as of [bold]nicscope flow[/bold], or all.")
    ] = "store-and-forward,cut-through,adaptive",
    page: Annotated[
        Bytes, Option("BYTES", "Size of a page and of the longest payload.", read=byte_count)
    ] = 8192,
    pages: Annotated[int, Option("N", "Pages that the process uses.", least=1, most=4096)] = 128,
    frames: Annotated[
        int, Option("N", "Frames of the client's host for these pages.", least=1)
    ] = 32,
    accesses: Annotated[
        int, Option("N", "Accesses to random pages, half of them writes.", least=1, most=100_000)
    ] = 500,
    megabytes: Annotated[int, Option("N", "Size of the stream, in MiB.", least=1, most=256)] = 4,
    offset: Annotated[
        Bytes,
        Option(
            "BYTES", "Distance of the reader's buffer from the start of a page.", read=byte_count
        ),
    ] = 0,
    protocol: Annotated[
        float, Option("US", "Time of the processor for a segment, at either end.", least=0)
    ] = 0.0,
    loss: Annotated[
        float, Option("SHARE", "Share of the stream's packets that are lost.", least=0, most=0.5)
    ] = 0.0,
    seed: Annotated[int, Option("N", "Seed of the accesses and of the losses.", least=0)] = 0,
) -> ShownKernel:
    """Run a kernel's network memory and TCP over Trapeze.

    A process uses pages that another host keeps, and a stream goes to a process that reads it;
    every byte is checked.
    """
    from nicscope.reports.applications import ShownKernel
    from nicscope.studies.kernel import Question, check, chosen_policies, measure

    question = check(
        Question(
            platforms=(platform, platform if to is None else to),
            policies=chosen_policies(policy),
            page_bytes=page,
            pages=pages,
            frames=frames,
            accesses=accesses,
            total_bytes=megabytes << 20,
            offset=offset,
            protocol_us=protocol,
            loss=loss,
            seed=seed,
        )
    )
    with progress("serving", "runs") as watch:
        return ShownKernel(measure(question, repeat, watch))
