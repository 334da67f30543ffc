"""Perftest's questions of the simulated device: what ``nicscope verbs bw`` and ``lat`` do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.errors import in_one_line
from nicscope.library.command import byte_count, command_line, several, whole, word
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.reports.verbs_measures import ShownBandwidths, ShownVerbsLatencies

SIZES = "64..65536"
COUNT = 1000
TIMES = 100
DEPTH = 16


@in_one_line
def verbs_bandwidth(
    *,
    op: str = "write",
    size: Word = None,
    qps: int = 1,
    iters: int = COUNT,
    tx_depth: int = DEPTH,
    inline: str | int = 0,
    design: Any = None,
    platform: Any = None,
) -> ShownBandwidths:
    """Measure the bandwidth of verbs on the simulated device, as perftest does.

    Args:
        op: ``send``, ``write``, ``read`` or ``atomic``.
        size: bytes of messages, such as ``"64..65536"``; None: these, or 8 of an atomic operation.
        qps: queue pairs on either side.
        iters: messages of each queue pair.
        tx_depth: of these, as many outstanding.
        inline: messages of up to so many bytes go with the request.
        design: of the NIC, by name or file, or several.
        platform: what things cost, by name or file; None: the design's own.

    Errors: ``NicscopeError``, before anything is simulated if it can be.

    """
    from nicscope.studies.verbs_measures import ask

    sizes, designs = word("size", size), several(design) or [None]
    question = ask(
        operation=op,
        sizes=sizes,
        iterations=whole("iters", iters) or 0,
        pairs=whole("qps", qps) or 0,
        depth=whole("tx_depth", tx_depth) or 0,
        inline=byte_count("inline", inline) or 0,
        designs=designs,
        platform=platform,
    )
    options = {"--op": op, "--size": sizes, "--qps": qps, "--iters": iters}
    options |= {"--tx-depth": tx_depth, "--inline": inline or None}
    command = command_line(["verbs", "bw"], options | _machine(design, platform))
    from nicscope.reports.verbs_measures import ShownBandwidths

    with progress("measuring", "messages", always_say=True) as watch:
        from nicscope.studies.verbs_measures import bandwidths

        return ShownBandwidths(bandwidths(question, command, watch))


@in_one_line
def verbs_latency(
    *,
    op: str = "send",
    size: Word = None,
    iters: int = TIMES,
    inline: str | int = 0,
    design: Any = None,
    platform: Any = None,
) -> ShownVerbsLatencies:
    """Measure the latency of verbs on the simulated device, as perftest does.

    Args:
        op: ``send``, timed until its receiver knows of it; ``write``, ``read`` or ``atomic``,
            timed until their completion.
        size: bytes of messages, such as ``"64..65536"``; None: these, or 8 of an atomic operation.
        iters: messages, one after another.
        inline: messages of up to so many bytes go with the request.
        design: of the NIC, by name or file, or several.
        platform: what things cost, by name or file; None: the design's own.

    Errors: ``NicscopeError``, before anything is simulated if it can be.

    """
    from nicscope.studies.verbs_measures import ask

    sizes, designs = word("size", size), several(design) or [None]
    question = ask(
        operation=op,
        sizes=sizes,
        iterations=whole("iters", iters) or 0,
        inline=byte_count("inline", inline) or 0,
        designs=designs,
        platform=platform,
    )
    options = {"--op": op, "--size": sizes, "--iters": iters, "--inline": inline or None}
    command = command_line(["verbs", "lat"], options | _machine(design, platform))
    from nicscope.reports.verbs_measures import ShownVerbsLatencies

    with progress("measuring", "messages", always_say=True) as watch:
        from nicscope.studies.verbs_measures import all_latencies

        return ShownVerbsLatencies(all_latencies(question, command, watch))


def _machine(design: Any, platform: Any) -> dict[str, Any]:
    return {"--design": several(design), "--platform": platform}
