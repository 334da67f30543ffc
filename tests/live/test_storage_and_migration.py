"""DAPL's own tests, a storage target and its readers, and a machine that migrates."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from live_clients import free_port, needs

pytestmark = pytest.mark.long

PROVIDERS = """\
by_address u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "127.0.0.1 0" ""
by_socket u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "nicscope0 1" ""
"""


@pytest.fixture
def providers(tmp_path, monkeypatch):
    """DAPL finds what it runs over in this file."""
    (tmp_path / "dat.conf").write_text(PROVIDERS)
    monkeypatch.setenv("DAT_OVERRIDE", str(tmp_path / "dat.conf"))


@needs("dtest")
@pytest.mark.usefixtures("providers")
@pytest.mark.parametrize(
    ("provider", "options"),
    [
        *[("by_address", f"{each} -b 256 -B 20") for each in ("", "-c", "-p", "-u", "-w")],
        *[(each, "-D -b 5000 -B 50") for each in ("by_address", "by_socket")],
    ],
)
def test_dapl_checks_all_that_it_has_sent(execute, provider, options):
    command = f"dtest -P {provider} {options}"
    ended = execute("--json", "--peer", f"{command} -h 127.0.0.1", "--", *shlex.split(command))

    assert json.loads(ended.stdout)["statuses"] == [0, 0], ended.stderr
    assert ended.stderr.count("DAPL Test Complete. PASSED") == 2


@needs("dapltest")
@pytest.mark.usefixtures("providers")
def test_dapl_carries_out_transactions_of_all_kinds(execute):
    asked = "dapltest -s 127.0.0.1 -D by_address"
    kinds = "client SR 256 4 server SR 256 4 client RW 4096 2 server RR 4096 2"
    test = asked.replace("-s", "-T T -i 10 -t 1 -w 1 -s")
    peer = f"sh -c '{test} {kinds} && {asked.replace('-s', '-T Q -s')}'"
    ended = execute("--json", "--peer", peer, "--", "dapltest", "-T", "S", "-D", "by_address")

    assert json.loads(ended.stdout)["statuses"] == [0, 0], ended.stderr
    assert re.search(r"Total RDMA Write : +0\.[0-9]*[1-9]", ended.stderr), ended.stderr


READER, DISK = "iqn.2026-01.org.example:reader", "iqn.2026-01.org.example:disk"
TARGET = """
tgtd -f -C $CONTROL --iscsi portal=127.0.0.1:$PORT --iser port=3260,pool_sz_mb=64 &
daemon=$!
trap 'kill -9 $daemon' EXIT
ask="tgtadm -C $CONTROL --lld iser --tid 1 --mode"
until tgtadm -C $CONTROL --lld iser --mode target --op show; do sleep 0.2; done
$ask target --op new -T $DISK
$ask logicalunit --op new --lun 1 -b $IMAGE
$ask target --op bind -I ALL && $ask target --op bind -Q $READER
iscsi-readcapacity16 -i $READER iser://127.0.0.1:3260/$DISK/1
timeout 60 iscsi-perf -i $READER -r -t 1 -b 16 iser://127.0.0.1:3260/$DISK/1
"""


@needs("tgtd")
@needs("iscsi-perf")
def test_a_storage_target_serves_blocks_over_iser(execute, tmp_path, monkeypatch):
    image = tmp_path / "image"
    image.write_bytes(bytes(4 << 20))
    monkeypatch.setenv("TGT_IPC_SOCKET", str(tmp_path / "socket"))
    told = {"CONTROL": "7", "PORT": str(free_port()), "IMAGE": str(image)}
    for name, value in {**told, "READER": READER, "DISK": DISK}.items():
        monkeypatch.setenv(name, value)
    ended = execute("--json", "--", "sh", "-c", TARGET)

    found = json.loads(ended.stdout)
    assert "Total size:4194304" in ended.stderr
    assert "finished." in ended.stderr
    assert sum(run["messages_out"] for run in found["runs"]) > 20


@needs("qemu-system-x86_64")
def test_a_machine_migrates_with_all_its_memory(execute, tmp_path):
    migrating = Path(__file__).with_name("migrating.py")
    ended = execute("--json", "--", sys.executable, str(migrating), str(tmp_path))

    assert ended.returncode == 0, ended.stderr
    before, after = ((tmp_path / name).read_bytes() for name in ("before", "after"))
    assert before == after
    assert before.count(b"nicscope") == 1000
