"""Program traces for tests: small ones, any ones, and a file written with columns of one's own."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from nicscope.traces.programs.schema import Operation, ProgramMetadata
from nicscope.traces.programs.writer import ProgramBuilder
from nicscope.traces.schema import METADATA_KEY

BASE = 1 << 32
MEMORY = 1 << 20
PAGE = 4096


def metadata(nodes=(0, 1), **more):
    return ProgramMetadata(nodes_of_processes=list(nodes), base=BASE, memory_bytes=MEMORY, **more)


def small(nodes=(0, 1)):
    """Two processes that compute, fetch, lock, meet and send."""
    made = ProgramBuilder(metadata(nodes))
    for process, other in ((0, 1), (1, 0)):
        made.add(process, Operation.COMPUTE, duration_ns=100 + process)
        made.add(process, Operation.FETCH, peer=other, address=BASE, length=PAGE)
        made.add(process, Operation.LOCK, name=7)
        made.add(process, Operation.DEPOSIT, peer=other, address=BASE + 8, length=24)
        made.add(process, Operation.UNLOCK, name=7)
        made.add(process, Operation.BARRIER)
    made.add(0, Operation.SEND, peer=1, address=BASE + 64, length=10, name=3)
    got = {"peer": -1, "address": BASE + 64, "length": 10, "name": 3}
    made.add(1, Operation.RECEIVE, **got, after_others=[(0, 2)], after_start_others=[(0, 6)])
    return made.trace()


@st.composite
def programs(draw):
    """Any that may be, of up to four processes; whether it ends is another matter."""
    many = draw(st.integers(1, 4))
    nodes = [0]
    for _ in range(many - 1):
        nodes.append(nodes[-1] + draw(st.integers(0, 1)))
    made = ProgramBuilder(metadata(nodes))
    places = st.integers(0, 30)
    lists = st.none() | st.lists(places, max_size=3, unique=True)
    rounds = draw(st.integers(0, 2))
    for process in range(many):
        for _ in range(draw(st.integers(0 if process else 1, 6))):
            operation = draw(st.sampled_from(Operation))
            row = made.count(process)
            waits = {
                name: None if (named := draw(lists)) is None else [p % row for p in named if row]
                for name in ("after", "after_start")
            }
            buffer = {
                "address": BASE + draw(st.integers(0, MEMORY - PAGE)),
                "length": draw(st.integers(1, PAGE)),
            }
            name = draw(st.integers(-5, 5))
            if operation == Operation.COMPUTE:
                made.add(process, operation, duration_ns=draw(st.integers(0, 1 << 40)), **waits)
            elif operation in (Operation.FETCH, Operation.DEPOSIT):
                made.add(
                    process, operation, peer=draw(st.integers(0, nodes[-1])), **buffer, **waits
                )
            elif operation in (Operation.SEND, Operation.RECEIVE):
                peer = draw(st.integers(-1 if operation == Operation.RECEIVE else 0, many - 1))
                made.add(process, operation, peer=peer, name=name, **buffer, **waits)
            elif operation in (Operation.LOCK, Operation.UNLOCK):
                made.add(process, Operation.LOCK, name=name, **waits)
                made.add(process, Operation.UNLOCK, name=name)
        for name in range(rounds):
            made.add(process, Operation.BARRIER, name=name)
        earlier = [(other, row) for other in range(process) for row in range(made.count(other))]
        if earlier:
            some = st.lists(st.sampled_from(earlier), max_size=3)
            waits = {name: draw(some) for name in ("after_others", "after_start_others")}
            made.add(process, Operation.COMPUTE, **waits)
    if not any(made.count(process) for process in range(many)):
        made.add(0, Operation.COMPUTE, duration_ns=1)  # one without operations is no trace
    return made.trace()


def columns_of(trace):
    """As a file holds them, to be changed."""
    count = trace.rows
    lists = {
        name: [None] * count
        if (waits := getattr(trace, name)) is None
        else [
            waits.places[begin:end].tolist()
            for begin, end in zip(waits.first[:-1], waits.first[1:], strict=True)
        ]
        for name in ("after", "after_start")
    }
    return {
        "process": trace.process_of_rows().tolist(),
        "operation": [Operation(code).name.lower() for code in trace.operation],
        **{
            name: getattr(trace, name).tolist()
            for name in ("peer", "address", "length", "name", "duration_ns")
        },
        **lists,
        **{name: _others(trace, name) for name in ("after_others", "after_start_others")},
    }


def _others(trace, name):
    others = getattr(trace, name)
    if others is None:
        return [None] * trace.rows
    process = trace.process_of_rows()
    places = [
        {"process": int(process[row]), "row": int(row - trace.first[process[row]])}
        for row in others.rows
    ]
    return [
        places[begin:end] for begin, end in zip(others.first[:-1], others.first[1:], strict=True)
    ]


TYPES = {
    "process": pa.uint32(),
    "operation": pa.string(),
    "peer": pa.int32(),
    "address": pa.uint64(),
    "length": pa.uint32(),
    "name": pa.int64(),
    "duration_ns": pa.uint64(),
    "after": pa.list_(pa.uint32()),
    "after_start": pa.list_(pa.uint32()),
    "after_others": pa.list_(pa.struct([("process", pa.uint32()), ("row", pa.uint32())])),
    "after_start_others": pa.list_(pa.struct([("process", pa.uint32()), ("row", pa.uint32())])),
}


def write_columns(path, columns, said=None, types=None):
    """A file of columns as they are, right or wrong."""
    types = TYPES | (types or {})
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    text = (said or metadata()).to_json() if not isinstance(said, bytes) else said
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: text}), path)
    return path


def same(one, other):
    """Whether two hold the same."""
    if one.metadata != other.metadata:
        return False
    for name in one._fields[1:]:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine is None or theirs is None:
            if mine is not theirs:
                return False
            continue
        pairs = [(mine, theirs)] if isinstance(mine, np.ndarray) else zip(mine, theirs, strict=True)
        if not all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in pairs):
            return False
    return True
