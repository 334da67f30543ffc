"""Processes, sockets and system files as a program of verbs meets them on its simulated node."""

from __future__ import annotations

import builtins
import contextlib
import copy
import errno
import io
import json
import multiprocessing
import multiprocessing.context
import multiprocessing.process
import os
import pickle
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.thread_scheduler import StoppedError
from nicscope.errors import SimulationError
from nicscope.interfaces.verbs.base import World, bind_world, close_all, here, track_opened, whose
from nicscope.interfaces.verbs.cmid import ANYWHERE, FIRST_PORT, local_names
from nicscope.interfaces.verbs.device import PKEY
from nicscope.interfaces.verbs_device.device import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


PS = 10**12  # of a second
LOOK_PS = 10**6  # after which a program that asks without waiting finds out that nothing has come


def waited(what: str, has_come: Callable[[], bool], timeout: float | None = None) -> bool:
    """Wait until a condition holds or the timeout ends; True if it holds."""
    if has_come():
        return True
    patience = None if timeout is None else max(int(timeout * PS), LOOK_PS)
    return here().take_turns().wait(what, has_come, patience_ps=patience)


class Semaphore:
    """A counting semaphore in virtual time."""

    _what = "a Semaphore"

    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._left = value

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Decrement the counter, waiting while it is zero."""
        if not waited(self._what, lambda: self._left > 0, timeout if block else 0):
            return False
        self._left -= 1
        return True

    def release(self) -> None:
        """Increment the counter."""
        self._left += 1

    def get_value(self) -> int:
        """The counter's value."""
        return self._left

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """A semaphore that may not be released more often than acquired."""

    _what = "a BoundedSemaphore"

    def __init__(self, value: int = 1, *, ctx: Any = None) -> None:
        super().__init__(value, ctx=ctx)
        self._most = value

    def release(self) -> None:
        """Increment the counter.  Errors: ``ValueError`` for one too many."""
        if self._left >= self._most:
            raise ValueError("semaphore or lock released too many times")
        super().release()


class Lock(BoundedSemaphore):
    """A mutual exclusion lock."""

    _what = "a Lock"

    def __init__(self, *, ctx: Any = None) -> None:
        super().__init__(1, ctx=ctx)


class RLock(Lock):
    """A lock that its holder may acquire again."""

    _what = "an RLock"
    _owner: int | None = None
    _depth = 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Acquire the lock, or increment the holder's count."""
        if self._owner != threading.get_ident():
            if not super().acquire(block, timeout):
                return False
            self._owner = threading.get_ident()
        self._depth += 1
        return True

    def release(self) -> None:
        """Decrement the holder's count.  Errors: ``AssertionError`` for somebody else."""
        if self._owner != threading.get_ident():
            raise AssertionError("attempt to release recursive lock not owned by process")
        self._depth -= 1
        if not self._depth:
            self._owner = None
            super().release()


class Condition:
    """A condition variable: a lock and its waiters."""

    def __init__(self, lock: Any = None, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._lock = RLock() if lock is None else lock
        self.acquire, self.release = self._lock.acquire, self._lock.release
        self._waiting: list[object] = []

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *given: object) -> None:
        self._lock.__exit__(*given)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified; True unless that timed out."""
        mine = object()
        self._waiting.append(mine)
        depth = getattr(self._lock, "_depth", 1)
        for _ in range(depth):
            self._lock.release()
        try:
            return waited("a Condition", lambda: mine not in self._waiting, timeout)
        finally:  # who is stopped meanwhile leaves its lock, too
            if mine in self._waiting:
                self._waiting.remove(mine)
            for _ in range(depth):
                self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until the predicate holds; its last value."""
        while not (found := predicate()):
            if not self.wait(timeout):
                return predicate()
        return found

    def notify(self, n: int = 1) -> None:
        """Wake ``n`` waiters."""
        del self._waiting[:n]

    def notify_all(self) -> None:
        """Wake all waiters."""
        self._waiting.clear()


class Event:
    """A flag that processes wait for."""

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._is_set = False

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self.wait(0)

    def set(self) -> None:
        """Set the flag."""
        self._is_set = True

    def clear(self) -> None:
        """Clear the flag."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set; True unless that timed out."""
        return waited("an Event", lambda: self._is_set, timeout)


class Barrier(threading.Barrier):
    """A barrier for a number of processes."""

    def __init__(
        self,
        parties: int,
        action: Callable[[], Any] | None = None,
        timeout: float | None = None,
        *,
        ctx: Any = None,
    ) -> None:
        super().__init__(parties, action, timeout)
        self._cond: Any = Condition(ctx=ctx)


class SimpleQueue:
    """A first-in first-out queue between processes."""

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:  # noqa: ARG002
        self._items: deque[bytes] = deque()
        self._room = maxsize if maxsize > 0 else 1 << 62

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append an item.  Errors: ``queue.Full`` if there is no room in time."""
        copied = pickle.dumps(obj)
        if not waited("room in a Queue", self._has_room, timeout if block else 0):
            raise queue.Full
        self._items.append(copied)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove the first item.  Errors: ``queue.Empty`` if none comes in time."""
        if not waited("an item of a Queue", lambda: bool(self._items), timeout if block else 0):
            raise queue.Empty
        # Programs of this very run have put these.
        return pickle.loads(self._items.popleft())

    def _has_room(self) -> bool:
        return len(self._items) < self._room

    def empty(self) -> bool:
        """Whether the queue is empty."""
        return not waited("an item of a Queue", lambda: bool(self._items), 0)

    def close(self) -> None:
        """Does nothing."""


class Queue(SimpleQueue):
    """A queue with the full interface of ``multiprocessing.Queue``."""

    def put_nowait(self, obj: Any) -> None:
        """Errors: ``queue.Full``."""
        self.put(obj, block=False)

    def get_nowait(self) -> Any:
        """Errors: ``queue.Empty``."""
        return self.get(block=False)

    def qsize(self) -> int:
        """The number of items."""
        return len(self._items)

    def full(self) -> bool:
        """Whether the queue is full."""
        return not waited("room in a Queue", self._has_room, 0)

    def join_thread(self) -> None:
        """Does nothing: there is no feeder thread."""

    def cancel_join_thread(self) -> None:
        """Does nothing: there is no feeder thread."""


class JoinableQueue(Queue):
    """A queue that counts items until they are marked done."""

    _undone = 0

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append an item."""
        super().put(obj, block, timeout)
        self._undone += 1

    def task_done(self) -> None:
        """Mark one item done.  Errors: ``ValueError`` for one too many."""
        if not self._undone:
            raise ValueError("task_done() called too many times")
        self._undone -= 1

    def join(self) -> None:
        """Wait until all items are marked done."""
        waited("all items of a JoinableQueue to be done", lambda: not self._undone)


class Connection:
    """An end of a pipe."""

    def __init__(self, comes: Queue | None, goes: Queue | None) -> None:
        self._comes, self._goes = comes, goes
        self.readable, self.writable = comes is not None, goes is not None
        self.closed = False

    def send(self, obj: Any) -> None:
        """Send an object to the other end.  Errors: ``OSError`` at an end that only receives."""
        if self._goes is None:
            raise OSError("connection is read-only")
        self._goes.put(obj)

    def recv(self) -> Any:
        """Wait for an object from the other end.  Errors: ``OSError`` at one that only sends."""
        return self._coming().get()

    def _coming(self) -> Queue:
        if self._comes is None:
            raise OSError("connection is write-only")
        return self._comes

    send_bytes, recv_bytes = send, recv

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether an object arrives before the timeout."""
        comes = self._coming()
        return waited("a Connection", lambda: bool(comes.qsize()), timeout)

    def close(self) -> None:
        """Close this process's end; other processes keep theirs."""
        self.closed = True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pipe(duplex: bool = True) -> tuple[Connection, Connection]:
    """The two ends of a pipe; unless ``duplex``, the first receives and the second sends."""
    one, two = Queue(), Queue() if duplex else None
    return Connection(one, two), Connection(two, one)


FIRST_PID = 1 << 22  # above all that Linux gives, so that no process of the system is meant
NO_POOLS = (
    "pools, managers and executors of processes are not simulated; start a multiprocessing.Process "
    "for each piece of work"
)
_own = threading.local()


class ChildProcess:
    """A child process, as ``multiprocessing`` handles it."""

    method = "fork"
    sentinel = None

    def __init__(self, process: Process) -> None:
        self.returncode: int | None = None
        self._name, self._signal = process.name, 0
        self._world = here()
        self._turns = self._world.take_turns().turns
        copied = copy.copy(process)  # its maker forgets what it is to do
        self._number = self._turns.begin(lambda: self._live(copied))
        self._world.called[self._number] = self._name
        self.pid = FIRST_PID + self._number

    def _live(self, process: Any) -> None:
        bind_world(self._world)
        opened = track_opened()
        _own.process = process
        code = 1
        try:
            process.run()
            code = 0
        except SystemExit as leaving:
            code = exit_code_of(leaving.code)
        except StoppedError:
            code = -self._signal
            raise
        except BaseException:
            print(f"Process {self._name}:", file=sys.stderr)
            traceback.print_exc()
        finally:
            process.__dict__.clear()
            close_all([*opened.values()])  # as when a process ends
            self.returncode = code

    def poll(self, flag: int = 0) -> int | None:  # noqa: ARG002
        """The exit code, or None; polling without waiting yields to other programs."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the exit code."""
        waited(f"{self._name} to end", lambda: self.returncode is not None, timeout)
        return self.returncode

    def _stop(self, by: int) -> None:
        if self.returncode is None:
            self._signal = by
            self._turns.cancel(self._number)

    def terminate(self) -> None:
        """End the process."""
        self._stop(signal.SIGTERM)

    def kill(self) -> None:
        """End the process."""
        self._stop(signal.SIGKILL)

    def close(self) -> None:
        """Does nothing."""


def exit_code_of(code: Any) -> int:
    """The exit code of ``SystemExit``'s argument; text is printed, as Python does."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


class Process(multiprocessing.process.BaseProcess):
    """A child process of a simulated program."""

    _start_method = "fork"

    @staticmethod
    def _Popen(process_obj: Process) -> ChildProcess:  # noqa: N802 - its name is given
        target = getattr(getattr(process_obj, "_target", None), "__module__", None) or ""
        if target.startswith(("concurrent.", "multiprocessing.")):
            raise SimulationError(NO_POOLS)
        return ChildProcess(process_obj)


class RunContext(multiprocessing.context.BaseContext):
    """The ``multiprocessing`` context within a run, whatever start method is asked for."""

    Process = Process

    def get_context(self, method: str | None = None) -> Any:
        """The one context that there is."""
        multiprocessing.context.BaseContext.get_context(self, method)  # errors: no such method
        return self

    def get_start_method(self, allow_none: bool = False) -> str:  # noqa: ARG002
        """The only one."""
        return "fork"

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """Does nothing: all start methods are the same."""

    def Pool(self, *_: Any, **__: Any) -> Any:  # noqa: N802 - its name is given
        """Errors: ``SimulationError``."""
        raise SimulationError(NO_POOLS)

    Manager = Pool

    @staticmethod
    def current_process() -> Any:
        """The calling process."""
        return getattr(_own, "process", None) or multiprocessing.process._current_process  # type: ignore[attr-defined]


_TOGETHER: Any = RunContext()
_NAMES = {name: getattr(_TOGETHER, name) for name in ("get_context", "get_start_method")}
_NAMES |= {name: getattr(_TOGETHER, name) for name in ("set_start_method", "current_process")}
_NAMES["Process"] = Process
_MADE: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(Barrier, BoundedSemaphore, Condition, Event, Lock, RLock, Semaphore),
        *(JoinableQueue, Queue, SimpleQueue),
    )
}
_MADE["Pipe"] = pipe
for _name, _made in _MADE.items():
    setattr(RunContext, _name, staticmethod(_made))
for _name in ("Value", "Array", "Pool", "Manager"):
    _MADE[_name] = getattr(_TOGETHER, _name)


def sleep(seconds: float) -> None:
    """Sleep in virtual time while other programs of the run go on; without any, sleep for real."""
    world = whose()
    if world is None or world.turn is None:
        _SLEEP(seconds)
    else:
        waited("the end of a sleep", lambda: False, seconds)


_SLEEP = time.sleep


@contextlib.contextmanager
def processes_emulated() -> Iterator[None]:
    """Within the block, ``multiprocessing`` creates processes on the program's node."""
    patched: Any = multiprocessing
    kept = {name: getattr(patched, name) for name in (*_NAMES, *_MADE)}
    for name, value in {**_NAMES, **_MADE}.items():
        setattr(patched, name, value)
    time.sleep = sleep  # type: ignore[assignment]  # seconds are numbers
    try:
        yield
    finally:
        time.sleep = _SLEEP
        for name, value in kept.items():
            setattr(patched, name, value)
        children: Any = multiprocessing.process._children  # type: ignore[attr-defined]
        children.difference_update([each for each in children if isinstance(each, Process)])


def join_children() -> None:
    """Wait for the child processes that a program has left, as Python does at exit."""
    world, children = here(), multiprocessing.process._children  # type: ignore[attr-defined]
    for each in sorted(children, key=lambda one: str(one.name)):
        forked = getattr(each, "_popen", None)
        if isinstance(forked, ChildProcess) and forked._world is world:
            if each.daemon:
                each.terminate()
            each.join()


HUGE_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
NETDEV, NETDEV_INDEX = "nicscope-eth0", 1000  # the port, as the system's network would have it
POOL = 512  # huge pages that a program is told of; simulated ones take nothing of the system's
_COUNTER = re.compile(r"/sys/class/infiniband/([^/]+)/ports/1/((?:hw_)?counters)/(\w+)")
_PKEY = re.compile(r"/sys/class/infiniband/([^/]+)/ports/1/pkeys/(\d+)")


def command_output(command: Any) -> str | None:
    """The output of a command that queries the simulated device; None for any other command."""
    if isinstance(command, str) or not isinstance(command, (list, tuple)):
        return None
    words: Sequence[str] = [str(word) for word in command]
    if words[:3] == ["rdma", "link", "show"]:
        return json.dumps([_link(here())]) + "\n"
    if words[:1] == ["ip"] and {"-j", "addr", "show"} <= {*words} and words[-1] == NETDEV:
        return json.dumps([_interface(here())]) + "\n"
    if words[:1] != ["cat"] or len(words) != 2:
        return None
    counted, found = system_file_text(words[1]), _PKEY.fullmatch(words[1])
    if counted is not None:
        return counted
    if found is not None and found[1] == here().name and int(found[2]) == 0:
        return f"{PKEY:#06x}\n"
    return None


def _link(world: World) -> dict[str, Any]:
    told = {"ifindex": 0, "ifname": world.name, "port": 1, "state": "ACTIVE"}
    return {**told, "physical_state": "LINK_UP", "netdev": NETDEV, "netdev_index": NETDEV_INDEX}


def _interface(world: World) -> dict[str, Any]:
    """The network interface of the device's port, with its addresses."""
    link, by_ip = (gid.raw for gid in world.gids())
    number = world.guid.to_bytes(8, "big")
    mac = ":".join(f"{each:02x}" for each in (*number[:3], *number[5:]))
    local = socket.inet_ntop(socket.AF_INET, by_ip[12:])
    six = socket.inet_ntop(socket.AF_INET6, link)
    addresses = [
        {"family": "inet", "local": local, "prefixlen": 24, "scope": "global", "label": NETDEV},
        {"family": "inet6", "local": six, "prefixlen": 64, "scope": "link"},
    ]
    told = {"ifindex": NETDEV_INDEX, "ifname": NETDEV, "link_type": "ether", "address": mac}
    flags = ["BROADCAST", "UP", "LOWER_UP"]
    return {**told, "flags": flags, "operstate": "UP", "addr_info": addresses}


def system_file_text(file: Any) -> str | None:
    """The content of a system file about the simulated node; None for any other file."""
    if not isinstance(file, (str, os.PathLike)):
        return None
    path = os.fspath(file)
    if path == HUGE_PAGES and here().facts.huge:
        return f"{POOL}\n"
    found = _COUNTER.fullmatch(path) if isinstance(path, str) else None
    if found is None or found[1] != here().name:
        return None
    counter = COUNTERS.get(found[3])
    if counter is None or counter.folder != found[2]:
        return None
    return f"{here().device.counters()[found[3]]}\n"


@contextlib.contextmanager
def system_emulated() -> Iterator[None]:
    """Within the block, files and commands about the simulated node are answered from it."""
    with _commands_answered(), _files_answered(), processes_emulated():
        yield


@contextlib.contextmanager
def _files_answered() -> Iterator[None]:
    opened, is_file = builtins.open, os.path.isfile

    def open_(file: Any, *args: Any, **named: Any) -> Any:
        text = system_file_text(file)
        if text is None:
            return opened(file, *args, **named)
        mode = str(args[0] if args else named.get("mode", "r"))
        return io.BytesIO(text.encode()) if "b" in mode else io.StringIO(text)

    builtins.open = io.open = open_  # pathlib's is the latter
    os.path.isfile = lambda path: system_file_text(path) is not None or is_file(path)
    try:
        yield
    finally:
        builtins.open = io.open = opened
        os.path.isfile = is_file


@contextlib.contextmanager
def _commands_answered() -> Iterator[None]:
    asked = subprocess.check_output

    def check_output(*args: Any, **named: Any) -> Any:
        told = command_output(args[0] if args else named.get("args"))
        if told is None:
            return asked(*args, **named)
        texts = ("text", "universal_newlines", "encoding", "errors")
        return told if any(named.get(name) for name in texts) else told.encode()

    subprocess.check_output = check_output
    try:
        yield
    finally:
        subprocess.check_output = asked


def exchange(name: str, value: Any) -> list[Any]:
    """Give a value to all nodes; what each has given under that name, in order of the nodes.

    It waits, in no virtual time, until every node has given one, as often as one likes: a node's
    second value is exchanged for the others' second.  What is given is copied.
    """
    own = here()
    mine = pickle.dumps(value)
    own.offered.setdefault(name, []).append(mine)
    turn = own.taken.get(name, 0)
    own.taken[name] = turn + 1

    def is_whole() -> bool:
        return all(len(each.offered.get(name, ())) > turn for each in own.neighbours)

    own.wait(f"the other nodes to exchange {name!r}", is_whole)
    # Programs of this very run have given these.
    return [pickle.loads(each.offered[name][turn]) for each in own.neighbours]


_SOCKET = socket.socket
_INET = (socket.AF_INET, socket.AF_INET6)
Place = tuple[str, int]
Coming = tuple[socket.socket, Place]  # a connection that nobody has accepted yet, and whence
_listening: dict[tuple[int, int], deque[Coming]] = {}  # by node and port
_open: dict[int, weakref.WeakSet[socket.socket]] = {}  # by node


class NodeSocket(_SOCKET):
    """A stream socket between simulated nodes; other kinds are the system's sockets."""

    def __init__(
        self,
        family: int = -1,
        type: int = -1,  # noqa: A002 - its name is given
        proto: int = -1,
        fileno: int | None = None,
    ) -> None:
        super().__init__(family, type, proto, fileno)
        self._world = whose() if self.family in _INET and self.type == socket.SOCK_STREAM else None
        self._at: Place = ("0.0.0.0", 0)
        self._peer: Place | None = None
        self._coming: deque[Coming] | None = None
        self._patience: float | None = None
        if self._world is not None:
            super().setblocking(False)
            _open.setdefault(self._world.node, weakref.WeakSet()).add(self)

    def settimeout(self, value: float | None) -> None:
        """Set the timeout; only 0 matters, as waiting takes no virtual time."""
        if self._world is None:
            super().settimeout(value)
        self._patience = value

    def setblocking(self, flag: bool) -> None:
        """Set whether calls block."""
        self.settimeout(None if flag else 0.0)

    def setsockopt(self, *given: Any) -> None:
        """Does nothing: the simulated network has no options."""
        if self._world is None:
            super().setsockopt(*given)

    def bind(self, address: Any) -> None:
        """Bind to an address."""
        if self._world is None:
            super().bind(address)
            return
        name, port = address[:2]
        if name not in local_names(self._world) and name not in ANYWHERE:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        node = self._world.node
        if not port:
            port = next(at for at in range(FIRST_PORT, 1 << 16) if (node, at) not in _listening)
        self._at = (name or "0.0.0.0", int(port))

    def listen(self, backlog: int = 0) -> None:
        """Listen for connections."""
        if self._world is None:
            super().listen(backlog)
            return
        if not self._at[1]:
            self.bind(self._at)
        key = self._world.node, self._at[1]
        if self._coming is None and key in _listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._coming = _listening.setdefault(key, deque())

    def accept(self) -> tuple[socket.socket, Any]:
        """Wait for the next connection."""
        if self._world is None:
            return super().accept()
        coming = self._coming
        if coming is None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._wait(f"a connection to port {self._at[1]}", lambda: bool(coming))
        taken, whence = coming.popleft()
        made = NodeSocket(self.family, self.type, self.proto, fileno=taken.detach())
        made._at, made._peer = self._at, whence
        return made, whence

    def connect(self, address: Any) -> None:
        """Connect to a listener, waiting for one; errors: if there never is one."""
        if self._world is None:
            super().connect(address)
            return
        name, port = str(address[0]), int(address[1])
        world = self._world
        what = f"somebody to listen at {name}, port {port}"
        world.wait(what, lambda: _found(world, name, port) is not None, may_fail=True)
        coming = _found(world, name, port)
        if coming is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        mine, other = socket.socketpair()
        with mine:
            os.dup2(mine.fileno(), self.fileno())
        super().setblocking(False)
        own = next(gid.raw for gid in world.gids() if gid.slot == 1)
        self._at, self._peer = (".".join(map(str, own[12:])), FIRST_PORT), (name, port)
        coming.append((other, self._at))

    def connect_ex(self, address: Any) -> int:
        """Connect, and return the errno of an error."""
        try:
            self.connect(address)
        except OSError as wrong:
            return wrong.errno or errno.EINVAL
        return 0

    def getsockname(self) -> Any:
        """The local address."""
        return super().getsockname() if self._world is None else self._at

    def getpeername(self) -> Any:
        """The peer's address."""
        if self._world is None:
            return super().getpeername()
        if self._peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer

    def recv(self, *given: Any) -> bytes:
        """Wait for bytes; none at the end of the stream."""
        self._until(select.POLLIN)
        return super().recv(*given)

    def recv_into(self, *given: Any, **named: Any) -> int:
        """Wait for bytes and store them into a buffer."""
        self._until(select.POLLIN)
        return super().recv_into(*given, **named)

    def send(self, *given: Any) -> int:
        """Send some of the bytes; how many."""
        self._until(select.POLLOUT)
        return super().send(*given)

    def sendall(self, data: Any, *given: Any) -> None:
        """Send all of the bytes."""
        if self._world is None:
            super().sendall(data, *given)
            return
        left = memoryview(data).cast("B")
        while left:
            left = left[self.send(left, *given) :]

    def _until(self, what: int) -> None:
        if self._world is None:
            return
        poll = select.poll()
        poll.register(self.fileno(), what)
        side = "bytes from" if what == select.POLLIN else "room for bytes to"
        self._wait(f"{side} {self._told_peer()}", lambda: bool(poll.poll(0)))

    def _told_peer(self) -> str:
        return "a socket" if self._peer is None else f"{self._peer[0]}, port {self._peer[1]}"

    def _wait(self, what: str, has_come: Callable[[], bool]) -> None:
        if self._patience == 0 and not has_come():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        assert self._world is not None
        self._world.wait(what, has_come)

    def close(self) -> None:
        """Close the socket; the peer can still read what was sent."""
        if self._world is not None and self._coming is not None:
            _listening.pop((self._world.node, self._at[1]), None)
            for taken, _ in self._coming:
                taken.close()
        self._coming = None
        super().close()


def _found(world: World, name: str, port: int) -> deque[Coming] | None:
    """The backlog of the listener at an address, on this node before other nodes of that name."""
    for each in sorted(world.neighbours, key=lambda one: one is not world):
        if name in local_names(each) and (each.node, port) in _listening:
            return _listening[each.node, port]
    return None


def close_sockets() -> None:
    """Close the sockets that the ending program has left open, as the system does."""
    for each in [*_open.pop(here().node, ())]:
        each.close()


@contextlib.contextmanager
def sockets_emulated() -> Iterator[None]:
    """Within the block, sockets that programs create are of their simulated nodes."""
    socket.socket = NodeSocket  # type: ignore[misc]
    try:
        yield
    finally:
        socket.socket = _SOCKET  # type: ignore[misc]
        for each in [one for sockets in _open.values() for one in sockets]:
            each.close()
        _listening.clear()
        _open.clear()
