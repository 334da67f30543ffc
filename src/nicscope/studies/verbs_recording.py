"""A request trace of what compiled programs asked of libibverbs, as the preloaded recorder saw it.

The recorder leaves a file of entries for each thread (``nicscope.live.entries``); here the files of
all processes become one trace.  See docs/recording.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import platform
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from nicscope.errors import RecordError
from nicscope.live.build import RECORDER, built
from nicscope.live.entries import ENTRY, FOLDER_VARIABLE, RIGHTS_AS_BEFORE, Kind, entries_of
from nicscope.outputs.file import PARQUET, check_output, format_to_write
from nicscope.traces.columns import FURTHER, Checker
from nicscope.traces.reader import requests_of
from nicscope.traces.recording.record import Forwarder, find_program
from nicscope.traces.schema import ROW_CODES, WRITTEN, TraceMetadata
from nicscope.traces.writer import TraceWriter, batch_of
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

MOST_LISTED = 10_000  # queue pairs whose addresses the metadata tells
AT_A_TIME = 1 << 18  # entries, or rows, that are Python's objects at a time
NOBODY = -1
_CHILD_SUBREAPER, _DYNAMIC, _ENDED_BY_SIGNAL = 36, 2, 128
TYPES = {2: "rc", 3: "uc", 4: "ud", 8: "raw", 9: "xrc send", 10: "xrc receive"}
INLINE, RECEIVED, RECEIVED_BY_WRITE = 8, 1 << 7, (1 << 7) + 1
# What a send request does with the local buffer, and with the peer's.
LOCAL = {0: "write", 1: "write", 2: "send", 3: "send", 4: "read", 5: "read", 6: "read", 9: "send"}
REMOTE = {0: "serve_write", 1: "serve_write", 4: "serve_read", 5: "serve_read", 6: "serve_read"}
REQUESTS = (
    *("rdma_write", "rdma_write_with_imm", "send", "send_with_imm", "rdma_read"),
    *("atomic_cmp_and_swp", "atomic_fetch_and_add", "local_inv", "bind_mw", "send_with_inv"),
)
VERBS = (*REQUESTS, "recv")
OF_RECEIVE, OF_REGION = len(REQUESTS), len(VERBS)  # places in ``VERBS``; a region has none
RIGHTS = ((1, "local_write"), (2, "remote_write"), (4, "remote_read"))
ON_DEMAND, WHOLE_MEMORY = 1 << 6, 2**64 - 1
STATUSES = (
    *("success", "loc_len_err", "loc_qp_op_err", "loc_eec_op_err", "loc_prot_err"),
    *("wr_flush_err", "mw_bind_err", "bad_resp_err", "loc_access_err", "rem_inv_req_err"),
    *("rem_access_err", "rem_op_err", "retry_exc_err", "rnr_retry_exc_err"),
)


class Pair(msgspec.Struct, eq=False):
    """A queue pair, and what has been posted to it and has not ended."""

    connection: int
    depth: int = 0  # sends that it holds at most; 0: not known
    shared: int = 0  # its shared receive queue, by address; 0: none
    peer: int = NOBODY  # the node at the other end
    peer_number: int = 0
    peer_key: Any = None
    sends: deque[Posted] = msgspec.field(default_factory=deque)
    receives: deque[Posted] = msgspec.field(default_factory=deque)


class Posted(msgspec.Struct, eq=False):
    """A request that was posted: its rows, which stand if it succeeds."""

    wr_id: int
    rows: list[int] = msgspec.field(default_factory=list)
    peer: int = NOBODY  # of a receive, when it was posted
    moved: int = 0  # bytes of a message to or from remote memory, whose pieces are being taken
    pieces: list[int] = msgspec.field(default_factory=list)  # of a receive: the bytes of each row


class Region(NamedTuple):
    """A registered region: where it begins, for its process and for peers, and its bytes."""

    address: int
    first: int
    length: int
    rights: str


class Observed(msgspec.Struct):
    """What was seen, and what has no row."""

    processes: int = 0
    threads: int = 0
    queue_pairs: int = 0
    regions: int = 0
    completions: int = 0
    inline: int = 0  # requests whose bytes went with them: the NIC read no memory
    empty: int = 0  # requests without a byte
    failed: Counter[str] = msgspec.field(default_factory=Counter)  # requests, by status
    unfinished: int = 0  # receives that nothing has come for
    whole_memory: int = 0  # regions of all memory, paged on demand: they have no row

    def lines(self) -> list[str]:
        """What was seen, and what of it has no row, as lines."""
        told = [
            f"processes: {self.processes:,}, threads: {self.threads:,}, queue pairs: "
            f"{self.queue_pairs:,}, regions: {self.regions:,}, completions: {self.completions:,}"
        ]
        failed = ", ".join(f"{name} {count:,}" for name, count in sorted(self.failed.items()))
        without = [
            f"{count:,} {what}"
            for count, what in (
                (self.inline, "requests took their bytes with them (inline)"),
                (self.empty, "requests had none"),
                (self.failed.total(), f"requests failed ({failed})"),
                (self.unfinished, "receives got nothing"),
                (self.whole_memory, "regions are all memory"),
            )
            if count
        ]
        return [*told, *([f"without a row: {', '.join(without)}"] if without else [])]


def check_recording(path: Path) -> bool:
    """Whether ``path`` is standard output.

    Errors: ``OutputError`` if no trace can be written there.
    """
    format_to_write(path, WRITTEN, of_stream=PARQUET)
    return check_output(path).is_standard_output()


def environment_of(libraries: Path, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with the recorder before all libraries, writing into ``folder``."""
    before = environment.get("LD_PRELOAD")
    recorder = str(libraries / RECORDER)
    return {
        **environment,
        "LD_PRELOAD": f"{recorder}:{before}" if before else recorder,
        FOLDER_VARIABLE: str(folder),
    }


@contextlib.contextmanager
def recording_folder() -> Iterator[Path]:
    """A private folder for the recorder's files, which goes with the block."""
    folder = Path(tempfile.mkdtemp(prefix="nicscope-verbs-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clocks(libraries: Path) -> tuple[int, int]:
    """What the time stamp counter and the monotonic clock show now."""
    shown = (ctypes.c_uint64 * 2)()
    ctypes.CDLL(str(libraries / RECORDER)).nicscope_recorder_clocks(shown)
    return shown[0], shown[1]


def _entries(folder: Path, observed: Observed) -> tuple[NDArray[Any], Any, Any, tuple[int, int]]:
    """All entries with their processes and threads, by time; and the first pair of clocks.

    Errors: ``RecordError`` for files of another recorder.
    """
    parts, processes, threads, begun = [], [], [], []
    for path in sorted(folder.iterdir()):
        first, found = entries_of(path)
        begun.append((int(first["ticks"]), int(first["address"])))
        parts.append(found)
        processes.append(np.full(found.size, first["lkey"], np.int32))
        threads.append(np.full(found.size, first["number"], np.int32))
    if not parts:
        return np.zeros(0, ENTRY), np.zeros(0, np.int32), np.zeros(0, np.int32), (0, 0)
    entries: Any = np.concatenate(parts)
    process, thread = np.concatenate(processes), np.concatenate(threads)
    observed.processes, observed.threads = np.unique(process).size, np.unique(thread).size
    order = np.argsort(entries["ticks"], kind="stable")
    return entries[order], process[order], thread[order], min(begun)


ROW = np.dtype(
    [
        *(("ticks", "u8"), ("node", "i4"), ("pid", "i4"), ("tid", "i4"), ("op", "u1")),
        *(("address", "u8"), ("peer", "i4"), ("posted", "u8"), ("connection", "i4")),
        ("verb", "u1"),
    ]
)


class _Rows:
    """The rows of a trace; a length of 0 is one that is not known yet, or of what never moved."""

    def __init__(self) -> None:
        self._full: list[NDArray[Any]] = []
        self._last: list[tuple[int, ...]] = []
        self.lengths: list[int] = []
        self.rights: dict[int, str] = {}
        self.ends: dict[int, tuple[int, int]] = {}  # connection and peer, known later

    def add(self, row: tuple[int, ...], length: int) -> int:
        """The number of a row with the fields of ``ROW``."""
        if len(self._last) == AT_A_TIME:
            self._full.append(np.array(self._last, ROW))
            self._last = []
        self._last.append(row)
        self.lengths.append(length)
        return len(self.lengths) - 1

    def arrays(self) -> tuple[NDArray[Any], NDArray[np.uint64], NDArray[Any]]:
        """Rows, lengths and rights of those that stand, by time."""
        rows: Any = np.concatenate([*self._full, np.array(self._last, ROW)])
        for row, (connection, peer) in self.ends.items():
            rows["connection"][row], rows["peer"][row] = connection, peer
        rights = np.full(rows.size, None, object)
        rights[[*self.rights]] = [*self.rights.values()]
        lengths = np.array(self.lengths, np.uint64)
        stands = np.flatnonzero(lengths)
        order = stands[np.argsort(rows["ticks"][stands], kind="stable")]
        return rows[order], lengths[order], rights[order]


class Conversion:
    """Turns entries, in the order of time, into rows."""

    def __init__(self) -> None:
        self.observed = Observed()
        self.rows = _Rows()
        self.connections: list[dict[str, Any]] = []
        self.nodes: dict[Any, int] = {}  # by GID, or LID
        self._nodes = 0
        self.node_of: dict[tuple[int, int], int] = {}  # by process and context
        self.gid_of: dict[tuple[int, int], bytes] = {}  # the last, which is IPv4's if there is one
        self.pairs: dict[tuple[int, int, int], Pair] = {}  # by process, context and number
        self.shared: dict[tuple[int, int], deque[Posted]] = {}  # receives, by process and queue
        self.handles: dict[tuple[int, int], Any] = {}  # the peer of an address handle
        self.regions: dict[tuple[int, int, int], Region] = {}  # by process, context and lkey
        self.lkeys: dict[tuple[int, int, int], Region] = {}
        # By the peer's GID and the number of its pair: the process and its context.
        self.ends: dict[tuple[Any, int], tuple[int, int]] = {}

    def take(self, entries: NDArray[Any], processes: Any, threads: Any) -> None:
        """Take all ``entries``: first what devices there are, so that peers are known."""
        for which in np.flatnonzero(entries["kind"] == Kind.GID):
            self._meet(entries[which], int(processes[which]))
        makers = {
            Kind.REGISTER: self._register, Kind.DEREGISTER: self._deregister,
            Kind.CREATE_QP: self._create, Kind.DESTROY_QP: self._destroy, Kind.PATH: self._path,
            Kind.CREATE_AH: self._handle, Kind.SEND: self._send, Kind.RECEIVE: self._receive,
            Kind.COMPLETION: self._complete,
        }  # fmt: skip
        by_kind = [makers.get(each) for each in range(max(Kind) + 1)]  # type: ignore[call-overload]
        for start in range(0, entries.size, AT_A_TIME):
            batch = slice(start, start + AT_A_TIME)
            told = zip(
                entries[batch].tolist(),
                processes[batch].tolist(),
                threads[batch].tolist(),
                strict=True,
            )
            for entry, pid, tid in told:
                maker = by_kind[entry[-1]]
                if maker is not None:
                    maker(entry, pid, tid)
        left = sum(len(each.receives) for each in self.pairs.values())
        self.observed.unfinished += left + sum(map(len, self.shared.values()))

    def _meet(self, entry: Any, pid: int) -> None:
        key = pid, int(entry["context"])
        gid = entry["address"].tobytes() + entry["remote"].tobytes()
        node = self.node_of.get(key, self.nodes.get(gid))
        if node is None:
            node, self._nodes = self._nodes, self._nodes + 1
        self.node_of[key] = node
        self.nodes.setdefault(gid, node)
        self.gid_of[key] = gid

    def _peer(self, key: Any) -> int:
        node = self.nodes.get(key)
        if node is None:
            node = self.nodes[key] = self._nodes
            self._nodes += 1
        return node

    def _register(self, entry: Any, pid: int, tid: int) -> None:
        ticks, _, address, first, length, lkey, rkey, _, access, context, *_ = entry
        self.observed.regions += 1
        if not length:
            return
        if access & ON_DEMAND and length == WHOLE_MEMORY:
            self.observed.whole_memory += 1
            return
        rights = "|".join(name for bit, name in RIGHTS if access & bit) or "local_read"
        if access == RIGHTS_AS_BEFORE and (pid, context, lkey) in self.lkeys:
            rights = self.lkeys[pid, context, lkey].rights
        region = Region(address, first, length, rights)
        self.lkeys[pid, context, lkey] = self.regions[pid, context, rkey] = region
        node = self.node_of.get((pid, context), 0)
        row = ticks, node, pid, tid, ROW_CODES["register"], address, NOBODY, 0, NOBODY, OF_REGION
        self.rows.rights[self.rows.add(row, length)] = rights

    def _deregister(self, entry: Any, pid: int, tid: int) -> None:
        ticks, _, address, _, length, _, _, _, _, context, *_ = entry
        if length and length != WHOLE_MEMORY:
            node, op = self.node_of.get((pid, context), 0), ROW_CODES["deregister"]
            row = ticks, node, pid, tid, op, address, NOBODY, 0, NOBODY, OF_REGION
            self.rows.add(row, length)

    def _pair(self, pid: int, context: int, number: int) -> Pair:
        pair = self.pairs.get((pid, context, number))
        if pair is None:  # made by a call that the recorder does not see, as makers' own are
            pair = self._new_pair(pid, context, number, "unknown", {})
        return pair

    def _new_pair(self, pid: int, context: int, number: int, kind: str, more: Any) -> Pair:
        self.observed.queue_pairs += 1
        pair = self.pairs[pid, context, number] = Pair(len(self.connections))
        gid = self.gid_of.get((pid, context))
        local = f"{_spelt(gid)} {number:#x}"
        self.connections.append({"kind": kind, "local": local, "remote": "", "peer": None, **more})
        for known, node in self.nodes.items():
            if node == self.node_of.get((pid, context), 0):
                self.ends[known, number] = pid, context
        return pair

    def _create(self, entry: Any, pid: int, _: int) -> None:
        _, shared, sends, receives, inline, send_pieces, receive_pieces, number, _, context, kind, \
            *_ = entry  # fmt: skip
        depths = {
            "sends": sends, "receives": receives, "pieces_of_send": send_pieces,
            "pieces_of_receive": receive_pieces, "inline_bytes": inline,
        }  # fmt: skip
        pair = self._new_pair(pid, context, number, TYPES.get(kind, f"type {kind}"), depths)
        pair.shared, pair.depth = shared, sends

    def _destroy(self, entry: Any, pid: int, _: int) -> None:
        gone = self.pairs.pop((pid, entry[9], entry[7]), None)
        if gone is not None:
            self.observed.unfinished += len(gone.receives)

    @staticmethod
    def _key(entry: Any) -> Any:
        _, _, high, low, _, _, lid, _, is_global, *_ = entry
        if is_global:
            return high.to_bytes(8, "little") + low.to_bytes(8, "little")
        return lid

    def _path(self, entry: Any, pid: int, _: int) -> None:
        pair = self._pair(pid, entry[9], entry[7])
        pair.peer_key, pair.peer_number = self._key(entry), entry[5]
        pair.peer = self._peer(pair.peer_key)
        self.connections[pair.connection] |= {
            "remote": f"{_spelt(pair.peer_key)} {pair.peer_number:#x}",
            "peer": pair.peer,
        }

    def _handle(self, entry: Any, pid: int, _: int) -> None:
        self.handles[pid, entry[1]] = self._key(entry)

    def _send(self, entry: Any, pid: int, tid: int) -> None:
        (ticks, wr_id, address, remote, length, _, rkey, number, flags, context, opcode, _, piece,
         *_) = entry  # fmt: skip
        pair = self._pair(pid, context, number)
        peer = pair.peer
        if peer == NOBODY and (pid, remote) in self.handles:
            peer = self._peer(self.handles[pid, remote])
        if not piece or not pair.sends:
            if len(pair.sends) == pair.depth > 0:
                pair.sends.popleft()  # it has ended unsignaled, or there would be no place
            pair.sends.append(Posted(wr_id))
            self.observed.inline += bool(flags & INLINE)
        posted = pair.sends[-1]
        op = LOCAL.get(opcode)
        if op is None or not length:
            self.observed.empty += op is not None and not piece
            return
        node = self.node_of.get((pid, context), 0)
        if not flags & INLINE:
            row = (
                ticks, node, pid, tid, ROW_CODES[op], address, peer, length, pair.connection,
                opcode,
            )  # fmt: skip
            posted.rows.append(self.rows.add(row, length))
        if opcode in REMOTE and pair.peer_key is not None:
            # A message goes to consecutive bytes; each piece is a row there as well, like here.
            offset, posted.moved = posted.moved, posted.moved + length
            end = self.ends.get((pair.peer_key, pair.peer_number))
            region = None if end is None else self.regions.get((*end, rkey))
            if end is None or region is None:
                return
            other = self.pairs.get((*end, pair.peer_number))
            row = (
                ticks, self.node_of.get(end, 0), end[0], NOBODY, ROW_CODES[REMOTE[opcode]],
                region.address + remote + offset - region.first, node, length,
                NOBODY if other is None else other.connection, opcode,
            )  # fmt: skip
            posted.rows.append(self.rows.add(row, length))

    def _receive(self, entry: Any, pid: int, tid: int) -> None:
        (ticks, wr_id, address, shared, length, _, _, number, _, context, _, _, piece, *_) = entry
        if shared:
            queue = self.shared.setdefault((pid, shared), deque())
            connection, peer = NOBODY, NOBODY
        else:
            pair = self._pair(pid, context, number)
            queue, connection, peer = pair.receives, pair.connection, pair.peer
        if not piece or not queue:
            queue.append(Posted(wr_id, peer=peer))
        if length:
            node, op = self.node_of.get((pid, context), 0), ROW_CODES["recv"]
            row = ticks, node, pid, tid, op, address, peer, length, connection, OF_RECEIVE
            queue[-1].rows.append(self.rows.add(row, 0))
            queue[-1].pieces.append(length)

    def _complete(self, entry: Any, pid: int, _: int) -> None:
        _, wr_id, _, _, length, status, _, number, _, context, opcode, *_ = entry
        self.observed.completions += 1
        pair = self._pair(pid, context, number)
        if status or not opcode & RECEIVED:
            ended = _sent_until(pair.sends, wr_id)
            if ended is not None:
                if status:
                    self.observed.failed[_status(status)] += 1
                    for row in ended.rows:
                        self.rows.lengths[row] = 0
                return
        found = self._received(pid, pair, wr_id)
        if found is None:
            return
        if status:
            self.observed.failed[_status(status)] += 1
            return
        if opcode == RECEIVED_BY_WRITE:
            return  # the bytes went elsewhere
        for row, most in zip(found.rows, found.pieces, strict=True):
            part = min(length, most)
            self.rows.lengths[row] = part
            if found.peer == NOBODY:  # of a shared queue, or posted before there was a peer
                self.rows.ends[row] = pair.connection, pair.peer
            length -= part

    def _received(self, pid: int, pair: Pair, wr_id: int) -> Posted | None:
        """The receive that has ended, taken from its queue."""
        if pair.shared:
            queues = [self.shared.get((pid, pair.shared), deque())]
        elif pair.receives:
            queues = [pair.receives]
        else:  # XRC: a message names the shared queue, its pair does not
            queues = [each for (owner, _), each in self.shared.items() if owner == pid]
        for queue in queues:
            for place, posted in enumerate(queue):
                if posted.wr_id == wr_id:
                    del queue[place]
                    return posted
        return None


def _sent_until(queue: deque[Posted], wr_id: int) -> Posted | None:
    """The request that has ended, and with it all before it, which are taken from their queue."""
    if not any(each.wr_id == wr_id for each in queue):
        return None
    while True:
        posted = queue.popleft()
        if posted.wr_id == wr_id:
            return posted


def _status(number: int) -> str:
    return STATUSES[number] if number < len(STATUSES) else f"status_{number}"


def _spelt(key: Any) -> str:
    """An address as text: of a GID, of a LID, of none."""
    if key is None:
        return "-"
    if isinstance(key, int):
        return f"lid {key}"
    return ":".join(key[at : at + 2].hex() for at in range(0, 16, 2))


def nothing_recorded(observed: Observed) -> str:
    """Why there is no row, as a line."""
    why = "; ".join(["no request moved memory", *observed.lines()])
    if not observed.processes:
        why = (
            "the program opened no RDMA device through libibverbs.so.1; check that it uses verbs, "
            "and finds a device: ibv_devices"
        )
    return f"nothing was recorded, no file written: {why}"


def write_recording(
    folder: Path,
    libraries: Path,
    path: Path,
    origin: Mapping[str, Any],
) -> tuple[int, Observed]:
    """Write what the recorder left in ``folder`` to ``path``; the number of rows, and counts.

    Without a row nothing is written.  Errors: ``RecordError`` for files of another recorder,
    ``OutputError`` if ``path`` cannot be written.
    """
    conversion = Conversion()
    observed = conversion.observed
    entries, processes, threads, begun = _entries(folder, observed)
    now = _clocks(libraries)
    conversion.take(entries, processes, threads)
    rows, lengths, rights = conversion.rows.arrays()
    if not (rows["op"] < ROW_CODES["register"]).any():
        return 0, observed
    passed = (rows["ticks"] - np.uint64(begun[0])).astype(np.float64)
    rate = (now[1] - begun[1]) / max(now[0] - begun[0], 1)
    times = (passed * rate).astype(np.int64)
    metadata = TraceMetadata(
        page_size=os.sysconf("SC_PAGE_SIZE"),
        origin=dict(origin),
        observed=msgspec.to_builtins(observed) | {"connections": len(conversion.connections)},
        connections=conversion.connections[:MOST_LISTED],
    )
    _write(path, metadata, (times, rows, lengths, rights))
    return rows.size, observed


def _write(path: Path, metadata: TraceMetadata, all_rows: tuple[NDArray[Any], ...]) -> None:
    written = format_to_write(path, WRITTEN, of_stream=PARQUET)
    writer_type: Any = TraceWriter
    if written != PARQUET:
        from nicscope.traces.formats import FORMATS

        writer_type = FORMATS[written].writer
    checker = Checker(str(path))
    with writer_type(path, metadata) as writer:
        for start in range(0, all_rows[0].size, AT_A_TIME):
            times, rows, lengths, rights = (each[start : start + AT_A_TIME] for each in all_rows)
            is_request = rows["op"] < ROW_CODES["register"]
            told: dict[str, Any] = {"time_ns": times, "length": lengths}
            told |= {name: rows[name] for name in ("node", "pid", "op", "address")}
            told["page_size"] = pa.nulls(is_request.size, FURTHER["page_size"])
            told["rights"] = pa.array(rights.tolist()).cast(FURTHER["rights"])
            told["posted"] = pa.array(rows["posted"], FURTHER["posted"], mask=~is_request)
            for name in ("peer", "tid", "connection"):
                told[name] = pa.array(rows[name], mask=rows[name] < 0)
            verbs = pa.array(rows["verb"].astype(np.int32), mask=~is_request)
            told["verb"] = pa.DictionaryArray.from_arrays(verbs, list(VERBS))
            batch = batch_of(told, checker)
            requests = requests_of(batch, checker)
            checker.check(requests)
            writer.append(requests, batch)


def origin_of(commands: Sequence[Sequence[str]], recorder: str) -> dict[str, Any]:
    """Where a trace comes from: the programs, the recorder, the machine, the time now."""
    return {
        "program": " ".join(dict.fromkeys(Path(each[0]).name for each in commands)),
        "command": " & ".join(map(shlex.join, commands)),
        "recorder": f"{recorder} {__version__}",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


class VerbsRecording(NamedTuple):
    """The result of recording a program's verbs."""

    status: int  # of the program, 128 + number if a signal killed it
    seconds: float
    rows: int  # 0: no file was written
    observed: Observed


def record_verbs(command: Sequence[str], path: Path, mask: Collection[int]) -> VerbsRecording:
    """Run ``command`` and write what it asks of libibverbs, and its children, to ``path``.

    Call it with signals held (``held_signals``), which pass to the program, and with the ``mask``
    from before.  A trace without a request is not written.  Errors: ``RecordError`` if the program
    cannot be started, ``BuildError`` without a compiler, ``OutputError`` if ``path`` cannot be
    written.
    """
    aside = check_recording(path)
    program = find_program(command[0])
    _refuse_static(program)
    libraries = built()
    origin = origin_of([command], "nicscope record --verbs")
    with recording_folder() as folder:
        clock = time.monotonic()
        # What the program leaves behind becomes this process's, which waits for all of it.
        ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            started = subprocess.Popen(
                command,
                executable=program,
                env=environment_of(libraries, folder, os.environ),
                stdout=2 if aside else None,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
            )
        except OSError as error:
            raise RecordError(f"{command[0]!r} cannot be started: {error.strerror}") from None
        with Forwarder(started.pid, _descendants, lambda: None):
            statuses = dict(_ended())
        started.returncode = os.waitstatus_to_exitcode(statuses[started.pid])
        status = started.returncode
        rows, observed = write_recording(folder, libraries, path, origin)
    return VerbsRecording(
        status if status >= 0 else _ENDED_BY_SIGNAL - status,
        time.monotonic() - clock,
        rows,
        observed,
    )


def _ended() -> Iterator[tuple[int, int]]:
    """Every process that this one has begun or been left with, as it ends, and its status."""
    while True:
        try:
            yield os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _descendants() -> set[int]:
    """The processes that this one has begun, and those they have."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = each.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(each.parent.name)] = int(parent)
    found, new = set(), {os.getpid()}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found |= new
    return found


def _refuse_static(program: str) -> None:
    """Errors: ``RecordError`` for a program that loads no libraries at all."""
    with Path(program).open("rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return  # a script; its interpreter is what is recorded
        at, (size, count) = int.from_bytes(head[32:40], "little"), struct.unpack("<2H", head[54:58])
        file.seek(at)
        headers = file.read(size * count)
    kinds = {
        int.from_bytes(headers[place : place + 4], "little")
        for place in range(0, size * count, size)
    }
    if _DYNAMIC not in kinds:
        raise RecordError(
            f"{program} is linked statically: no recorder can be put before its calls of libibverbs"
        )
