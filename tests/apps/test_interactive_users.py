"""People's programs and their servers: who receives where, and what is held against what."""

import contextlib
import hashlib
import json
import socket
import subprocess
import sys

import pytest

from nicscope.apps.interactive import session as scripts
from nicscope.apps.interactive.servers import PAGE, PostedPages, check, participants
from nicscope.apps.interactive.session import PARTS, Plan, set_out
from nicscope.errors import SimulationError
from refusals import refused

PLAN = Plan(users=4, seconds=1.0, seed=7, receive_pages=8)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The folder of a session that has been run, and that nobody recorded."""
    folder = tmp_path_factory.mktemp("session")
    set_out(folder, PLAN)
    module = "nicscope.apps.interactive.session"
    said = subprocess.run(
        [sys.executable, "-m", module, str(folder)], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.split() == ["1", "2", "3", "4"]
    return folder


@pytest.mark.requirement("UM-84")
def test_each_users_bytes_arrive_as_they_were_sent(session):
    users = {each.user: each for each in check(session) if each.user is not None}

    assert [users[user].kind for user in range(4)] == ["shell", "web", "mail", "shell"]
    typed = users[0].seen["exchanges"]
    assert [command for command, _ in typed] == scripts.typed(PLAN.seed, 0)
    shown = {command: said for command, said in typed if command.startswith("expr")}
    for command, said in shown.items():
        left, right = command.removeprefix("expr ").split(" \\* ")
        assert said == f"\n{int(left) * int(right)}\n"
    files = scripts.site(PLAN.seed)
    fetched = users[1].seen["fetched"]
    assert {name for name, _ in fetched} > {
        page.what for page in scripts.looked_at(PLAN.seed, 1, 1.0)
    }
    for name, digest in fetched:
        assert hashlib.sha256(files[name]).hexdigest() == digest
    letters = users[2].seen  # the only one who uses mail writes to itself
    assert [digest for _, digest in letters["sent"]] == letters["fetched"]


@contextlib.contextmanager
def part_of(user, session):
    """The file of what the user has seen, which is afterwards as it was."""
    (one,) = (each for each in participants(session) if each.user == user)
    part = session / PARTS / f"{one.pid}.json"
    before = part.read_text()
    yield part
    part.write_text(before)


def wrong_byte(seen):
    seen["transcripts"][0]["received"]["sha256"] = "0" * 64


def lost_byte(seen):
    seen["transcripts"][0]["sent"]["bytes"] += 1


def other_echo(seen):
    seen["exchanges"][0][0] += "x"


def other_output(seen):
    seen["exchanges"][1][1] += "x"


def other_file(seen):
    seen["fetched"][0][1] = "0" * 64


def lost_letter(seen):
    del seen["fetched"][-1]


def letter_twice(seen):
    seen["fetched"].append(seen["fetched"][-1])


@pytest.mark.parametrize(
    ("user", "spoil", "told"),
    [
        (0, wrong_byte, "ends of a connection have seen different bytes"),
        (1, lost_byte, "ends of a connection have seen different bytes"),
        (0, other_echo, "user00 typed"),
        (3, other_output, "user03 typed"),
        (1, other_file, "user01 got"),
        (2, lost_letter, "a letter to user02 was lost"),
        (2, letter_twice, "a letter to user02 was lost, or came otherwise"),
    ],
)
def test_whatever_did_not_arrive_is_told(user, spoil, told, session):
    with part_of(user, session) as part:
        seen = json.loads(part.read_text())
        spoil(seen)
        part.write_text(json.dumps(seen))

        with pytest.raises(SimulationError, match=told):
            check(session)


def test_a_user_who_did_not_come_to_an_end_is_told(session):
    with part_of(2, session) as part:
        part.unlink()

        with refused(SimulationError, "user02"):
            check(session)


def test_messages_are_received_at_most_a_page_at_a_time():
    pages = PostedPages(2)
    listener = socket.create_server(("127.0.0.1", 0))
    client = pages.connect(listener.getsockname()[1])
    server, _ = pages.accept(listener)
    sent = bytes(range(256)) * 64

    client.sendall(sent)
    got = b""
    while len(got) < len(sent):
        part = server.recv(len(sent))
        assert 0 < len(part) <= PAGE
        got += part

    assert got == sent
    client.close()
    assert server.recv(10) == b""
    ends = [each.to_json() for each in pages.transcripts]
    assert ends[0]["sent"] == ends[1]["received"]
    assert ends[0]["client"] == ends[1]["client"]
    server.close()
    listener.close()


def test_habits_come_from_the_seed_and_last_as_long_as_they_are_told():
    assert scripts.typed(3, 0) == scripts.typed(3, 0) != scripts.typed(4, 0)
    assert scripts.site(3) == scripts.site(3)
    pauses = [key.pause for line in scripts.keys(3, 0, 20.0) for key in line]
    assert sum(pauses) == pytest.approx(20)
    assert min(pauses) > 0
    for doings in (scripts.looked_at(3, 1, 5.0), scripts.written(3, 2, 6, 5.0)):
        assert sum(each.pause for each in doings) == pytest.approx(5)
    assert {each.what for each in scripts.written(3, 2, 6, 5.0)} <= {"user02", "user05"}
