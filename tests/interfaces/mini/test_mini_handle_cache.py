"""The NIC's caches of handles against a model of them."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import HANDLE_WAYS, PortSize
from nicscope.interfaces.mini import Cluster
from nicscope.kernel.entry import bound
from nicscope.nic.handles import (
    EXPORT_HANDLE,
    IMPORT_HANDLE,
    PROCESS_HANDLE,
    fill_handle,
    has_handle,
    invalidate_handle,
)
from oracle.handle_cache import HandleCache
from program_results import results_of

BUFFERS, PROCESSES = 16, 8  # entries of the caches
KINDS = {EXPORT_HANDLE: 40, IMPORT_HANDLE: 40, PROCESS_HANDLE: 24}  # handles of each kind


@functools.cache
def world():
    """A cluster at rest, and what the driver and the firmware do to its node 1."""

    async def nothing(end):
        await end.sleep(1)

    size = PortSize(exports=40, imports=40, buffer_entries=BUFFERS, process_entries=PROCESSES)
    cluster = Cluster(size=size)
    cluster._ports = 24  # more processes than programs
    results_of(cluster, nothing)
    machine = cluster.simulation.machine
    return machine, [bound(each, machine) for each in (has_handle, fill_handle, invalidate_handle)]


HANDLES = st.sampled_from(  # of two sets, so that there is not room for all
    [(kind, number) for kind, count in KINDS.items() for number in range(count) if number % 4 < 2]
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["use", "use", "use", "change", "forget"]), HANDLES), min_size=30
)


@pytest.mark.requirement("MI-46", "MI-41")
@given(STEPS)
def test_caches_of_handles_hold_what_the_model_holds(steps):
    machine, (has, fill, forget) = world()
    for kind, count in KINDS.items():
        for number in range(count):
            forget(1, kind, number)
    buffers, processes = (HandleCache(size, HANDLE_WAYS) for size in (BUFFERS, PROCESSES))
    exports = machine.ports.shared.exports[1]
    for what, (kind, number) in steps:
        model = processes if kind == PROCESS_HANDLE else buffers
        if what == "forget":
            forget(1, kind, number)
            model.forget(kind, number)
            continue
        if what == "change":
            exports["length"][number] += 1  # and the NIC's copy stays as it was
            continue
        record = int(exports["length"][number])
        held = model.look_up(kind, number)
        assert bool(has(1, kind, number, 0)) == (held is not None)
        if held is None:
            fill(1, kind, number)
            model.fill(kind, number, record)
        elif kind == EXPORT_HANDLE:
            assert int(machine.ports.shown[1]["length"]) == held
