"""The main program of a session's participant: a server, or one user's client.

``session`` starts it with its folder, and with ``serve KIND`` or ``use NUMBER PORT...``; what it
has seen is in ``parts/PID.json`` there when it ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from nicscope.apps.interactive import user_behaviour
from nicscope.apps.interactive.posted_pages import PostedPages
from nicscope.apps.interactive.session import HOMES, PARTS, SITE, read_plan

BACKLOG = 64  # connections that nobody has accepted yet


class Part:
    """A participant, its posted pages and what it will report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = read_plan(folder)
        self.pages = PostedPages(self.plan.receive_pages)

    def tell(self, role: str, kind: str, **seen: Any) -> None:
        """Write this participant's role and transcripts."""
        transcripts = [each.to_json() for each in self.pages.transcripts]
        told = {"pid": os.getpid(), "role": role, "kind": kind, "transcripts": transcripts, **seen}
        place = self.folder / PARTS / f"{os.getpid()}.json"
        beside = place.with_suffix(".part")
        beside.write_text(json.dumps(told))
        beside.rename(place)

    def serve(self, kind: str) -> None:
        """Serve until the process is terminated."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        listeners = [_listener() for _ in range(2 if kind == "mail" else 1)]
        print(",".join(str(each.getsockname()[1]) for each in listeners), flush=True)
        waiting: dict[str, list[str]] = {}
        try:
            if kind == "shell":
                from nicscope.apps.interactive.shell import serve as serve_shells

                homes = self.folder / HOMES
                serve_shells(listeners[0], self.pages, homes, lambda: self.tell("server", kind))
            elif kind == "web":
                from nicscope.apps.interactive.web import serve as serve_files

                serve_files(listeners[0], self.pages, self.folder / SITE)
            else:
                from nicscope.apps.interactive.mail import Mailboxes
                from nicscope.apps.interactive.mail import serve as serve_mail

                boxes = Mailboxes()
                try:
                    serve_mail(listeners[0], listeners[1], self.pages, boxes)
                finally:
                    waiting = boxes.to_json()
        finally:
            self.tell("server", kind, waiting=waiting)

    def use(self, user: int, ports: list[str]) -> None:
        """Act as this user."""
        plan = self.plan
        kind = user_behaviour.kind_of(user)
        time.sleep(user_behaviour.arrives_after(plan.seed, user, plan.seconds))
        seen: dict[str, Any]
        if kind == "shell":
            from nicscope.apps.interactive.shell import use as use_shell

            seen = use_shell(self.pages, int(ports[0]), plan.seed, user, plan.seconds)
        elif kind == "web":
            from nicscope.apps.interactive.web import use as read_pages

            seen = read_pages(self.pages, int(ports[1]), plan.seed, user, plan.seconds)
        else:
            from nicscope.apps.interactive.mail import use as write_letters

            incoming, fetching = map(int, ports[2].split(","))
            places = (incoming, fetching)
            seen = write_letters(self.pages, places, plan.seed, user, plan.users, plan.seconds)
        self.tell("user", kind, user=user, **seen)


def _listener() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.bind(("127.0.0.1", 0))
    made.listen(BACKLOG)
    return made


if __name__ == "__main__":
    part = Part(Path(sys.argv[1]))
    if sys.argv[2] == "serve":
        part.serve(sys.argv[3])
    else:
        part.use(int(sys.argv[3]), sys.argv[4:])
