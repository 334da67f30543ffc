"""Two machines of QEMU, of which one migrates to the other; each writes its memory to a file."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

MEMORY, MARKED_AT = 32 << 20, 4 << 20
PATIENCE_S = 120


class Guest:
    """A machine that does not run, and what it is told by QEMU's protocol."""

    def __init__(self, path: Path, *options: str) -> None:
        words = ["-M", "pc,accel=tcg", "-m", "32", "-S", "-display", "none", "-nodefaults", "-qmp"]
        served = f"unix:{path},server=on,wait=off"
        self.process = subprocess.Popen(["qemu-system-x86_64", *words, served, *options])
        until = time.monotonic() + PATIENCE_S
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.05)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile()
        self.ask("qmp_capabilities")

    def ask(self, name: str, **given: object) -> dict:
        """What it answers."""
        self.socket.sendall(json.dumps({"execute": name, "arguments": given}).encode())
        for line in self.lines:
            found = json.loads(line)
            if "return" in found:
                return found["return"]
            assert "error" not in found, found
        raise EOFError(name)


def main() -> None:
    """Migrate; whether the other end has it all is seen in the files."""
    folder = Path(sys.argv[1])
    marks = folder / "marks"
    marks.write_bytes(b"".join(b"nicscope" + bytes(4088) for _ in range(1000)))
    there = Guest(folder / "there", "-incoming", "rdma:0.0.0.0:7777")
    here = Guest(folder / "here", "-device", f"loader,file={marks},addr={MARKED_AT},force-raw=on")
    here.ask("migrate", uri="rdma:127.0.0.1:7777")
    until, status = time.monotonic() + PATIENCE_S, "active"
    while status not in ("completed", "failed") and time.monotonic() < until:
        time.sleep(0.1)
        status = here.ask("query-migrate").get("status", status)
    for guest, name in ((here, "before"), (there, "after")):
        guest.ask("pmemsave", val=0, size=MEMORY, filename=str(folder / name))
        guest.ask("quit")
        guest.process.wait(PATIENCE_S)
    sys.exit(status != "completed")


if __name__ == "__main__":
    main()
