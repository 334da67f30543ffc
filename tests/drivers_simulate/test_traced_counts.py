"""A trace in virtual time counts what its replay counts, and its times are made of parts."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import Scheme, Way, design_names, load_design
from nicscope.config.platform import load_platform, program_costs, transfer_costs
from nicscope.drivers.replay import replay
from nicscope.drivers.simulate.bus.state import machine_parameters
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.drivers.simulate.tracing import AtBus, partition_trace, simulate_node
from nicscope.interfaces.ways import IN_TIME
from nicscope.nic.coherent import NAMES
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from oracle.strategies import cases
from suite import share
from trace_columns import columns_of, design_of

# A platform that prices every step of a scheme.
PLATFORMS = {
    Scheme.PINNED: "dc21140-linux",
    Scheme.UNET_MM: "pca200-linux",
    Scheme.HANDLE: "mini-cluster",
}
ROWS = 60  # of each bundled trace


def simulated(columns, design, **options):
    platform = load_platform(design.platform or PLATFORMS.get(design.scheme, "utlb-prototype"))
    transfers = transfer_costs(platform)
    service = service_costs(program_costs(platform, design.scheme), design)
    return [
        simulate_node(requests, design, transfers, service, **options)
        for requests in partition_trace([columns])
    ]


def require_equal(outcomes, columns, design):
    expected = replay([columns], [design])[0]
    assert [{"node": each.number, **each.counts} for each in outcomes] == expected.nodes
    sizes = [each.nic_memory_bytes for each in outcomes]
    assert max(sum(each.values()) for each in sizes) == sum(expected.nic_memory_bytes.values())
    for each in outcomes:
        assert sum(each.times_ps.values()) == each.elapsed_ps
        assert each.stale == 0
        assert (each.failed > 0) == (each.counts["rejected"] > 0)


@pytest.mark.parametrize("scheme", [scheme.value for scheme in IN_TIME])
@given(data=st.data())
@share(0.2)
def test_a_trace_without_contention_counts_what_its_replay_counts(scheme, data):
    rows, flat = data.draw(cases([scheme], max_bursts=5))
    design = design_of(flat)
    columns = columns_of([tuple(row) for row in rows])

    require_equal(simulated(columns, design), columns, design)


@pytest.mark.parametrize("number", range(len(bundled_traces())))
def test_a_recorded_trace_counts_the_same_under_published_designs(number):
    traces = bundled_traces()
    batch = next(iter(open_trace(list(traces.values())[number]).batches(max_rows=ROWS)))
    columns = SimpleNamespace(**{key: value[:ROWS] for key, value in batch._asdict().items()})
    settled = [load_design(name).at_page_size(4096) for name in design_names()]
    timed = [each for each in settled if each.platform and each.scheme in IN_TIME]
    # Every design over two of the traces: all over all would show no more in twice the time.
    for design in timed[number % 2 :: 2]:
        require_equal(simulated(columns, design), columns, design)


def one_process(*requests):
    """Columns of (receive, page) requests of a page each."""
    receive, pages = zip(*requests, strict=True)
    many = len(requests)
    return SimpleNamespace(
        node=np.zeros(many, np.int32),
        pid=np.zeros(many, np.int32),
        receive=np.array(receive, np.uint8),
        address=np.array(pages, np.uint64) * np.uint64(4096),
        length=np.full(many, 4096, np.uint32),
    )


def test_lookups_that_a_retry_repeats_are_counted_apart():
    # miNI drops what misses on its way in; it comes again, and finds its translation.
    columns = one_process((1, 5), (1, 5))
    design = load_design("mini").at_page_size(4096)

    (outcome,) = simulated(columns, design)

    assert outcome.counts["lookups"] == 2
    assert outcome.counts["ni_misses"] == 1
    assert outcome.counts["dropped"] == 1
    assert outcome.repeated == 1


def test_a_request_that_may_not_be_pinned_never_reaches_the_network():
    columns = one_process((0, 0), (0, 1), (0, 2))
    design = design_of({"scheme": "static", "entries": 2, "page_size": 4096})

    (outcome,) = simulated(columns, design)

    assert outcome.failed == 1
    assert outcome.counts["rejected"] == 1
    assert outcome.packets == 2


def test_requests_wait_for_their_times_if_the_trace_has_them():
    columns = one_process((0, 0), (0, 0))
    columns.time_ns = np.array([0, 5_000_000], np.int64) + 1_700_000_000_000_000_000
    platform = load_platform("utlb-prototype")
    design = load_design("utlb").at_page_size(4096)
    service = service_costs(program_costs(platform, design.scheme), design)
    (requests,) = partition_trace([columns], timed=True)

    outcome = simulate_node(requests, design, transfer_costs(platform), service)
    (first,) = partition_trace([one_process((0, 0))])
    alone = simulate_node(first, design, transfer_costs(platform), service)

    assert outcome.elapsed_ps > 5_000_000_000
    assert outcome.times_ps["waiting"] >= 5_000_000_000 - alone.elapsed_ps


WAYS = (Way.CC_DMA_RETRY, Way.CC_DMA_INTERVENTION, Way.EDT)


def over(way, design, platform, columns):
    """The one node of ``columns`` under ``design``, its payloads crossing the bus by ``way``."""
    at_bus = None
    if way != Way.PCI:
        at_bus = AtBus(machine_parameters(platform), NAMES[way])
    service = service_costs(program_costs(platform, design.scheme), design)
    (requests,) = partition_trace([columns])
    return simulate_node(requests, design, transfer_costs(platform), service, at_bus=at_bus)


@pytest.mark.parametrize("design", ["utlb", "vmmc-static"])
def test_over_a_bus_a_trace_counts_the_same_and_its_parts_add_up(design):
    design, platform = load_design(design).at_page_size(4096), load_platform("utlb-edt")
    batch = next(iter(open_trace(bundled_traces()["redis_server"]).batches(max_rows=ROWS)))
    columns = SimpleNamespace(**{key: value[:ROWS] for key, value in batch._asdict().items()})
    over_pci, *others = (over(way, design, platform, columns) for way in (Way.PCI, *WAYS))

    for outcome in others:
        assert outcome.counts == over_pci.counts
        assert outcome.failed == outcome.stale == 0
        assert sum(outcome.times_ps.values()) == outcome.elapsed_ps
        # The bus of this host is faster than that of the other.
        assert outcome.times_ps["dma"] < over_pci.times_ps["dma"]
    assert others[0].elapsed_ps == others[1].elapsed_ps  # no block is dirty: nobody stores
    assert others[2].times_ps["dma"] < others[1].times_ps["dma"]  # EDT has read it before
