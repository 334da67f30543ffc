"""Programs of RDMA's verbs on the simulated device: what ``nicscope verbs run`` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.progress import progress
from nicscope.outputs import check_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nicscope.library.command import One
    from nicscope.reports.verbs import ShownVerbs


@in_one_line
def run_verbs(
    program: str | Path | None = None,
    arguments: Sequence[str] = (),
    *,
    nodes: Mapping[int, str | Sequence[str]] | None = None,
    design: Any = None,
    platform: Any = None,
    device: str | None = None,
    seed: int = 0,
    loss: float = 0.0,
    duplication: float = 0.0,
    reordering: float = 0.0,
    corruption: float = 0.0,
    topology: str | None = None,
    timeline: str | Path | None = None,
    assignments: str | Iterable[str] | None = None,
    **settings: One,
) -> ShownVerbs:
    """Run a program that imports ``pyverbs`` on a simulated RDMA device.

    Args:
        program: the file.
        arguments: its own.
        nodes: instead of ``program``, the command line of the program of each node from 0 on, as
            text or as words: ``{0: "server.py", 1: "client.py 10.0.0.1"}``.
        design: of the NIC, by name or file; several: the program is run on each.
        platform: what things cost, by name or file; None: the design's own.
        device: its name, for programs that open one by name; None: ``nicscope0``.
        seed: of what goes wrong, and of Python's ``random`` within the program.
        loss: share of packets that are lost.
        duplication: that come twice.
        reordering: that come late.
        corruption: that are damaged.
        topology: of several nodes: ``crossbar`` (one switch, the default), ``pair`` or ``trunk``.
        timeline: the file to write what every engine did when to: for ui.perfetto.dev, or a page
            that shows itself if its name ends in ``.html``.
        assignments: ``KEY=VALUE``, one or several, set on every design.
        settings: the same by name, such as ``entries=64``; None removes a limit.

    Errors: ``NicscopeError``; ``ProgramError`` for what the program itself raises.

    """
    from nicscope.reports.verbs import ShownVerbs
    from nicscope.studies.timeline import MOST_RECORDS, write_timeline
    from nicscope.studies.verbs_programs import CROSSBAR, Wanted, run_programs, with_all_set

    if timeline is not None:
        check_output(timeline)
    several = design if isinstance(design, (list, tuple)) and design else [design]
    faults = {
        "loss": loss,
        "duplication": duplication,
        "reordering": reordering,
        "corruption": corruption,
    }
    wanted = Wanted(
        designs=with_all_set(several, set_of(assignments, settings)),
        platform=platform,
        device=device,
        seed=seed,
        faults=faults,
        topology=CROSSBAR if topology is None else topology,
        keep_log=0 if timeline is None else MOST_RECORDS,
    )
    if (program is None) == (nodes is None):
        raise StudyError("give one program, or one for each node (nodes=...)")
    if nodes is None and topology is not None:
        raise StudyError(f"topology {topology!r} is of several nodes; give the program of each")
    if nodes is not None:
        from nicscope.studies.verbs_programs import programs_of, run_on_nodes

        programs = programs_of(nodes)
        with progress("running", "", always_say=True):
            found = run_on_nodes(programs, wanted)
    else:
        assert program is not None
        with progress("running", "", always_say=True):
            found = run_programs(Path(program), [*arguments], wanted)
    if timeline is not None and found.seen is not None:
        write_timeline(found.seen, Path(timeline), ("verbs", "run"))
    return ShownVerbs(found)
