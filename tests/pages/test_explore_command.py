"""``nicscope explore``: loopback and GET only, one line for each mistake, ended by Ctrl-C."""

import contextlib
import http.client
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from exploring_samples import small_trace
from pressing import heeding
from refusals import refused_command

pytest.importorskip("starlette", reason="the extra explore is not installed")
pytest.importorskip("uvicorn", reason="the extra explore is not installed")


@contextlib.contextmanager
def exploring(trace):
    """Yield (process, port) of the command over ``trace``."""
    command = [sys.executable, "-m", "nicscope", "explore", str(trace), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeding
    )
    line = process.stdout.readline()
    match = re.search(r"at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)$", line)
    assert match, line + process.stderr.read()
    yield process, int(match[1])
    if process.returncode is None:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """(process, port) of the command over a small trace."""
    with exploring(small_trace(tmp_path_factory.mktemp("explored"))) as found:
        yield found


def asked(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_only_loopback_is_listened_to(running):
    process, port = running
    sockets = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process.pid}/net/{name}").read_text().splitlines()
    ]
    ours = f":{port:04X}"
    listening = {each[1] for each in sockets if each[3] == "0A" and each[1].endswith(ours)}

    assert listening == {f"0100007F:{port:04X}"}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.1", ""])
def test_a_foreign_host_is_refused_whatever_is_asked(running, host):
    for path in ("/", "/answer?design=utlb", "/design.toml"):
        assert asked(running[1], path, Host=host)[0] == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_is_answered(running, method):
    for path in ("/", "/about", "/answer", "/design.toml"):
        assert asked(running[1], path, method)[0] == 405


@pytest.mark.parametrize("path", ["/", "/about", "/answer", "/design.toml", "/explorer.js"])
def test_other_origins_get_no_leave_and_nothing_comes_from_elsewhere(running, path):
    status, headers, _ = asked(running[1], path, Origin="https://evil.example")

    assert status == 200
    assert not [name for name in headers if name.startswith("access-control")]
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "http" not in headers["content-security-policy"]


def test_no_other_file_is_served_and_a_wrong_query_is_an_answer_of_its_own(running):
    for path in ("/../pyproject.toml", "/explorer.py", "/answer/x", "/%2e%2e/x"):
        assert asked(running[1], path)[0] == 404
    status, _, body = asked(running[1], "/answer?design=utlb&ways=3")
    assert status == 400
    assert "power of two" in json.loads(body)["error"]


def test_a_taken_port_is_told_in_one_line(running, tmp_path, capsys):
    words = ["explore", str(small_trace(tmp_path)), "--port", str(running[1]), "--no-browser"]
    refused_command(capsys, words, f"--port {running[1]}", "in use", "0 for any")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_library_is_told_with_how_to_install_it(missing, monkeypatch, capsys):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else real(name)
    )

    refused_command(
        capsys,
        ["explore", "bundled:redis_server"],
        "Starlette",
        "uvicorn",
        "pip install 'nicscope[",
    )


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["nothing.parquet"], "nothing.parquet"),
        (["bundled:reddis"], "'reddis'"),
        (["bundled:redis_server", "--port", "70000"], "--port must be from 0 to 65535"),
        (["bundled:redis_server", "--design", "utbl"], "'utlb'"),
        (["bundled:redis_server", "--design", "nothing.toml"], "nothing.toml"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_served(arguments, fact, capsys):
    refused_command(capsys, ["explore", *arguments, "--no-browser"], fact)


@pytest.mark.parametrize(
    ("origin", "status"),
    [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)],
)
def test_a_page_of_another_origin_has_nothing_counted(running, origin, status):
    assert asked(running[1], "/answer?design=utlb", **{"Sec-Fetch-Site": origin})[0] == status


def test_a_file_may_be_called_by_any_bytes_and_ctrl_c_ends_it_in_one_line(tmp_path):
    trace = small_trace(tmp_path).rename(tmp_path / os.fsdecode(b"caf\xe9 'a'\n\x01.parquet"))
    with exploring(trace) as (process, port):
        told = json.loads(asked(port, "/about")[2])
        answer = json.loads(asked(port, "/answer?design=utlb")[2])
        status, _, file = asked(port, "/design.toml?design=utlb")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)

    assert told["trace"].endswith("/caf\\xe9 'a'\\n\\x01.parquet")
    assert told["trace"] in answer["command"]
    assert status == 200
    assert tomllib.loads(file.decode())["scheme"] == "utlb"
    [again] = [line for line in file.decode().splitlines() if line.startswith("# nicscope replay")]
    assert shlex.split(again)[3] == told["trace"]
    assert process.returncode == 130
    assert errors == "nicscope: interrupted; nothing half-written was left\n"
    assert list(tmp_path.iterdir()) == [trace]
