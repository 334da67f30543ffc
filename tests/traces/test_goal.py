"""GOAL's text: read as a slow reader does, written so that it means the same, refused in a line."""

import gzip
import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from program_trace_samples import BASE, PAGE, metadata, same, small
from trace_kinds import RING

from nicscope.cli import app
from nicscope.errors import TraceError
from nicscope.traces.files import open_bytes
from nicscope.traces.formats import convert
from nicscope.traces.goal import read_goal, write_goal
from nicscope.traces.imported import Choices
from nicscope.traces.programs.reader import read_program
from nicscope.traces.programs.schema import Operation, times_without_network
from nicscope.traces.programs.writer import ProgramBuilder, summarize_program, write_program
from oracle.goal import read_goal as slowly_read
from refusals import refused


def read(path, text, **choices):
    path.write_text(text)
    with open_bytes(path) as source:
        return read_goal(source, Choices(**choices))


def lists(waits, part):
    return [
        waits.places[waits.first[row] : waits.first[row + 1]].tolist()
        for row in range(part.start, part.stop)
    ]


def graph(trace):
    """Of each rank its operations by their sizes, all different, and who requires whom."""
    found = {}
    for rank in range(trace.metadata.processes):
        part = trace.rows_of(rank)
        operations, ended, begun = [], set(), set()
        for row in range(part.start, part.stop):
            kind = {0: "calc", 3: "send", 4: "recv"}[int(trace.operation[row])]
            if kind == "calc":
                operations.append((kind, int(trace.duration_ns[row]), None, 0))
            else:
                operations.append(
                    (kind, int(trace.length[row]), int(trace.peer[row]), int(trace.name[row]))
                )
        sizes = [each[1] for each in operations]
        for waits, pairs in ((trace.after, ended), (trace.after_start, begun)):
            if waits is None and pairs is ended:
                pairs |= {(sizes[place], sizes[place - 1]) for place in range(1, len(sizes))}
            elif waits is not None:
                for place, others in enumerate(lists(waits, part)):
                    pairs |= {(sizes[place], sizes[other]) for other in others}
        found[rank] = (set(operations), ended, begun)
    return found


def slow_graph(text):
    return {
        rank: (
            set(operations),
            {(operations[one][1], operations[other][1]) for one, other in ended},
            {(operations[one][1], operations[other][1]) for one, other in begun},
        )
        for rank, (operations, ended, begun) in slowly_read(text).items()
    }


@st.composite
def schedules(draw):
    """Text in which every operation of a rank has a size of its own; requirements go any way."""
    ranks = draw(st.integers(1, 4))
    space, comment = (
        st.sampled_from([" ", "  ", "\t"]),
        st.sampled_from(["", "", "// x", "/* y\n */"]),
    )
    lines = [f"num_ranks{draw(space)}{ranks}"]
    for rank in draw(st.permutations(range(ranks))):
        lines.append(f"rank {rank}{draw(space)}{{ {draw(comment)}")
        count = draw(st.integers(0, 6))
        rising = draw(st.permutations(range(count)))  # requirements follow this order
        later = []
        for operation in range(count):
            kind = draw(st.sampled_from(["calc", "send", "recv"]))
            size, tag = 100 * rank + operation, draw(st.sampled_from(["", " tag 0", " tag 12"]))
            if kind == "calc":
                words = f"calc {size}" + draw(st.sampled_from(["", " cpu 0", " cpu 2"]))
            elif kind == "send":
                words = f"send {size}b to {draw(st.integers(0, ranks - 1))}{tag} cpu 0 nic 0"
            else:
                words = f"recv {size}b from {draw(st.integers(-1, ranks - 1))}{tag}"
            lines.append(
                f"{draw(space)}x{operation}:{draw(space)}{words}{draw(space)}{draw(comment)}"
            )
            for other in range(count):
                if rising[other] < rising[operation] and draw(st.integers(0, 3)) == 0:
                    word = draw(st.sampled_from(["requires", "irequires"]))
                    said = f"x{operation} {word} x{other}"
                    (lines if other < operation and draw(st.booleans()) else later).append(said)
        lines += [*later, "}", ""]
    return "\n".join(lines) + "\n"


@given(schedules())
def test_it_is_read_as_a_slow_reader_does(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("g")
    expected = slow_graph(text)
    if not any(operations for operations, _, _ in expected.values()):
        with refused(TraceError, "no operations"):
            read(folder / "x.goal", text)
        return

    trace = read(folder / "x.goal", text)

    assert graph(trace) == expected


@given(schedules())
def test_to_a_program_and_back_it_means_the_same(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("g")
    expected = slow_graph(text)
    if not any(operations for operations, _, _ in expected.values()):
        return
    (folder / "x.goal").write_text(text)

    convert(folder / "x.goal", folder / "x.program.parquet")
    convert(folder / "x.program.parquet", folder / "y.goal")

    assert slow_graph((folder / "y.goal").read_text()) == expected
    again = read(folder / "z.goal", (folder / "y.goal").read_text())
    trace = read_program(folder / "x.program.parquet")
    assert same(trace._replace(metadata=again.metadata), again)


def test_buffers_follow_each_other_through_pools(tmp_path):
    sends = "\n".join(f"send {size}b to 0" for size in (100, 1 << 19, 1 << 19, 8, 0))
    text = f"num_ranks 1\nrank 0 {{\n{sends}\nrecv 65b from 0\nrecv 8b from 0\n}}\n"

    trace = read(tmp_path / "x.goal", text)

    pool, half = 1 << 20, 1 << 19
    assert trace.address.tolist() == [
        BASE, BASE + 128, BASE, BASE + half, 0, BASE + pool, BASE + pool + 128,
    ]  # fmt: skip
    assert trace.metadata.assumed["send_pool_bytes"] == pool
    assert trace.metadata.memory_bytes == 2 * pool


def test_a_pool_holds_the_longest_message_and_ranks_share_nodes(tmp_path):
    text = "num_ranks 3\nrank 2 {\nsend 3000001b to 0\n}\n"

    trace = read(tmp_path / "x.goal", text, rank_pool_bytes=2 << 20, ranks_per_node=2)

    assert trace.metadata.assumed["send_pool_bytes"] == 3_000_064
    assert trace.metadata.nodes_of_processes == [0, 0, 1]
    assert trace.first.tolist() == [0, 0, 0, 1]


def test_it_is_told_by_what_it_says_and_may_be_compressed(tmp_path, capsys):
    path = tmp_path / "ring.txt.gz"
    path.write_bytes(gzip.compress(RING.encode()))

    assert app.main(["trace", "info", str(path), "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["operations_by_kind"]["send"] == 2
    assert told["bytes_by_kind"]["receive"] == 30
    assert told["compute_ns"] == [100, 5]
    assert told["longest_path_ns"] == 100
    assert told["never_ended"] == 0
    assert told["metadata"]["assumed"]["line_bytes"] == 64


def test_what_waits_for_a_message_that_nobody_sends_never_ends(tmp_path):
    trace = read(tmp_path / "x.goal", RING.replace("tag 7 cpu", "tag 8 cpu"))

    assert summarize_program(trace).never_ended == 2


def fetching():
    """Two processes on two nodes, and one that shares the second."""
    made = ProgramBuilder(metadata((0, 1, 1)))
    made.add(0, Operation.COMPUTE, duration_ns=50)
    made.add(0, Operation.FETCH, peer=1, address=BASE, length=PAGE)
    made.add(0, Operation.DEPOSIT, peer=1, address=BASE + 8, length=24)
    made.add(1, Operation.FETCH, peer=1, address=BASE, length=PAGE)
    made.add(2, Operation.COMPUTE, duration_ns=7, after_others=[(0, 1)])
    made.add(2, Operation.COMPUTE, duration_ns=8, after_start_others=[(0, 2)])
    for process in range(3):
        made.add(process, Operation.BARRIER, name=4)
    return made.trace()


def test_fetches_deposits_barriers_and_waits_for_others_are_messages(tmp_path):
    write_goal(tmp_path / "x.goal", fetching())

    text = (tmp_path / "x.goal").read_text()
    moved = Counter()
    for operations, _, _ in slowly_read(text).values():
        moved.update((kind, size) for kind, size, _, _ in operations if kind != "calc")
    barrier, waits = 3 * 2, 2  # a round for each power of two below three, a byte each
    assert moved == {
        ("send", 32): 1, ("recv", 32): 1, ("send", PAGE): 1, ("recv", PAGE): 1,
        ("send", 24): 1, ("recv", 24): 1,
        ("send", 1): barrier + waits, ("recv", 1): barrier + waits,
    }  # fmt: skip
    assert "send 4096b to 0 tag 1 cpu 1" in text
    trace = read(tmp_path / "y.goal", text)
    found = summarize_program(trace)
    assert found.never_ended == 0
    assert found.longest_path_ns == 50 + 7 + 8


def test_who_leaves_a_barrier_has_heard_of_all(tmp_path):
    made = ProgramBuilder(metadata(range(5)))
    for process in range(5):
        made.add(process, Operation.COMPUTE, duration_ns=1000 * (process == 3))
        made.add(process, Operation.BARRIER)
        made.add(process, Operation.COMPUTE, duration_ns=7)
    write_goal(tmp_path / "x.goal", made.trace())

    trace = read(tmp_path / "y.goal", (tmp_path / "x.goal").read_text())

    times = times_without_network(trace)
    last = trace.duration_ns == 7
    assert set(times.end[last].tolist()) == {1007}


def test_locks_are_refused(tmp_path):
    with refused(TraceError, "GOAL has no locks"):
        write_goal(tmp_path / "x.goal", small())

    assert not [*tmp_path.iterdir()]


def test_what_takes_any_message_is_refused_beside_messages_of_ours(tmp_path):
    made = ProgramBuilder(metadata())
    made.add(0, Operation.RECEIVE, peer=1, name=-1, address=BASE, length=8)
    made.add(1, Operation.SEND, peer=0, address=BASE, length=8)
    write_goal(tmp_path / "x.goal", made.trace())
    made.add(0, Operation.BARRIER)
    made.add(1, Operation.BARRIER)

    with refused(TraceError, "any tag"):
        write_goal(tmp_path / "y.goal", made.trace())


def test_a_programs_requests_are_a_trace_in_any_format(tmp_path, capsys):
    write_program(tmp_path / "x.program.parquet", fetching())

    files = [str(tmp_path / name) for name in ("x.program.parquet", "x.csv")]
    assert app.main(["trace", "convert", *files]) == 0

    said = capsys.readouterr().out
    assert "3 requests (program to csv)" in said
    assert "not kept in csv: computing, locks and barriers" in said
    assert (tmp_path / "x.csv").read_text().splitlines()[1:] == [
        f'0,1,0,"read",{BASE},{PAGE},1,',
        f'50,0,0,"read",{BASE},{PAGE},1,',
        f'50,0,0,"write",{BASE + 8},24,1,',
    ]


def test_requests_are_no_program(tmp_path):
    (tmp_path / "x.csv").write_text("time_ns,node,pid,op,address,length\n0,0,0,send,0,8\n")

    with refused(TraceError, "no program"):
        convert(tmp_path / "x.csv", tmp_path / "x.program.parquet")
