"""What is recorded of a run on shared memory: all that it asked for, waiting for what it did."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

import nicscope as ns
from nicscope.apps.svm.coherence import CONTROL_BASE, REQUEST_BYTES, SHARED_BASE
from nicscope.apps.svm.memory import Layout
from nicscope.apps.svm.process import Placement, run_on_shared_memory
from nicscope.errors import OutputError
from nicscope.traces.programs.reader import read_program
from nicscope.traces.programs.schema import Operation, ProgramMetadata
from nicscope.traces.programs.writer import ProgramBuilder
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Op
from oracle.program_execution import Execution
from pairwise import pairs_of
from suite import seeds

PLACEMENTS = [
    {"nodes": 4, "processes": 1},
    {"nodes": 2, "processes": 2},
    {"nodes": 2, "processes": 2, "private": True},
]
PROGRAMS = [("fft", "1K"), ("radix", "1K"), ("water-nsquared", "27"), ("raytrace", "16")]


def recorded(tmp_path, name, size, **options):
    outs = [tmp_path / "t.parquet", tmp_path / "t.program.parquet"]
    ns.run_app(name, size, out=outs, **options)
    return open_trace(outs[0]).read(), read_program(outs[1])


@pytest.fixture(scope="module", params=PLACEMENTS, ids=str)
def with_locks(request, tmp_path_factory):
    """A program that has locks, at each placement."""
    _, program = recorded(tmp_path_factory.mktemp("locks"), "volrend", "8", **request.param)
    assert {Operation.LOCK, Operation.DEPOSIT} <= {*program.operation.tolist()}
    assert program.after_others is not None or request.param["processes"] == 1
    return program


@pytest.mark.parametrize(
    ("program", "placement", "with_initial"),
    pairs_of(program=PROGRAMS, placement=PLACEMENTS, with_initial=[False, True]),
    ids=str,
)
def test_a_program_moves_what_its_requests_do(tmp_path, program, placement, with_initial):
    name, size = program
    requests, program = recorded(tmp_path, name, size, **placement, with_initial=with_initial)

    node = np.array(program.metadata.nodes_of_processes)[program.process_of_rows()]
    moved = Counter(
        (Operation(kind).name, *row)
        for kind, *row in zip(
            program.operation.tolist(),
            node.tolist(),
            program.address.tolist(),
            program.length.tolist(),
            strict=True,
        )
        if kind in (Operation.FETCH, Operation.DEPOSIT)
    )
    asked = Counter(
        ({Op.READ: "FETCH", Op.WRITE: "DEPOSIT"}[kind], *row)
        for kind, *row in zip(
            requests.op.tolist(),
            requests.node.tolist(),
            requests.address.tolist(),
            requests.length.tolist(),
            strict=True,
        )
        if kind != Op.SEND
    )
    assert moved == asked
    assert any("--with-initial" in each for each in program.metadata.left_out) != with_initial


@pytest.mark.parametrize("seed", seeds(2, long=9))
def test_no_order_that_its_waits_allow_comes_to_a_stop(with_locks, seed):
    order = Execution(with_locks, random.Random(seed).choice).run()

    assert len(order) == with_locks.rows


def run(body, layout, nodes, processes=1):
    run_ = run_on_shared_memory(body, layout, Placement(nodes, processes))
    return run_.records.program


def said(record, process):
    return [
        (row.operation, row.length or row.name or row.duration_ns)
        for row in record.rows_of(process)
    ]


def test_computing_is_accesses_and_faults_that_the_cpu_serves_itself():
    layout = Layout()
    array = layout.array("a", 100, np.int32)

    async def body(process):
        (await process.write(array))[:] = 1
        process.work(900)

    record = run(body, layout, 1)

    faults, accesses = 25_000, 1000 * 12  # nothing is there before: the first touch costs nothing
    assert said(record, 0) == [
        ("barrier", 0),
        ("compute", faults + accesses),
        ("barrier", 0),
    ]


def test_a_diff_of_who_had_a_lock_is_its_row_for_which_the_next_waits():
    layout = Layout()
    array = layout.array("a", 1024, np.int32)

    async def body(process):
        if process.number == 0:
            await process.read(array)  # its home
        await process.barrier()
        if process.number == 2:
            await process.compute(100_000)
        if process.number:
            await process.acquire("lock")
            (await process.write(array))[process.number] = 7
            await process.release("lock")
        await process.compute(200_000)  # no barrier yet, where each brings home its own

    record = run(body, layout, 3)

    deposits = [
        (process, place)
        for process in range(3)
        for place, row in enumerate(record.rows_of(process))
        if row.operation == "deposit"
    ]
    asking = [row.operation for row in record.rows_of(2)].index("lock")
    mine = [place for process, place in deposits if process == 1]
    flush = record.rows_of(1)[mine[0]]
    assert flush.after == ()
    assert flush.after_others == ((2, asking),)
    assert record.rows_of(2)[asking + 1].after_others == ((1, mine[-1]),)
    assert record.rows_of(1)[mine[-1] + 1].after == (mine[0] - 1,)
    assert record.rows_of(2)[asking].after_start_others[0][0] == 1


def test_who_waits_for_a_page_that_another_brings_waits_for_its_fetch():
    layout = Layout()
    array = layout.array("a", 1024, np.int32)

    async def body(process):
        if process.number == 0:
            (await process.write(array))[:] = 1
        await process.barrier()
        await process.read(array)

    record = run(body, layout, 2, 2)

    fetches = [
        (process, place)
        for process in (2, 3)
        for place, row in enumerate(record.rows_of(process))
        if row.operation == "fetch"
    ]
    assert len(fetches) == 1
    (brings, place), waits = fetches[0], 5 - fetches[0][0]
    waiting = [row for row in record.rows_of(waits) if row.after_others]
    assert waiting[0].after_others == ((brings, place),)
    assert waiting[0].operation == "compute"


def test_locks_are_asked_for_as_they_were_so_that_nobody_waits_for_whom_it_keeps_out():
    layout = Layout()
    array = layout.array("a", 1024, np.int32)

    async def body(process):
        if process.number == 0:
            (await process.write(array))[:] = 1
        await process.barrier()
        if process.number == 3:
            await process.compute(500)
        if process.number in (2, 3):
            await process.acquire("lock")
        if process.number == 2:
            await process.release("lock")
        await process.read(array)  # 3 waits for the page that 2 brings
        if process.number == 3:
            await process.release("lock")

    record = run(body, layout, 2, 2)
    made = ProgramBuilder(
        ProgramMetadata(nodes_of_processes=[0, 0, 1, 1], memory_bytes=layout.pages * 4096)
    )
    for process in range(4):
        for row in record.rows_of(process):
            fields = row._asdict()
            made.add(process, Operation[fields.pop("operation").upper()], **fields)
    program = made.trace()

    order = Execution(program, max).run()  # the last process first, wherever it may

    assert len(order) == program.rows


def test_a_trace_of_each_kind_is_named_once(tmp_path):
    out = tmp_path / "t.parquet"

    with pytest.raises(OutputError, match="named twice"):
        ns.run_app("fft", "1K", out=[out, out])


def test_a_direct_diff_is_a_write_for_each_run_of_its_words_and_announced():
    """As GeNIMA deposits it, whose homes take no diff apart (miNI, V)."""
    layout = Layout()
    words = layout.array("words", 1024, np.uint32)

    async def body(me):
        if me.number == 0:  # the page's home
            await me.write(words)
        await me.barrier()
        if me.number == 1:
            await me.scatter(words, np.array([3, 4, 5, 9, 1000]), np.arange(1, 6, dtype=np.uint32))
            await me.compute(1000)

    whole, direct = (
        run_on_shared_memory(body, layout, Placement(2, 1), is_direct=is_direct).records
        for is_direct in (False, True)
    )

    def writes(records):
        columns = records.columns()
        mine = (columns["op"] == Op.WRITE) & (columns["node"] == 1)
        mine &= columns["address"] >= SHARED_BASE
        places = (columns["address"][mine] - SHARED_BASE).tolist()
        return list(zip(places, columns["length"][mine].tolist(), strict=True))

    assert whole.diffs == direct.diffs == 1
    assert writes(whole) == [(12, 5 * 4 + 3 * 8)]
    # Behind the only page lies the first process's log of notices, then the second's.
    runs, announced = [(12, 12), (36, 4), (4000, 4)], (2 * 4096, REQUEST_BYTES + 4)
    assert writes(direct) == [*runs, announced]
    rows = direct.program.rows_of(1)
    deposits = [place for place, row in enumerate(rows) if row.operation == "deposit"]
    assert [(rows[p].address, rows[p].length) for p in deposits] == runs
    # All are posted once the computing is over, and the barrier waits for each.
    first = deposits[0]
    assert rows[first].after is None
    assert [rows[place].after for place in deposits[1:]] == [(first - 1,)] * 2
    assert rows[deposits[-1] + 1].operation == "barrier"
    assert rows[deposits[-1] + 1].after == tuple(deposits)


def test_direct_barriers_are_writes_and_direct_locks_are_the_nics_own():
    layout = Layout()
    words = layout.array("words", 1024, np.uint32)

    async def body(me):
        if me.number == 0:
            await me.write(words)
        await me.barrier()
        await me.compute(10**5 * (1 + me.number))
        await me.acquire("lock")
        (await me.write(words, me.number, me.number + 1))[0] = 1
        await me.release("lock")
        await me.compute(10**7)

    columns = run_on_shared_memory(body, layout, Placement(3, 2), is_direct=True).records.columns()

    assert set(columns["op"].tolist()) == {Op.READ, Op.WRITE}
    assert (columns["pid"] < 2).all()  # no node has a protocol process
    told = columns["address"] == CONTROL_BASE
    names = ("node", "pid", "peer", "length")
    rows = list(zip(*(columns[name][told].tolist() for name in names), strict=True))
    # Three barriers, at the first of which nobody has written anything.
    assert sorted(rows) == sorted(3 * [(1, 1, 0, 32), (2, 1, 0, 32), (0, 0, 1, 32), (0, 0, 2, 32)])
    # Who lets go of the lock has written one page, and tells each other node of that at once.
    logs = columns["address"] >= SHARED_BASE + 4096
    at_lock = logs & (columns["length"] == REQUEST_BYTES + 4)
    heard = list(zip(columns["node"][at_lock], columns["peer"][at_lock], strict=True))
    # The home writes it once before the second barrier too.
    first = [(0, 1), (0, 2)]
    each = [(node, peer) for node in range(3) for _ in range(2) for peer in range(3)]
    assert heard == first + [pair for pair in each if pair[0] != pair[1]]


def test_a_log_of_notices_is_written_page_by_page_and_begins_again_when_it_is_full():
    pages = 1100  # whose notices take more than a page
    layout = Layout()
    words = layout.array("words", (pages, 1024), np.uint32)

    async def body(me):
        if me.number == 0:
            for _ in range(2):
                await me.write(words)
                await me.barrier()

        else:
            await me.barrier()
            await me.barrier()

    columns = run_on_shared_memory(body, layout, Placement(2, 1), is_direct=True).records.columns()

    log = SHARED_BASE + pages * 4096
    logged = (columns["op"] == Op.WRITE) & (columns["address"] >= log)
    places = (columns["address"][logged] - log).tolist()
    length = REQUEST_BYTES + 4 * pages
    # It holds one notice of all pages, so the second begins where the first did.
    assert list(zip(places, columns["length"][logged].tolist(), strict=True)) == 2 * [
        (0, 4096),
        (4096, length - 4096),
    ]
