"""No read of a file is taken for a socket's, whatever a strace log leaves out."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicscope.errors import TraceError
from nicscope.traces.files import open_bytes
from nicscope.traces.imported import Choices
from nicscope.traces.importers.strace import HOW_TO_KNOW, read_strace
from nicscope.traces.schema import TraceMetadata

# Calls that close a number are logged together or not at all: 'close' in a log shows all of them.
CLOSING = {"close", "close_range", "dup2", "dup3"}
OTHERS = {
    "socket", "socketpair", "accept4", "openat", "pipe2", "epoll_create1", "dup", "fcntl",
    "getsockname", "lseek", "recvfrom", "sendto",
}  # fmt: skip
ALWAYS = {"read", "write", "fork", "execve", "clone"}


class Machine:
    """Processes that make, copy and close descriptors at random; it knows what each is."""

    def __init__(self, seed, logged):
        self.random = random.Random(seed)
        self.logged = logged | ALWAYS
        self.tables = {100: {0: False, 1: False, 2: False}}  # inherited files
        self.closes = {}  # (table, number) on exec
        self.lines = []
        self.socket_rows = []  # addresses that a socket's bytes moved through
        self.unknowable = set()  # addresses on what was there before the log

    def say(self, pid, name, text):
        if name in self.logged:
            self.lines.append(f"{pid} 5.{len(self.lines):06} {text}\n")

    def free(self, table):
        return next(n for n in range(1000) if n not in table)

    def step(self):
        pid = self.random.choice(list(self.tables))
        table = self.tables[pid]
        moves = [self.make, self.copy, self.close, self.ask, self.new_task]
        (self.move if self.random.random() < 0.5 else self.random.choice(moves))(pid, table)

    def make(self, pid, table):
        name, is_socket = self.random.choice(
            [("socket", True), ("openat", False), ("pipe2", False), ("epoll_create1", False),
             ("socketpair", True), ("accept4", True), ("memfd_create", False)]
        )  # fmt: skip
        number = self.free(table)
        table[number] = is_socket
        if name in ("pipe2", "socketpair"):
            other = self.free(table)
            table[other] = is_socket
            before = "AF_UNIX, SOCK_STREAM, 0, " if is_socket else ""
            self.say(pid, name, f"{name}({before}[{number}, {other}]) = 0")
        elif name == "accept4":
            listening = [n for n, kind in table.items() if kind and n != number]
            if listening:
                from_ = self.random.choice(listening)
                self.say(pid, name, f"accept4({from_}, NULL, NULL, 0) = {number}")
            else:
                del table[number]
        else:
            self.say(pid, name, f"{name}(1, 2, 3) = {number}")

    def copy(self, pid, table):
        old = self.some(table)
        name = self.random.choice(["dup", "dup2", "dup3", "fcntl"])
        if name in ("dup2", "dup3"):
            new = self.random.randrange(8)
            if new == old:
                return
            more = f", {new}" + (", 0" if name == "dup3" else "")
        else:
            new = self.free(table)
            more = ", F_DUPFD, 0" if name == "fcntl" else ""
        table[new] = table[old]
        self.say(pid, name, f"{name}({old}{more}) = {new}")

    def close(self, pid, table):
        if self.random.random() < 0.1:
            first = self.random.randrange(3, 8)
            for number in [n for n in table if n >= first]:
                del table[number]
            self.say(pid, "close_range", f"close_range({first}, 4294967295, 0) = 0")
        elif len(table) > 1:
            number = self.some(table)
            del table[number]
            self.say(pid, "close", f"close({number}) = 0")

    def ask(self, pid, table):
        number = self.some(table)
        if table[number]:
            name = "getsockname"
            text = f"getsockname({number}, 0x1, [16]) = 0"
        else:
            name, text = "lseek", f"lseek({number}, 0, SEEK_CUR) = 0"
        if self.random.random() < 0.3 and not table[number]:
            name = "getsockname"
            text = (
                f"getsockname({number}, 0x1, [16]) = -1 ENOTSOCK (Socket operation on non-socket)"
            )
        self.say(pid, name, text)

    def new_task(self, pid, table):
        if self.random.random() < 0.3:
            self.say(pid, "execve", 'execve("/bin/x", ["x"], 0x1) = 0')
            self.tables[pid] = dict(table)  # a thread that starts a program leaves the others'
            return
        if len(self.tables) > 5:
            return
        child = max(self.tables) + 1
        if self.random.random() < 0.5:
            self.tables[child] = dict(table)
            self.say(pid, "fork", f"fork() = {child}")
        else:
            self.tables[child] = table
            self.say(pid, "clone", f"clone(child_stack=0x1, flags=CLONE_FILES|CLONE_VM) = {child}")

    def move(self, pid, table):
        number = self.some(table)
        address = 0x1000 * (len(self.lines) + 1)
        if table[number] and self.random.random() < 0.3:
            name = self.random.choice(["recvfrom", "sendto"])
            text = f"{name}(0x{number:x}, 0x{address:x}, 0x10, 0, 0, 0) = 0x10"
        else:
            name = self.random.choice(["read", "write"])
            text = f"{name}(0x{number:x}, 0x{address:x}, 0x10) = 0x10"
        if table[number] and name in self.logged:
            self.socket_rows.append(address)
        self.say(pid, name, text)

    def some(self, table):
        if not table:
            table[0] = False
        return self.random.choice(list(table))


def addresses(lines, tmp_path):
    path = tmp_path / "log.strace"
    path.write_text("".join(lines))
    metadata = TraceMetadata()
    try:
        with open_bytes(path) as source:
            batches = list(read_strace(source, Choices(), metadata))
    except TraceError as error:
        assert "no socket call" in str(error)  # noqa: PT017 - there may be none
        return [], metadata.observed
    return [a for columns, _ in batches for a in columns["address"].tolist()], metadata.observed


@given(seed=st.integers(0, 2**32), logged=st.sets(st.sampled_from(sorted(OTHERS))))
@settings(deadline=None)
def test_no_row_is_invented_whatever_the_log_leaves_out(tmp_path_factory, seed, logged):
    with_closing = seed % 2 == 0
    machine = Machine(seed, logged | (CLOSING if with_closing else set()))
    for _ in range(120):
        machine.step()

    found, _ = addresses(machine.lines, tmp_path_factory.mktemp("log"))

    assert set(found) <= set(machine.socket_rows)


@given(seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_every_row_is_found_where_the_log_leaves_out_nothing(tmp_path_factory, seed):
    machine = Machine(seed, OTHERS | CLOSING | {"memfd_create"})
    for _ in range(120):
        machine.step()
    machine.say(100, "close", "close(999) = -1 EBADF (Bad file descriptor)")

    found, observed = addresses(machine.lines, tmp_path_factory.mktemp("log"))

    assert found == machine.socket_rows
    assert observed.get("calls_on_unknown_descriptors", 0) <= len(machine.lines)


WITHOUT_CLOSE = """\
7 1.0 socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0, [3, 4]) = 0
7 1.1 write(0x3, 0x7fa640f51f70, 0x1) = 0x1
7 1.2 sendto(0x4, 0x7fa640799b80, 0xa, 0, 0, 0) = 0x1
""" + "".join(f"7 1.{number} read(0x3, 0x7fa640551e20, 0x64) = 0x64\n" for number in range(30, 80))


def test_reads_of_a_file_under_a_closed_sockets_number_are_left_out_and_counted(tmp_path):
    found, observed = addresses([WITHOUT_CLOSE], tmp_path)

    assert found == [0x7FA640799B80]
    assert observed["calls_on_unknown_descriptors"] == 51
    assert observed["of_unknown_descriptors"] == HOW_TO_KNOW


def test_a_log_that_shows_nothing_for_certain_says_what_would(tmp_path):
    path = tmp_path / "log.strace"
    path.write_text(
        "".join(line for line in WITHOUT_CLOSE.splitlines(True) if "sendto" not in line)
    )

    with open_bytes(path) as source, pytest.raises(TraceError) as caught:
        list(read_strace(source, Choices(), TraceMetadata()))

    assert "51 calls on unknown descriptors" in str(caught.value)
    assert "-e trace=%desc,%network,%process" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("connect(5, {sa_family=AF_INET}, 16) = -1 EINPROGRESS (Operation now in progress)", True),
        ("recvfrom(5, 0x1, 16, 0, NULL, NULL) = -1 EAGAIN (Try again)", True),
        ("connect(5, 0x1, 16) = -1 EFAULT (Bad address)", False),
        ("getsockname(5, 0x1, 0x2) = -1 ENOTSOCK (Socket operation on non-socket)", False),
        ("getsockname(5, 0x1, 0x2) = -1 EBADF (Bad file descriptor)", False),
        ("epoll_ctl(5<TCP:[1->2]>, EPOLL_CTL_ADD, 6, 0x1) = 0", True),
        ("fstat(5</etc/passwd>, {st_mode=S_IFREG}) = 0", False),
    ],
)
def test_a_call_that_fails_may_show_a_socket_as_well(tmp_path, line, is_known):
    lines = [f"1 1.0 {line}\n", "1 1.1 read(0x5, 0x1000, 0x10) = 0x10\n", "1 1.2 close(9) = 0\n"]

    found, _ = addresses(lines, tmp_path)

    assert found == [0x1000] * is_known


@pytest.mark.parametrize(
    "line",
    [
        'openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 5',
        "lseek(5, 0, SEEK_CUR) = 0",
        "pipe2([5, 6], 0) = 0",
        "getsockname(5, 0x1, 0x2) = -1 ENOTSOCK (Socket operation on non-socket)",
        "dup(77) = 5",
    ],
)
def test_a_number_that_was_closed_unseen_is_not_believed_backwards(tmp_path, line):
    """The log shows closing, but not this one: another thread may not be in it."""
    lines = [
        "1 1.0 socket(AF_INET, SOCK_STREAM, 0) = 5\n",
        "1 1.1 read(0x5, 0x1000, 0x10) = 0x10\n",
        "1 1.2 getsockname(5, 0x1, 0x2) = 0\n",
        "1 1.3 read(0x5, 0x2000, 0x10) = 0x10\n",
        f"1 1.4 {line}\n",
        "1 1.5 read(0x5, 0x3000, 0x10) = 0x10\n",
        "1 1.6 close(9) = 0\n",
    ]

    found, observed = addresses(lines, tmp_path)

    assert found == [0x1000]  # a socket before and after
    assert observed["calls_on_unknown_descriptors"] >= 1


def test_thousands_of_tasks_that_wait_for_each_other_are_taken_in(tmp_path):
    count = 5000
    lines = ["1 1.0 socket(AF_INET, SOCK_STREAM, 0) = 3\n", "1 1.1 vfork( <unfinished ...>\n"]
    lines += [f"{task} 1.2 fork() = {task + 1}\n" for task in range(2, count)]
    lines += [
        f"{count} 1.3 read(0x3, 0x1000, 0x1) = 0x1\n",
        "1 1.4 <... vfork resumed>) = 2\n",
        "1 1.5 close(3) = 0\n",
    ]

    assert addresses(lines, tmp_path)[0] == [0x1000]
