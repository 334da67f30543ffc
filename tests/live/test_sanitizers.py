"""The C of live programs under the sanitizers of addresses and of undefined behaviour."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from live_clients import free_port, needs

from nicscope.live import build

FLAGS = "-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
FOUND = 99  # the exit status of what they stop
FEW = 12
SAID = "ERROR: AddressSanitizer", "runtime error"
PROGRAMS = [  # library and rings; events; datagrams; shared queues; extended calls
    *(f"ibv_rc_pingpong -g 1 -n {FEW}", f"ibv_rc_pingpong -g 1 -e -n {FEW}"),
    *(f"ibv_ud_pingpong -g 1 -s 1024 -n {FEW}", f"ibv_srq_pingpong -g 1 -q 3 -n {FEW}"),
    *(f"ibv_xsrq_pingpong -g 1 -n {FEW}", f"ibv_rc_pingpong -g 1 -N -n {FEW}"),
    *(f"ib_write_bw -s 9000 -n {FEW}", f"ib_atomic_lat -n {FEW}"),
]
MANAGED = [  # connections
    ("rping -s -C 5", "rping -c -a 127.0.0.1 -C 5 -V"),  # ports are the machine's own
    ("ucmatose", "ucmatose -s 127.0.0.1"),
    ("udaddy", "udaddy -s 127.0.0.1"),
    ("rstream -T b -C 5 -I 2 -S 40000", "rstream -s 127.0.0.1 -T b -C 5 -I 2 -S 40000"),
    ("riostream -T a -C 5 -I 2", "riostream -s 127.0.0.1 -T a -C 5 -I 2"),
]

pytestmark = pytest.mark.long


def runtime(name):
    """The path of a sanitizer's library, or nothing."""
    words = [build.compiler(), f"-print-file-name={name}.so"]
    found = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return found if Path(found).is_absolute() else ""


@pytest.fixture
def sanitized(execute, monkeypatch):
    """As ``execute``, all of its C with sanitizers, which programs and machine load first."""
    try:
        runtimes = [runtime("libasan"), runtime("libubsan")]
    except build.BuildError:
        runtimes = [""]
    if not all(runtimes):
        pytest.skip("needs a package: libasan and libubsan, of gcc")
    monkeypatch.setenv(build.MORE_FLAGS, FLAGS)
    folder = build.built()
    for name in build.SOURCES:
        assert b"__asan_report_load8" in (folder / name).read_bytes()
    # Python keeps what it has until its end; programs do, too.
    monkeypatch.setenv("ASAN_OPTIONS", f"verify_asan_link_order=0:detect_leaks=0:exitcode={FOUND}")
    monkeypatch.setenv("LD_PRELOAD", ":".join(runtimes))
    return execute


def holds(ended):
    """Both programs have ended as they should, and nothing was found."""
    assert not any(each in ended.stderr for each in SAID), ended.stderr
    assert json.loads(ended.stdout)["statuses"] == [0, 0], ended.stderr


@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=needs(shlex.split(each)[0])) for each in PROGRAMS]
)
def test_nothing_is_found_in_the_library_and_its_rings(sanitized, command):
    command = f"{command} -p {free_port()}"
    holds(sanitized("--json", "--peer", f"{command} localhost", "--", *shlex.split(command)))


@pytest.mark.parametrize(
    ("first", "peer"),
    [pytest.param(*each, marks=needs(shlex.split(each[0])[0])) for each in MANAGED],
)
def test_nothing_is_found_in_connections(sanitized, first, peer):
    holds(sanitized("--json", "--peer", peer, "--", *shlex.split(first)))


@needs("ib_write_bw")
def test_nothing_is_found_in_the_recorder(sanitized, tmp_path):
    command = f"ib_send_bw -s 64 -n 100 -p {free_port()}"
    path = tmp_path / "recorded.parquet"
    ended = sanitized(
        *("--json", "--record", str(path), "--peer", f"{command} localhost", "--"),
        *shlex.split(command),
    )
    holds(ended)
    assert path.stat().st_size > 0


@needs("ib_write_bw")
def test_nothing_is_found_in_clocks_that_are_paced(sanitized):
    command = f"ib_send_lat -s 64 -n 20 -p {free_port()}"
    ended = sanitized("--json", "--paced", "--peer", f"{command} localhost", "--", *command.split())
    holds(ended)


def test_an_access_beyond_an_end_is_found(sanitized, tmp_path):
    # So that nothing is found because nothing looks.
    program = tmp_path / "beyond"
    source = tmp_path / "beyond.c"
    source.write_text(
        "#include <stdint.h>\n#include <stdlib.h>\n"
        "struct ibv_context; struct ibv_device;"
        "struct ibv_device **ibv_get_device_list(int *);"
        "struct ibv_context *ibv_open_device(struct ibv_device *);"
        "int ibv_query_gid(struct ibv_context *, uint8_t, int, void *);"
        "int main(void) { return ibv_query_gid(ibv_open_device(*ibv_get_device_list(0)), 1, 0,"
        " malloc(8)); }"
    )
    library = str(build.built() / build.VERBS)
    words = [build.compiler(), str(source), "-o", str(program), library, runtime("libasan")]
    subprocess.run([*words, runtime("libubsan")], check=True)
    ended = sanitized("--json", "--", str(program))

    assert "ERROR: AddressSanitizer: heap-buffer-overflow" in ended.stderr
    assert ended.returncode == FOUND
