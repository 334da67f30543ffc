"""Kills compiled programs and their machine at random moments: ``chaos.py SEED ROUNDS``.

A machine serves pairs of programs.  In each round some run at a time, and one end of each is
killed, told to end or stopped for a while, or the machine is.  ``chaos`` returns what went wrong:
a program that does not end though a card would have it end, that ends by a signal of nobody, whose
successors are not served, a traceback, or anything that stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from live_clients import free_port  # noqa: E402

PATIENCE_S = 90  # within which whoever has to end does
GRACE_S = 2  # in which whoever may go on waiting, as with a card, is watched
LONG = "-D 100"
LISTENS, ESTABLISHED = "0A", "01"


class Pair(NamedTuple):
    """Two commands, and which of them ends for sure once the other has been killed.

    Who has nothing under way waits for its peer for ever, with a card too.
    """

    server: str
    client: str
    server_ends: bool
    client_ends: bool


def _pingpong(name: str, more: str = "") -> Pair:
    command = f"{name} -g 1 -n 100000000 {more} -p PORT"
    return Pair(command, f"{command} localhost", False, False)


def _perftest(name: str, more: str = "", server_ends: bool = False, ends: bool = True) -> Pair:
    # With events there is no duration.
    command = f"{name} {'-n 100000000' if '-e' in more.split() else LONG} {more} -p PORT"
    return Pair(command, f"{command} localhost", server_ends, ends)


PAIRS = (
    _pingpong("ibv_rc_pingpong"), _pingpong("ibv_rc_pingpong", "-e"), _pingpong("ibv_uc_pingpong"),
    _pingpong("ibv_ud_pingpong", "-s 1024"), _pingpong("ibv_srq_pingpong", "-q 3"),
    _pingpong("ibv_xsrq_pingpong"),
    _perftest("ib_send_bw", "-s 64"), _perftest("ib_send_bw", "-s 9000 -e"),
    _perftest("ib_send_lat", "", ends=False), _perftest("ib_write_lat", "", ends=False),
    _perftest("ib_write_bw", "-s 100000", server_ends=True),
    _perftest("ib_read_bw", "-s 9000", server_ends=True),
    _perftest("ib_atomic_bw", "", server_ends=True),
    _perftest("ib_write_bw", "-s 64 -q 4", server_ends=True),
    Pair("rping -s -p PORT", "rping -c -a 127.0.0.1 -p PORT", True, True),
    Pair("ucmatose -C 100000 -p PORT", "ucmatose -C 100000 -s 127.0.0.1 -p PORT", False, False),
    Pair("udaddy -C 100000", "udaddy -C 100000 -s 127.0.0.1", False, False),
    _perftest("ib_send_bw", "-R -s 64", ends=False),
)  # fmt: skip
CHECKED = "ibv_rc_pingpong -g 1 -c -n 20 -p PORT"
BY_US = {-signal.SIGKILL, -signal.SIGTERM}


class Begun:
    """A program under way, what it says kept in a file."""

    port = 0  # of a server

    def __init__(self, command: str, environment: dict[str, str], said: Path) -> None:
        self.command, self.said = command, said
        with said.open("wb") as file:
            self.process = subprocess.Popen(
                shlex.split(command), env=environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT,
            )  # fmt: skip

    def signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def ends(self, patience_s: float) -> bool:
        """Whether it ends within that time."""
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def has_peer(self) -> bool:
        """Whether this server has been connected: by TCP, or as it has begun a third thread."""
        threads = _entries(f"/proc/{self.process.pid}/task")
        return ESTABLISHED in _states_of(self.port) or threads > 2

    def text(self) -> str:
        """What it has said."""
        return self.said.read_text(errors="replace")

    def last_words(self) -> str:
        """The end of what it has said."""
        return self.text()[-1500:]


class Machine:
    """A machine of its own, that programs of ours join."""

    def __init__(self, folder: Path, options: str = "") -> None:
        self.run = folder / "run"
        self.run.mkdir(mode=0o700, exist_ok=True)
        self._said = folder / "environment"
        self._options = options
        mine = {**os.environ, "XDG_RUNTIME_DIR": str(self.run), "PYTHONPATH": _source()}
        words = f"{sys.executable} -m nicscope verbs exec --json {options} --"
        # It tells of its environment, which others use to join, and goes on to hold the machine.
        told = shlex.quote(f"env -0 > {self._said}.part; mv {self._said}.part {self._said}; cat")
        self._said.unlink(missing_ok=True)
        with (folder / "report").open("wb") as report, (folder / "errors").open("wb") as errors:
            self.begun = subprocess.Popen(
                [*shlex.split(words), *shlex.split(f"sh -c {told}")],
                env=mine,
                stdin=subprocess.PIPE,
                stdout=report,
                stderr=errors,
            )
        self.folder = folder
        until = time.monotonic() + PATIENCE_S
        while not self._said.exists() or not self.socket.exists():
            assert time.monotonic() < until, (folder / "errors").read_text()
            time.sleep(0.02)
        pairs = (each.partition("=") for each in self._said.read_text().split("\0") if each)
        self.environment = {name: value for name, _, value in pairs}

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.run / "nicscope" / "live" / "machine"

    def is_there(self) -> bool:
        """Whether it lives."""
        return self.begun.poll() is None

    def descriptors(self) -> int:
        """How many descriptors it has open."""
        return _entries(f"/proc/{self.begun.pid}/fd")

    def kill(self, number: int) -> None:
        """Have it end by a signal."""
        self.begun.send_signal(number)
        self.begun.wait(PATIENCE_S)
        self.begun.stdin.close()  # type: ignore[union-attr]

    def end(self) -> list[str]:
        """Have it end as it does by itself; what was wrong."""
        self.begun.stdin.close()  # type: ignore[union-attr]
        try:
            status = self.begun.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.begun.kill()
            self.begun.wait()
            return ["the machine does not end though all programs have"]
        errors = (self.folder / "errors").read_text()
        found = ["the machine: " + errors] if "Traceback" in errors or "Error" in errors else []
        if status:
            found.append(f"the machine ended with {status}: {errors}")
        else:
            json.loads((self.folder / "report").read_text())
        return found + self.left()

    def left(self) -> list[str]:
        """What stays in its folder and should not."""
        here = self.run / "nicscope" / "live"
        return [f"{each} is left" for each in here.iterdir() if each.name in ("machine", "pace")]


def _source() -> str:
    import nicscope

    return str(Path(nicscope.__file__).parents[1])


def _shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


def _states_of(port: int) -> set[str]:
    """States of the TCP sockets at a port, as the kernel writes them."""
    lines = (line.split() for name in ("tcp", "tcp6") for line in _lines(f"/proc/net/{name}"))
    return {words[3] for words in lines if int(words[1].rpartition(":")[2], 16) == port}


def _entries(folder: str) -> int:
    try:
        return sum(1 for _ in Path(folder).iterdir())
    except OSError:
        return 0


def _processes_of(folder: Path) -> list[str]:
    """Processes that were begun to join the machine of a folder, and are there still."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (each / "environ").read_bytes():
                found.append(f"{each.name}: {(each / 'comm').read_text()}")
    return found


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()[1:]


class Chaos:
    """Rounds of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.drawn, self.folder = random.Random(seed), folder
        self.wrong: list[str] = []
        self.count = 0
        self.pairs = [each for each in PAIRS if shutil.which(shlex.split(each.server)[0])]
        self.before = _shared_memory()
        self.machine = Machine(folder)
        self.serves_next("at first")
        self.descriptors = self.machine.descriptors()

    def begin(self, command: str) -> Begun:
        """Begin a program on the machine."""
        self.count += 1
        said = self.folder / f"said-{self.count}"
        return Begun(command, self.machine.environment, said)

    def pair(self, which: Pair) -> tuple[Begun, Begun]:
        """Begin both ends, the client as the server listens."""
        port = free_port()
        server = self.begin(which.server.replace("PORT", str(port)))
        server.port = port
        until = time.monotonic() + PATIENCE_S
        by_tcp = which.server.startswith(("ib_", "ibv_")) and "-R" not in which.server
        while by_tcp and LISTENS not in _states_of(port) and time.monotonic() < until:
            if server.ends(0.02):
                break
        if not by_tcp:
            time.sleep(2)
        return server, self.begin(which.client.replace("PORT", str(port)))

    def note(self, what: str, *of: Begun) -> None:
        """Something is wrong."""
        self.wrong.append("\n".join([what, *(f"{one.command}: {one.last_words()}" for one in of)]))

    def ended(self, one: Begun, is_ours: bool) -> None:
        """Look at how a program has ended, by us or by itself."""
        status = one.process.returncode
        if status < 0 and not (is_ours and status in BY_US):
            self.note(f"ended by signal {-status}", one)
        if "Traceback" in one.text():
            self.note("traceback", one)

    def serves_next(self, when: str) -> None:
        """The machine serves another pair, and has given back all descriptors."""
        pair = self.pair(Pair(CHECKED, f"{CHECKED} localhost", True, True))
        for one in pair:
            if not one.ends(PATIENCE_S) or one.process.returncode:
                self.note(f"the pair after: {when}", one)
                one.kill()

    def hostile(self) -> Begun:
        """A client that keeps to nothing."""
        words = f"{sys.executable} {HERE / 'hostile_load.py'} hostile {self.machine.socket}"
        environment = {**os.environ, "PYTHONPATH": _source()}
        self.count += 1
        said = self.folder / f"said-{self.count}"
        return Begun(f"{words} {self.drawn.randrange(1000)} 100000 100000", environment, said)

    def round(self) -> str:
        """Some pairs, of each of which something happens to one end or to both; what it was."""
        chosen = self.drawn.sample(self.pairs, self.drawn.choice((1, 1, 2)))
        intruder = self.hostile() if self.drawn.random() < 0.3 else None
        running = [(which, *self.pair(which)) for which in chosen]
        time.sleep(self.drawn.random() * 1.5)
        when = ", ".join(which.server for which in chosen)
        for which, *ends in running:
            how = self.drawn.choice(("kill", "kill", "terminate", "stop", "stop and kill"))
            place = self.drawn.randrange(2)
            self.befall(how, which, place, ends)
            when += f"; {how} {place}"
        if intruder is not None:
            intruder.kill()
            if "Traceback" in intruder.text():
                self.note("the hostile client", intruder)
        if not self.machine.is_there():
            self.note(f"the machine has gone after {when}")
            raise SystemError
        self.serves_next(when)
        until = time.monotonic() + 10
        while self.machine.descriptors() > self.descriptors and time.monotonic() < until:
            time.sleep(0.05)
        if self.machine.descriptors() > self.descriptors:
            self.note(f"descriptors are left after {when}")
            self.descriptors = self.machine.descriptors()
        return when

    def befall(self, how: str, which: Pair, place: int, ends: list[Begun]) -> None:
        """Something happens to one end; the other ends if it would with a card."""
        one, other = ends[place], ends[1 - place]
        has_to = ends[0].has_peer() and (which.client_ends if place == 0 else which.server_ends)
        if "stop" in how:
            one.signal(signal.SIGSTOP)
            time.sleep(self.drawn.random())
        if how == "stop":
            one.signal(signal.SIGCONT)
            time.sleep(self.drawn.random())
            one.signal(signal.SIGTERM)
        else:
            one.signal(signal.SIGTERM if how == "terminate" else signal.SIGKILL)
        if not one.ends(10):
            self.note(f"does not end by a signal ({how})", one)
            one.kill()
        ends_itself = other.ends(PATIENCE_S if has_to else GRACE_S)
        if not ends_itself:
            other.kill()
            if has_to:
                self.note(f"does not end after its peer ({how})", other)
        self.ended(one, True)
        self.ended(other, not ends_itself)

    def machine_round(self) -> str:
        """The machine itself is killed or told to end: programs end, and a next one serves."""
        which = self.drawn.choice([each for each in self.pairs if "write_lat" not in each.server])
        number = self.drawn.choice((signal.SIGKILL, signal.SIGTERM))
        ends = self.pair(which)
        time.sleep(self.drawn.random() * 1.5)
        self.machine.kill(number)
        for one in ends:
            has_peer = ends[0].has_peer()  # else it waits for one by TCP, of which no card knows
            if not one.ends(PATIENCE_S if has_peer else GRACE_S):
                if has_peer:
                    self.note(f"does not end after its machine ({number})", one)
                one.kill()
            self.ended(one, True)
        if number == signal.SIGTERM:
            self.wrong += self.machine.left()
        errors = (self.folder / "errors").read_text()
        if "Traceback" in errors:
            self.note(f"the machine ended by {number}: {errors}")
        self.machine = Machine(self.folder)
        self.serves_next("another machine")
        self.descriptors = self.machine.descriptors()
        return f"{which.server}; the machine, by {number.name}"

    def run(self, rounds: int, seconds: float) -> list[str]:
        """Some rounds, none begun after so many seconds; what went wrong."""
        until = time.monotonic() + seconds
        try:
            for number in range(rounds):
                if time.monotonic() > until:
                    break
                begun, before = time.monotonic(), len(self.wrong)
                what = self.machine_round() if number % 5 == 4 else self.round()
                wrong = "WRONG" if len(self.wrong) > before else "right"
                print(f"{wrong} {time.monotonic() - begun:.1f} s: {what}", flush=True)
        except SystemError:
            return self.wrong
        self.wrong += self.machine.end()
        until = time.monotonic() + GRACE_S
        while _processes_of(self.machine.run) and time.monotonic() < until:
            time.sleep(0.05)
        self.wrong += [f"still there: {each}" for each in _processes_of(self.machine.run)]
        if _shared_memory() - self.before:
            self.wrong.append(f"left in /dev/shm: {_shared_memory() - self.before}")
        return self.wrong


def chaos(seed: int, rounds: int, folder: Path, seconds: float = 1e9) -> list[str]:
    """What went wrong in some rounds of a seed, begun within so many seconds."""
    return Chaos(seed, folder).run(rounds, seconds)


if __name__ == "__main__":
    made = Path(tempfile.mkdtemp())
    found = chaos(int(sys.argv[1]), int(sys.argv[2]), made)
    print("\n---\n".join(found) or "nothing went wrong")
    shutil.rmtree(made)
    sys.exit(bool(found))
