"""Running a program on shared memory of simulated machines: pages and letters cross their NICs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.apps.svm.domain import Elsewhere
from nicscope.apps.svm.layout import PAGE
from nicscope.apps.svm.machines.station import SPARE_TASKS, STATIONS, Job, Station
from nicscope.apps.svm.machines.waits import CarryingError, Waits
from nicscope.apps.svm.program_record import ProgramRecord
from nicscope.apps.svm.records import Records
from nicscope.apps.svm.running import Run, domains_of, memory_at_homes
from nicscope.apps.svm.wire import Costs
from nicscope.errors import SimulationError, StuckError, WaitTimeoutError, did_you_mean
from nicscope.interfaces import HostSize
from nicscope.interfaces.setting_up import Cluster

if TYPE_CHECKING:
    from nicscope.apps.svm.domain import Domain
    from nicscope.apps.svm.layout import Layout
    from nicscope.apps.svm.running import Placement, Program, SetUp
    from nicscope.interfaces import Faults
    from nicscope.interfaces.run_report import RunReport

FIRST_CHOICE = {"vmmc": "utlb", "mini": "mini", "unet": "unet-mm-pca200"}  # designs
OTHER_PAGES = 256  # of a node's memory, beside its copies of what is shared
MOST_PAGES = 4096  # of all copies of a node, chosen: more would take hours
LINE = 64  # pages that a cache's line may have, which fill an address space
PS_PER_US = 1_000_000


class MachineRun(Run):
    """What has come of one on simulated machines."""

    report: RunReport  # what the NICs did, node by node


def check_machines(on: str, layout: Layout, placement: Placement) -> None:
    """Errors: ``SimulationError`` for an interface that there is not, or for too much memory."""
    if on not in STATIONS:
        raise SimulationError(
            f"a program on shared memory does not run on {on!r}{did_you_mean(on, STATIONS)}"
        )
    if placement.nodes < 1 or placement.processes < 1:
        raise SimulationError("a program has at least one process on at least one node")
    pages = _pages_of_node(layout, placement)
    if pages > MOST_PAGES:
        raise SimulationError(
            f"{pages:,} pages of shared memory on each node are too many for simulated machines, "
            f"which have {MOST_PAGES:,} at most; ask for a smaller size, or run it in logical time"
        )


def run_on_machines(
    program: Program,
    layout: Layout,
    placement: Placement,
    set_up: SetUp | None = None,
    on: str = "vmmc",
    design: Any = None,
    **options: Any,
) -> MachineRun:
    """Run ``program`` on simulated machines whose NICs serve ``on``: vmmc, mini or unet.

    Pages, diffs, locks and barriers cross the NICs, byte by byte.  ``design``, ``options``: as of
    ``Cluster``.  Errors: ``SimulationError`` for what cannot run, and for what does not get
    through: then it says who waited for what, and since when.
    """
    check_machines(on, layout, placement)
    pages = LINE * -(-(_pages_of_node(layout, placement) + OTHER_PAGES) // LINE)
    options.setdefault("host", HostSize(frames=pages, pages_per_space=pages))
    cluster = Cluster(
        design or FIRST_CHOICE[on], interface=on, nodes=max(2, placement.nodes), **options
    )
    domains = domains_of(layout, placement)
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
    job = Job(
        body=program,
        places=[Elsewhere(domain.number, domain.node) for domain in domains],
        is_initial=domains[0].memory.any(axis=1),
        costs=Costs(),
        records=Records(ProgramRecord(placement.processes), layout.page_bytes),
        waits=Waits(),
        processes=placement.nodes * placement.processes,
        each=placement.processes,
    )
    stations = _stations(STATIONS[on], job, domains)
    for station in stations:
        cluster.start(station.node, station.run, tasks=placement.processes + SPARE_TASKS)
    results = _results_of(cluster, job.waits, options.get("faults"))
    memory = memory_at_homes(
        [(seat.domain, seat.coherence.homes) for each in stations for seat in each.seats.values()]
    )
    ended = max(station.ended_us for station in stations)
    run = MachineRun(results, job.records, ended, memory)
    run.report = cluster.report()
    return run


def _stations(kind: type[Any], job: Job, domains: list[Domain]) -> list[Station]:
    """One of each node."""
    node_of = [place.node for place in job.places]
    nodes = sorted(set(node_of))
    return [kind(job, [each for each in domains if each.node == node], node_of) for node in nodes]


def _results_of(cluster: Any, waits: Waits, faults: Faults | None) -> list[object]:
    """What all processes return.  Errors: ``SimulationError`` saying who waited for what."""
    try:
        of_nodes = cluster.run()
    except StuckError:
        said = "nothing more can come"
    except WaitTimeoutError as error:
        said = error.said
    except CarryingError as error:
        said = str(error)
    else:
        if None not in of_nodes:
            return [result for of_node in of_nodes for result in of_node]
        said = f"node {of_nodes.index(None)} has not ended its processes"
    now = cluster.simulation.now
    links = _dead({} if faults is None else faults.link_deaths, now)
    nodes = _dead({} if faults is None else faults.node_deaths, now)
    told = [f"{said}, at {now / PS_PER_US:,.1f} us of virtual time", waits.text(nodes)]
    told += [f"link {number} died at {when}" for number, when in links.items()]
    told += [f"node {number} died at {when}" for number, when in nodes.items()]
    raise SimulationError("; ".join(filter(None, told)))


def _dead(deaths: dict[int, int], now: int) -> dict[int, str]:
    """What has died by then, and when."""
    return {each: f"{when / PS_PER_US:,.1f} us" for each, when in deaths.items() if when <= now}


def _pages_of_node(layout: Layout, placement: Placement) -> int:
    copies = placement.processes if placement.are_copies_private else 1
    return copies * -(-layout.pages * layout.page_bytes // PAGE)
