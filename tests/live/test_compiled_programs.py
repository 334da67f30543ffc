"""Unmodified compiled programs, two processes each, over the machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_clients import free_port, needs

FEW = "12"
RUNGS = [
    "ibv_rc_pingpong -g 1 -c",
    "ibv_rc_pingpong -g 0 -e",
    "ibv_rc_pingpong -g 1 -N",
    "ibv_uc_pingpong -g 1",
    "ibv_ud_pingpong -g 1 -s 1024",
    "ibv_srq_pingpong -g 1 -q 3",
    "ibv_xsrq_pingpong -g 1",
    "ib_send_bw -s 4096",
    "ib_send_lat -s 64",
    "ib_write_bw -s 9000",
    "ib_write_lat",
    "ib_read_bw -s 9000",
    "ib_read_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
    "ib_send_lat -c UD -s 64",
    "ib_write_bw -c UC",
    "ib_send_bw -e -s 64",
    "ib_send_bw -a",
    "ib_send_bw -c UC -b",
    "ib_send_bw -c XRC",
    "ib_send_lat -c XRC -s 64",
    "ib_write_bw -c XRC -q 2",
    "ib_send_bw --use-srq -q 4",
    "ib_send_bw -c UD -g -x 0 -s 1024",
    "ib_send_bw -l 4 -r 64",
    "ib_write_bw -b -q 4 --mr_per_qp -t 4 -Q 2",
    "ib_write_lat -I 64 -s 32 -H",
    "ib_write_bw -l 4 -m 1024 -F -x 0 --report_gbits --use_old_post_send",
    "ib_read_bw -b -q 2 -o 4",
    "ib_read_lat -e",
    "ib_atomic_bw -A CMP_AND_SWAP -o 8",
    "ib_atomic_lat -A FETCH_AND_ADD",
]


def shared_memory():
    """What lies in /dev/shm."""
    folder = Path("/dev/shm")
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


@needs("ibv_devinfo")
def test_devinfo_shows_an_active_port(execute):
    ended = execute("--", "ibv_devinfo")

    assert ended.returncode == 0
    assert ended.stdout.startswith("functional: ")
    assert "nicscope0" in ended.stdout
    assert "PORT_ACTIVE" in ended.stdout


@needs("ibv_devices")
def test_devices_lists_the_device_and_what_follows_json_is_one_object(execute):
    ended = execute("--json", "--", "ibv_devices")

    assert "nicscope0" in ended.stderr
    assert json.loads(ended.stdout)["mode"] == "functional"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=[needs(shlex.split(each)[0]), *[pytest.mark.long] * (number > 0)])
        for number, each in enumerate(RUNGS)
    ],
)
def test_two_processes_exchange_messages(execute, command):
    before = shared_memory()
    command = f"{command} -n {FEW} -p {free_port()}"
    ended = execute("--json", "--peer", f"{command} localhost", "--", *shlex.split(command))

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["statuses"] == [0, 0]
    assert sum(run["messages_out"] for run in found["runs"]) >= int(FEW)
    assert sum(run["lookups"] for run in found["runs"]) > 0
    assert shared_memory() == before


MANAGED = [
    ("rping -s -C 5", "rping -c -a 127.0.0.1 -C 5 -V"),
    ("ucmatose", "ucmatose -s 127.0.0.1"),
    ("udaddy", "udaddy -s 127.0.0.1"),
    ("rdma_server", "rdma_client -s 127.0.0.1"),
    ("ib_send_bw -R -s 64 -n 12 -p PORT", "ib_send_bw -R -s 64 -n 12 -p PORT 127.0.0.1"),
    ("rdma_xserver", "rdma_xclient -s 127.0.0.1"),
    ("qperf -lp PORT", "qperf 127.0.0.1 -lp PORT -cm 1 -t 1 rc_lat rc_rdma_write_lat quit"),
    ("mckey -m 239.1.1.1 -C 3", "mckey -m 239.1.1.1 -s -C 3"),
    ("rdma_xserver -c x", "rdma_xclient -c x -s 127.0.0.1"),
    (
        "qperf -lp PORT",
        "qperf 127.0.0.1 -lp PORT -cm 1 -t 1 rc_bi_bw rc_rdma_read_bw rc_rdma_write_poll_lat quit",
    ),
    ("rping -s -q -C 3 -S 1000", "rping -c -q -a 127.0.0.1 -C 3 -S 1000 -V"),
    ("ucmatose -c 4 -C 3 -m", "ucmatose -s 127.0.0.1 -c 4 -C 3 -m"),
    ("udaddy -c 2 -C 3", "udaddy -s 127.0.0.1 -c 2 -C 3"),
    *[
        (f"{each} -R -n 12 -p PORT", f"{each} -R -n 12 -p PORT 127.0.0.1")
        for each in ("ib_send_bw --use-srq", "ib_send_lat -c UD", "ib_write_bw -q 4", "ib_read_bw")
    ],
    *[
        (
            "fio --name=r --ioengine=rdma --port=7 --bs=4k --size=40k --rw=read --iodepth=16",
            "fio --name=w --ioengine=rdma --hostname=127.0.0.1 --port=7 --bs=4k --size=40k "
            f"--rw=write --verb={verb} --iodepth=4 --iodepth_batch_complete=1",
        )
        for verb in ("write", "read", "send")
    ],
]


@pytest.mark.long  # two processes, a machine and their timers: minutes where processors are busy
@pytest.mark.parametrize(
    ("first", "peer"),
    [pytest.param(*each, marks=needs(shlex.split(each[0])[0])) for each in MANAGED],
)
def test_ends_find_each_other_by_the_connection_manager(execute, first, peer):
    port = str(free_port())
    first, peer = (each.replace("PORT", port) for each in (first, peer))
    ended = execute("--json", "--peer", peer, "--", *shlex.split(first))

    assert json.loads(ended.stdout)["statuses"] == [0, 0], ended.stderr


UCX = "env UCX_TLS=rc,self UCX_NET_DEVICES=nicscope0:1"  # not the memory that processes share


@needs("ucx_info")
def test_ucx_finds_the_transports_of_the_device(execute):
    ended = execute("--", "ucx_info", "-d")

    assert "Device: nicscope0:1" in ended.stdout
    assert "Transport: rc_verbs" in ended.stdout
    assert "Transport: ud_verbs" in ended.stdout


@pytest.mark.long
@needs("ucx_perftest")
@pytest.mark.parametrize(
    ("transport", "kind", "size"),
    [
        ("rc", "tag_lat", 64),
        ("rc", "tag_bw", 100_000),
        ("rc", "ucp_put_lat", 8),
        ("rc", "ucp_get", 4096),
        ("rc", "ucp_fadd", 8),
        ("rc", "ucp_cswap", 8),
        ("rc", "stream_bw", 1000),
        ("rc", "ucp_am_bw", 1000),
        ("ud", "tag_lat", 64),
        ("ud", "tag_bw", 100_000),
    ],
)
def test_ucx_exchanges_messages(execute, transport, kind, size):
    command = f"{UCX} ucx_perftest -t {kind} -n 10 -w 2 -s {size} -p {free_port()}"
    command = command.replace("rc,", f"{transport},")
    ended = execute("--json", "--peer", f"{command} localhost", "--", *shlex.split(command))

    found = json.loads(ended.stdout)
    assert found["statuses"] == [0, 0], ended.stderr
    assert sum(run["messages_out"] for run in found["runs"]) > 10


@pytest.mark.long
@needs("mpirun")
@pytest.mark.parametrize(
    ("name", "count", "said"),
    [("pingpong", 2, "all bytes came back"), ("collectives", 4, "all is as it should be")],
)
def test_open_mpi_runs_over_ucx(execute, name, count, said):
    python = "/usr/bin/python3"
    asked = [python, "-c", "import mpi4py"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("needs a package: python3-mpi4py")
    running = f"mpirun --allow-run-as-root --oversubscribe -n {count} --mca pml ucx --mca osc ucx"
    program = Path(__file__).with_name(f"mpi_{name}.py")
    ended = execute(
        "--json", "--", *shlex.split(f"{UCX} {running} env -u PYTHONPATH {python} {program}")
    )

    assert ended.stderr.count(said) == count, ended.stderr
    found = json.loads(ended.stdout)
    assert found["statuses"] == [0]
    assert all(run["messages_out"] > 30 for run in found["runs"])


@pytest.mark.long
@needs("mpicc.mpich")
@needs("mpirun.mpich")
def test_mpich_runs_over_ucx(execute, tmp_path):
    program, source = tmp_path / "ring", Path(__file__).with_name("mpi_ring.c")
    subprocess.run(["mpicc.mpich", str(source), "-o", str(program)], check=True)
    running = f"{UCX} MPIR_CVAR_NOLOCAL=1 mpirun.mpich -n 3 {program}"
    ended = execute("--json", "--", *shlex.split(running))

    assert ended.stderr.count("sum 3, 0 wrong") == 3, ended.stderr
    assert all(run["messages_out"] > 30 for run in json.loads(ended.stdout)["runs"])


def own_address():
    """An address of this machine's that is not its loopback's: libfabric looks for one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # which sends nothing
        except OSError:
            return None
        return probe.getsockname()[0]


@pytest.mark.long
@needs("fi_pingpong")
@pytest.mark.parametrize("kind", ["-p verbs -e msg", "-p 'verbs;ofi_rxm' -e rdm"])
def test_libfabric_exchanges_messages_over_verbs(execute, kind):
    address, port = own_address(), free_port()
    if address is None:
        pytest.skip("needs a network interface with an address, which libfabric looks for")
    command = f"fi_pingpong {kind} -I 5"
    ended = execute(
        "--json", "--peer", f"{command} -P {port} {address}", "--",
        *shlex.split(f"{command} -B {port}"),
    )  # fmt: skip

    assert json.loads(ended.stdout)["statuses"] == [0, 0], ended.stderr
    assert len(re.findall(r"^1m +5 +=5 ", ended.stderr, re.MULTILINE)) == 2


def test_nobody_listens_and_who_asks_is_refused(execute):
    if shutil.which("rping") is None:
        pytest.skip("needs a package: rdmacm-utils, of rping")
    ended = execute("--", "rping", "-c", "-a", "127.0.0.1", "-C", "1")

    assert ended.returncode != 0
    assert "RDMA_CM_EVENT_REJECTED" in ended.stdout + ended.stderr


@pytest.mark.long
@needs("ibv_rc_pingpong")
def test_every_message_comes_once_over_a_network_that_loses_some(execute):
    command = f"ibv_rc_pingpong -g 1 -c -n 30 -p {free_port()}"
    ended = execute(
        *("--json", "--loss", "0.05", "--seed", "3"),
        *("--peer", f"{command} localhost", "--", *shlex.split(command)),
    )

    assert json.loads(ended.stdout)["statuses"] == [0, 0]


def children_of(pid):
    """The processes that a process has begun, oldest first."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = each.read_text().rpartition(")")[2].split()
            if int(words[1]) == pid:
                found.append(int(each.parent.name))
    return sorted(found)


@needs("ib_write_bw")
def test_the_peer_of_a_killed_process_hears_that_retries_are_used_up(execute, tmp_path):
    command = f"ib_write_bw -s 64 -D 300 -p {free_port()}"
    before = shared_memory()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(execute, "--peer", f"{command} localhost", "--", *command.split())
        programs = []
        while len(programs) < 2 and not running.done():
            time.sleep(0.2)
            here = children_of(os.getpid())
            programs = [
                each
                for one in here
                for each in children_of(one)
                if Path(f"/proc/{each}/comm").read_text().startswith("ib_write_bw")
            ]
        time.sleep(5)
        os.kill(programs[0], signal.SIGKILL)
        ended = running.result(300)

    assert ended.returncode != 0
    assert "Failed status 12" in ended.stdout + ended.stderr  # IBV_WC_RETRY_EXC_ERR
    assert shared_memory() == before
    assert list(tmp_path.rglob("machine")) == []


def test_without_a_compiler_one_line_says_what_to_install(execute, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    ended = execute("--", "anything")

    assert ended.returncode == 2
    assert "install one" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_what_is_no_program_is_said_in_one_line(execute):
    ended = execute("--", "/no/such/program")

    assert ended.returncode == 2
    assert ended.stderr.strip().splitlines()[-1].endswith("No such file or directory")
