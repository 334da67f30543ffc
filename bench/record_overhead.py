"""What recording costs a program, in microseconds per call: python bench/record_overhead.py.

The same little program runs plain and recorded: calls on a socket pair, which are stopped at
twice, and calls on a pipe, which are stopped at once to see that it is no socket.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS = 40_000
REPETITIONS = 3
KINDS = {
    "send, recv": "import socket; a, b = socket.socketpair(); put, get = a.send, b.recv_into",
    "sendmsg, recvmsg_into of 2 segments": (
        "import socket; a, b = socket.socketpair(); x, y = bytearray(32), bytearray(32);"
        "put = lambda data: a.sendmsg((data, data)); get = lambda into: b.recvmsg_into((x, y))"
    ),
    "write, read on a pipe": (
        "import os; r, w = os.pipe();"
        "put = lambda data: os.write(w, data); get = lambda into: os.read(r, 64)"
    ),
}
PROGRAM = """
import json, sys, time, socket
{kind}
# One row at least, whatever the kind.
one, other = socket.socketpair(); one.send(b'x'); other.recv(1)
data, into = b'x' * 32, bytearray(64)
start = time.perf_counter()
for _ in range({calls} // 2):
    put(data); get(into)
print(json.dumps((time.perf_counter() - start) / {calls} * 1e6))
"""


def microseconds_per_call(before: list[str], kind: str) -> float:
    program = PROGRAM.format(kind=kind, calls=CALLS)
    done = subprocess.run(
        [*before, sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return float(json.loads(done.stdout))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "trace.parquet")
        recorder = [sys.executable, "-m", "nicscope", "record", "--quiet", "-o", trace, "--"]
        for name, kind in KINDS.items():
            plain, recorded = (
                statistics.median(microseconds_per_call(before, kind) for _ in range(REPETITIONS))
                for before in ([], recorder)
            )
            print(f"{name}: {plain:.2f} us plain, {recorded - plain:.1f} us more when recorded")


if __name__ == "__main__":
    main()
