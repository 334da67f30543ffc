"""Scripted processes: rows carried out in order, chunk by chunk, as many at once as may be."""

import numpy as np
import pytest

from nicscope.config.design import POLICIES, load_design
from nicscope.config.platform import load_platform, program_costs, transfer_costs
from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Setup, new_ports
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.drivers.simulate.records import POST, REPORT
from nicscope.drivers.simulate.script import Scripted, rows_of
from nicscope.errors import SimulationError
from nicscope.fabric.topology import pair
from nicscope.memory.paging.layout import DEMAND_ZERO, READ
from nicscope.memory.paging.layout import WRITE as WRITABLE
from nicscope.nic.ports.layout import MAY_WRITE, NOBODY, RECEIVED, WRITE

DESIGN = load_design("utlb").at_page_size(4096)
PLATFORM = load_platform("utlb-prototype")


def world(**options):
    """A process on node 0 whose port may store into all of node 1's first page."""
    costs = service_costs(program_costs(PLATFORM, DESIGN.scheme), DESIGN)
    setup = Setup(
        design=DESIGN,
        processes=[1, 1],
        ports=2,
        costs=[costs.steps] * 2,
        user_pin=[costs.user_pin] * 2,
        user_unpin=[costs.user_unpin] * 2,
        host=HostSize(frames=4, pages_per_space=16, swap_blocks=1),
        size=PortSize(ring=4, ready=1, channels=1, exports=1, imports=1, longest=4),
    )
    ports = new_ports(setup, POLICIES["adaptive"])
    ports.memory.entries["state"][:, :, 0] = DEMAND_ZERO
    ports.memory.entries["rights"][:, :, 0] = READ | WRITABLE
    ports.table["open"] = 1
    for name, value in {"valid": 1, "length": 4096, "rights": MAY_WRITE}.items():
        ports.shared.exports[name] = value
    for name in ("port", "node", "importer"):
        ports.shared.exports[name] = NOBODY
    for name, value in {"port": 1, "node": 1, "length": 4096, "rights": MAY_WRITE}.items():
        ports.shared.imports[name] = value
    # A page of a remote store is pinned by its own library; here nobody runs there.
    ports.shared.exports["space"][1] = NOBODY
    return Scripted([transfer_costs(PLATFORM)] * 2, POLICIES["adaptive"], pair(), [0], ports,
                    **options)  # fmt: skip


def stores(count, length=64):
    rows = rows_of(count)
    rows["port"] = 1
    rows["operation"] = POST
    rows["own"] = WRITE
    rows["length"] = length
    return rows


@pytest.mark.parametrize("depth", [1, 3])
def test_every_row_is_done_however_the_script_is_cut(depth):
    whole, cut = world(), world(rows_at_once=4)
    heard = []

    whole.run([stores(10)], depth)
    cut.run([stores(10)], depth, watch=lambda done, of: heard.append((done, of)))

    for run in (whole, cut):
        assert run.machine.scripted["done"].tolist() == [10]
        assert run.machine.scripted["failed"].tolist() == [0]
        assert run.machine.ports.shared.exports[1, 0]["stores"] == 10
    assert heard[-1] == (10, 10)
    assert whole.machine.tally[0]["now"] <= cut.machine.tally[0]["now"]


def test_more_at_once_take_less_time():
    times = []
    for depth in (1, 2, 4):
        run = world()
        run.run([stores(12)], depth)
        times.append(int(run.machine.tally[0]["now"]))

    assert times[0] > times[1] > times[2]


def test_rows_that_fail_are_counted():
    run = world()
    rows = stores(3)
    rows["offset"][1] = 4090  # beyond the export's end

    run.run([rows])

    assert run.machine.scripted["failed"].tolist() == [1]
    assert run.machine.ports.shared.exports[1, 0]["stores"] == 2


def test_a_script_that_waits_in_vain_says_so():
    rows = stores(1)
    rows["operation"] = REPORT
    rows["own"] = RECEIVED

    with pytest.raises(SimulationError, match="process 0 on node 0 for a report"):
        world().run([rows])


def test_no_more_can_be_outstanding_than_a_port_holds():
    with pytest.raises(SimulationError, match="from 1 to 4 descriptors can be outstanding, not 5"):
        world().run([stores(1)], 5)


def test_a_script_of_no_rows_ends_at_once():
    run = world()
    run.run([stores(0)])

    assert np.asarray(run.machine.tally["events"]).tolist() == [0]
