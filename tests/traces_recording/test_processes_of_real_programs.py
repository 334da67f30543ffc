"""Children, threads, signals and ends of real programs are recorded as they are."""

import pytest

from traces_recording.programs import run, run_and_agree


def test_children_are_followed_through_fork_and_exec(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out, into = bytearray(b"x" * 16), bytearray(64)
if len(sys.argv) > 2:
    a = socket.socket(fileno=int(sys.argv[2]))
    a.send(out), note("sendto", out, 16)
else:
    a.send(out), note("sendto", out, 16), finish()
    child = os.fork()
    if not child:
        b.recv_into(into), note("recvfrom", into, 16), finish()
        a.set_inheritable(True)
        arguments = sys.orig_argv + [str(a.fileno())]
        os.execv(sys.executable, arguments)
    assert os.waitpid(child, 0) == (child, 0)
    b.recv_into(into), note("recvfrom", into, 16)
""",
    )

    assert outcome.observed.processes == 2
    assert outcome.observed.programs == 2
    assert len({row[0] for row in outcome.rows}) == 2


@pytest.mark.parametrize("start", ["os.posix_spawn", "os.spawnve", "subprocess"])
def test_children_are_followed_however_they_start(tmp_path, start):
    outcome = run_and_agree(
        tmp_path,
        f"""
import subprocess
out = bytearray(b"x" * 16)
if len(sys.argv) > 2:
    a = socket.socket(fileno=int(sys.argv[2]))
else:
    a.set_inheritable(True)
    arguments = sys.orig_argv + [str(a.fileno())]
    if {start!r} == "os.posix_spawn":
        child = os.posix_spawn(sys.executable, arguments, os.environ)
        assert os.waitpid(child, 0) == (child, 0)
    elif {start!r} == "subprocess":
        subprocess.run(arguments, check=True, close_fds=False)
    else:
        assert os.spawnve(os.P_WAIT, sys.executable, arguments, os.environ) == 0
a.send(out), note("sendto", out, 16)
""",
    )

    assert len({row[0] for row in outcome.rows}) == 2


def test_a_thread_that_calls_exec_takes_the_number_of_its_process(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out = bytearray(b"x" * 16)
if len(sys.argv) > 2:
    a = socket.socket(fileno=int(sys.argv[2]))
    a.send(out), note("sendto", out, 16)
else:
    a.set_inheritable(True), b.set_inheritable(True)
    arguments = sys.orig_argv + [str(a.fileno())]
    a.send(out), note("sendto", out, 16), finish()
    execute = lambda: (time.sleep(0.2), os.execv(sys.executable, arguments))
    threading.Thread(target=execute).start()
    a.recv(100)  # for ever: this thread ends with the program
""",
    )

    assert len({row[0] for row in outcome.rows}) == 1
    assert outcome.table["tid"] == outcome.table["pid"]
    assert outcome.observed.unfinished == 1


def test_a_signal_handler_runs_while_a_receive_blocks(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out, into, seen = bytearray(b"x" * 24), bytearray(100), []
def handler(number, frame):
    seen.append(number)
    if len(seen) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)
        a.send(out), note("sendto", out, 24)
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
b.recv_into(into), note("recvfrom", into, 24)
assert len(seen) == 3
""",
    )

    assert outcome.observed.interrupted == 3


def test_a_stopped_program_stays_stopped_until_it_is_continued(tmp_path):
    outcome = run_and_agree(
        tmp_path,
        """
out, into = bytearray(b"x" * 24), bytearray(100)
go, give = os.pipe()
child = os.fork()
if not child:
    signal.raise_signal(signal.SIGSTOP)
    os.read(go, 1)  # only a child that has not ended can be seen to continue
    b.recv_into(into), note("recvfrom", into, 24), finish()
    os._exit(5)
_, status = os.waitpid(child, os.WUNTRACED)
assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGSTOP
a.send(out), note("sendto", out, 24), finish()
time.sleep(0.1)
assert open(f"/proc/{child}/stat").read().rsplit(")")[1].split()[0] in "tT"
os.kill(child, signal.SIGCONT)
_, status = os.waitpid(child, os.WCONTINUED)
assert os.WIFCONTINUED(status)
os.write(give, b"!")
_, status = os.waitpid(child, 0)
assert os.WEXITSTATUS(status) == 5
""",
    )

    assert outcome.observed.processes == 2


def test_what_a_killed_program_did_is_kept(tmp_path):
    outcome = run(
        tmp_path,
        """
out = bytearray(10)
for _ in range(5):
    a.send(out), note("sendto", out, 10)
finish()
os.kill(os.getpid(), signal.SIGKILL)
""",
    )

    assert outcome.status == 128 + 9
    assert outcome.rows == outcome.truth
    assert len(outcome.rows) == 5


def test_processes_that_outlive_the_program_are_recorded_to_their_end(tmp_path):
    outcome = run(
        tmp_path,
        """
out = bytearray(10)
if os.fork() == 0:
    os.setsid()
    time.sleep(0.3)
    a.send(out), note("sendto", out, 10), finish()
    os._exit(0)
os._exit(3)
""",
    )

    assert outcome.status == 3
    assert outcome.rows == outcome.truth
    assert len(outcome.rows) == 1
