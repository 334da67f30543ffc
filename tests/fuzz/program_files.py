"""Good samples of program traces and GOAL's text, and how they are read."""

import tempfile
from pathlib import Path

from calling import commanded

from nicscope.traces.programs.schema import Operation, ProgramMetadata
from nicscope.traces.programs.writer import ProgramBuilder, write_program

GOAL = [
    b"num_ranks 2\n\nrank 0 { // one\nl1: calc 100 cpu 0\nl2: send 10b to 1 tag 7 cpu 0 nic 0\n"
    b"l2 requires l1\nl3: recv 9b from -1 tag -1\nl3 irequires l2\n}\n/* the\nother */\n"
    b"rank 1 {\nl1: recv 10b from 0 tag 7\nl2: send 9b to 0\nl2 requires l1\ncalc 5\n}\n"
]


def _program():
    base = 1 << 32
    made = ProgramBuilder(
        ProgramMetadata(nodes_of_processes=[0, 1], base=base, memory_bytes=1 << 20)
    )
    for process in (0, 1):
        for page in range(20):
            made.add(process, Operation.COMPUTE, duration_ns=100 * page)
            at = base + 4096 * page
            made.add(process, Operation.FETCH, peer=1 - process, address=at, length=4096)
            made.add(process, Operation.LOCK, name=page % 3)
            made.add(process, Operation.DEPOSIT, peer=1 - process, address=at + 8, length=24)
            made.add(
                process, Operation.UNLOCK, name=page % 3, after=[3 + 5 * page], after_start=[0]
            )
        made.add(process, Operation.BARRIER)
    made.add(1, Operation.COMPUTE, after_others=[(0, 3), (0, 7)], after_start_others=[(0, 2)])
    return made.trace()


def programs():
    """Bytes of one as it is written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.program.parquet"
        write_program(path, _program())
        return [path.read_bytes()]


def read_program_file(path, folder):
    """Look at it, and convert it where that is possible."""
    if commanded("trace", "info", path, "--json") is not None:
        commanded("trace", "convert", path, folder / "made.csv", "--json")


def read_goal_file(path, folder):
    """Make a program of it, and GOAL of that."""
    made = folder / "made.program.parquet"
    if commanded("trace", "convert", path, made, "--from", "goal", "--json") is not None:
        commanded("trace", "convert", made, folder / "made.goal", "--json")
