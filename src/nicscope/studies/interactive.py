"""Records a session of interactive users: checks that every byte arrived, writes the trace.

Users' programs are node 0 of the trace and the servers node 1, as if each side had a machine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.apps.interactive.servers import Participant, check
from nicscope.apps.interactive.session import KINDS, Plan, has_own_network, set_out
from nicscope.errors import NicscopeError, RecordError, SimulationError, StudyError, printable
from nicscope.outputs import check_output
from nicscope.studies.sources import footprint_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.traces.schema import Requests, TraceMetadata

USERS_NODE, SERVERS_NODE = 0, 1
MOST_USERS, MOST_PAGES = 256, 4096
LEAST_SECONDS, MOST_SECONDS = 0.1, 600
LEFT_OUT = ("tid",)  # of what a recorder writes
ENDING_S = 20.0  # that a recorder may take to end when it is told to


class Group(NamedTuple):
    """The requests of one kind of program on its node."""

    node: int
    kind: str
    processes: int
    connections: int
    sends: int
    receives: int
    bytes_sent: int
    bytes_received: int
    pages_sent: int  # distinct, by process
    pages_received: int

    @classmethod
    def of(
        cls, node: int, kind: str, members: Sequence[Participant], requests: Requests, page: int
    ) -> Group:
        """Count the requests of ``members``."""
        mine = np.isin(requests.pid, [each.pid for each in members])
        received = requests.receive.astype(bool)
        ways = (mine & ~received, mine & received)
        return cls(
            node,
            kind,
            len(np.unique(requests.pid[mine])),
            sum(len(each.seen["transcripts"]) for each in members),
            *(int(way.sum()) for way in ways),
            *(int(requests.length[way].sum(dtype=np.int64)) for way in ways),
            *(
                footprint_of(
                    [type(requests)(*(column[way] for column in requests))], page
                ).process_pages
                for way in ways
            ),
        )


class Session(NamedTuple):
    """The result of a session in which every byte arrived."""

    users: int
    seconds: float
    seed: int
    receive_pages: int
    own_network: bool  # else the machine's own loopback
    elapsed_s: float
    rows: int
    groups: list[Group]

    @property
    def bytes_moved(self) -> int:
        """All bytes that were sent, each of which arrived."""
        return sum(each.bytes_sent for each in self.groups)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {**self._asdict(), "groups": [each._asdict() for each in self.groups]}


class Recorded(NamedTuple):
    """A recorded and checked session."""

    plan: Plan
    own_network: bool  # else the machine's own loopback
    participants: list[Participant]
    requests: Requests
    rows: pa.Table  # all that the recorder knows of them
    metadata: TraceMetadata


def record_session(
    path: Path,
    users: int = 32,
    seconds: float = 30.0,
    seed: int = 0,
    receive_pages: int = 64,
    watch: Callable[[int, int], None] | None = None,
) -> Session:
    """Run a session under the recorder, check it, and write its trace to ``path``.

    ``watch`` is told how many users have left, of how many.
    Errors: ``StudyError`` for a session that is none or went wrong, ``RecordError`` where nothing
    may be recorded, ``OutputError`` if ``path`` cannot be written.
    """
    plan = planned(users, seconds, seed, receive_pages)
    check_output(path)
    recorded = run_session(plan, watch)
    write_session(recorded, path)
    return summary_of(recorded)


def planned(users: int, seconds: float, seed: int, receive_pages: int) -> Plan:
    """Check the parameters of a session; errors: ``StudyError``."""
    for called, value, least, most in (
        ("users", users, 1, MOST_USERS),
        ("seconds", seconds, LEAST_SECONDS, MOST_SECONDS),
        ("seed", seed, 0, None),
        ("receive_pages", receive_pages, 1, MOST_PAGES),
    ):
        if not (least <= value and (most is None or value <= most)):
            bounds = f"from {least} to {most}" if most else f"at least {least}"
            raise StudyError(f"{called} must be {bounds}, got {value}")
    return Plan(users, seconds, seed, receive_pages)


def run_session(plan: Plan, watch: Callable[[int, int], None] | None = None) -> Recorded:
    """Run a session under the recorder and check it; errors as ``record_session`` has them."""
    from nicscope.traces.reader import open_trace

    with tempfile.TemporaryDirectory(prefix="nicscope-") as made:
        folder = Path(made)
        set_out(folder, plan)
        _record(folder, folder / "recorded.parquet", plan, watch)
        try:
            found = check(folder)
        except SimulationError as error:
            raise StudyError(f"a session went wrong: {error}") from error
        trace = open_trace(folder / "recorded.parquet")
        requests = trace.read()
        _check_bytes(requests, found)
        rows = pa.Table.from_batches([batch for _, batch in trace.record_batches()])
        return Recorded(plan, has_own_network(folder), found, requests, rows, trace.metadata)


def _record(
    folder: Path, recorded: Path, plan: Plan, watch: Callable[[int, int], None] | None
) -> None:
    """Run the session of ``folder`` in a child process, as a recorder traces its children."""
    module = "nicscope.apps.interactive.session"
    session = [sys.executable, "-m", module, str(folder)]
    recorder = [sys.executable, "-m", "nicscope", "record", "--quiet", "-o", str(recorded), "--"]
    said = folder / "said"
    with (
        said.open("w") as errors,
        subprocess.Popen(
            [*recorder, *session],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if watch is not None:
                    watch(int(line), plan.users)
        except BaseException:
            process.terminate()  # the recorder passes it on, and ends with the session
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
            process.kill()
            raise
    if process.returncode:
        lines = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
        last = printable(lines[-1]).removeprefix("nicscope: ") if lines else "nothing said why"
        kind: type[NicscopeError] = RecordError if process.returncode == 2 else StudyError
        raise kind(f"the session was not recorded: {last}")


def write_session(recorded: Recorded, path: Path) -> None:
    """Write the trace of a session; clients and servers are separate nodes."""
    from nicscope.traces.writer import write_trace

    users = [each.pid for each in recorded.participants if each.user is not None]
    of_user = np.isin(recorded.requests.pid, users)
    node = np.where(of_user, USERS_NODE, SERVERS_NODE).astype(np.int32)
    columns = {name: recorded.rows.column(name) for name in recorded.rows.column_names}
    columns["node"] = pa.array(node)
    columns["peer"] = pa.array(USERS_NODE + SERVERS_NODE - node)
    for name in LEFT_OUT:
        del columns[name]
    write_trace(path, columns, _metadata(recorded))


def summary_of(recorded: Recorded) -> Session:
    """The requests of each kind of program."""
    requests, page = recorded.requests, recorded.metadata.page_size
    groups = [
        Group.of(
            number,
            kind,
            [
                each
                for each in recorded.participants
                if each.kind == kind and (each.user is None) == is_server
            ],
            requests,
            page,
        )
        for number, is_server in ((USERS_NODE, False), (SERVERS_NODE, True))
        for kind in KINDS[: recorded.plan.users]
    ]
    elapsed = (int(requests.time_ns[-1]) - int(requests.time_ns[0])) / 1e9
    return Session(*recorded.plan, recorded.own_network, elapsed, len(requests.length), groups)


def _check_bytes(requests: Requests, found: list[Participant]) -> None:
    """Errors: ``StudyError`` unless the recorder saw all bytes that the programs report."""
    received = requests.receive.astype(bool)
    for each in found:
        mine = requests.pid == each.pid
        seen = [
            int(requests.length[mine & way].sum(dtype=np.int64)) for way in (~received, received)
        ]
        if seen != [each.bytes_sent, each.bytes_received]:
            raise StudyError(
                f"a session went wrong: process {each.pid} ({each.kind}) has moved "
                f"{each.bytes_sent:,} and {each.bytes_received:,} bytes, of which {seen[0]:,} and "
                f"{seen[1]:,} were recorded"
            )


def _metadata(recorded: Recorded) -> TraceMetadata:
    """What the recorder says, of a command that anybody can give again."""
    import msgspec

    plan = recorded.plan
    command = (
        f"nicscope apps record-sockets --users {plan.users} --seconds {plan.seconds:g} "
        f"--seed {plan.seed} --receive-pages {plan.receive_pages}"
    )

    def numbers(*, of_users: bool) -> dict[str, list[int]]:
        side = [each for each in recorded.participants if (each.user is not None) == of_users]
        return {kind: [each.pid for each in side if each.kind == kind] for kind in KINDS}

    origin = recorded.metadata.origin | {
        "program": "interactive users",
        "command": command,
        "receive_pages": plan.receive_pages,
        "network": "a namespace of its own" if recorded.own_network else "loopback",
        "users": numbers(of_users=True),
        "servers": numbers(of_users=False),
    }
    return msgspec.structs.replace(recorded.metadata, origin=origin, connections=None)
