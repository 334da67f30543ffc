"""Programs that load the libraries themselves, and call them as C does."""

from __future__ import annotations

import errno
import json
import os
import struct
import sys
from pathlib import Path

import pytest
from live_clients import Queues

PROGRAM = str(Path(__file__).with_name("by_ctypes.py"))


def said(execute, what):
    """What the program has found; its last line."""
    ended = execute("--json", "--", sys.executable, PROGRAM, what)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stderr.strip().splitlines()[-1])


def test_a_program_that_unloads_the_libraries_and_loads_them_again_stays_one_node(execute):
    assert said(execute, "reloaded") == ["10.0.0.1"]


def test_who_may_hold_a_port_that_another_end_holds_is_as_on_linux(execute):
    assert said(execute, "ports") == {
        "beside who asks one of version 4": 0,
        "beside who asks one of version 6": errno.EADDRNOTAVAIL,
        "any address": 0,
        "again": errno.EADDRNOTAVAIL,
        "one address after any": errno.EADDRNOTAVAIL,
        "the other version too": errno.EADDRNOTAVAIL,
        "the other version alone": 0,
        "the other space": 0,
        "one address": 0,
        "the same address": errno.EADDRINUSE,
        "reused": 0,
        "reused again": 0,
        "reused and listens": errno.EADDRINUSE,
        "alone and listens": 0,
        "reused behind who listens": errno.EADDRINUSE,
    }


def test_programs_find_the_files_of_the_card_also_by_the_calls_of_an_old_c_library(execute):
    found = ("stat", "lstat", "__xstat", "__lxstat", "__fxstatat")
    assert said(execute, "files") == [name + size for name in found for size in ("", "64")]


ADDRESS_RESOLVED, REJECTED = 0, 8  # enum rdma_cm_event_type


def test_a_channel_tells_nothing_of_ends_that_are_gone_and_who_asked_them_is_refused(execute):
    assert said(execute, "dropped") == [["asks", ADDRESS_RESOLVED], ["asks", REJECTED]]


@pytest.mark.parametrize(("kind", "is_device"), [("CQ", 0), ("CQ", 1), ("QP", 1), ("SRQ", 1)])
def test_events_of_what_is_destroyed_do_not_wait_any_more(client, kind, is_device):
    queues = Queues(client)
    reader, writer = os.pipe2(os.O_NONBLOCK)
    error, channel, *_ = client.ask("CREATE_CHANNEL", is_device, descriptors=[writer])
    assert error == 0
    asked = {
        "CQ": ("CREATE_CQ", 4, 0 if is_device else channel, 77),
        "QP": ("CREATE_QP", queues.pd, 2, queues.cq, queues.cq, 0, 4, 4, 1, 1, 0, 0, 0, 77),
        "SRQ": ("CREATE_SRQ", queues.pd, 4, 1, 0, 0, 77),
    }[kind]
    error, made, *_ = client.ask(*asked)
    assert error == 0
    for cookie in (77, 78, 77):
        os.write(writer, struct.pack("QQ", cookie, 5))
    assert client.ask(f"DESTROY_{kind}", made)[0] == 0

    assert os.read(reader, 1000) == struct.pack("QQ", 78, 5)
    os.close(reader)
    os.close(writer)
