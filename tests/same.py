"""Compares what a fixed set of commands answers with digests that are kept: ``make same``.

A change that only moves or shortens code leaves every digest as it is.  ``--record`` keeps the
present answers, for a change of results that is meant.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).with_suffix(".toml")
EXAMPLES = ("ports_over_ways", "via_rdma_write", "mini_many_buffers")
TRACE = "bundled:redis_server"
COMMANDS = (
    f"replay {TRACE} --design unet-mm-pca200 --design vmmc-interrupt --design utlb --json",
    f"replay {TRACE} --design utlb-process --design utlb-shared --design mini --json",
    f"replay {TRACE} --design rnic --json",
    f"curve {TRACE} --json",
    f"size {TRACE} --nic-memory 64KiB --json",
    "flow --policy adaptive --json",
    "flow --policy store-and-forward --logging --json",
    "latency --bytes 256 --json",
    "latency --mechanism dma --translation utlb --entries 64 --pages 64 --json",
    f"simulate {TRACE} --design utlb --requests 300 --json",
    f"simulate {TRACE} --design unet-mm-pca200 --requests 300 --json",
    *(f"simulate {ROOT}/examples/{name}.py" for name in EXAMPLES),
    f"verbs run {ROOT}/examples/verbs_pingpong.py",
    "verbs lat --json",
    "verbs bw --size 64,4096 --design utlb --json",
    f"rdma descriptors {TRACE} --json",
    f"rdma odp {TRACE} --json",
    f"rdma cache {TRACE} --json",
    f"rdma path {TRACE} --json",
    "rdma register --bytes 64GiB --json",
    "rdma plan --pool 1TiB --json",
    "rdma connections --json",
    "rdma explain --mr 24GiB --fast 9.24 --slow 6.00 --json",
    "apps run fft --json",
    "apps run radix --json",
    "apps collective allreduce --on all --nodes 4 --json",
    "reproduce unet_mm --json",
    "reproduce trapeze --json",
    "reproduce edt --json",
    "designs --json",
    "platforms --json",
)


def digest_of(command: str) -> str:
    """SHA-256 of what ``nicscope command`` prints, or how it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "nicscope", *shlex.split(command)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.decode(errors='replace').strip()[-200:]}"
    told = done.stdout.replace(str(ROOT).encode(), b".")
    told = re.sub(rb'"source": "[0-9a-f]{64}"', b"", told)  # of the code: it is to change
    return hashlib.sha256(told).hexdigest()


def main() -> int:
    """Run the commands, and compare or record; 1 if one answers otherwise."""
    parser = argparse.ArgumentParser(prog="make same", description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="keep the present answers")
    parser.add_argument("--only", default="", help="commands that contain this")
    options = parser.parse_args()
    chosen = [command for command in COMMANDS if options.only in command]
    kept = tomllib.loads(KEPT.read_text()) if KEPT.exists() else {}
    began, others = time.monotonic(), 0
    with ThreadPoolExecutor(2) as pool:
        for command, found in zip(chosen, pool.map(digest_of, chosen), strict=True):
            name = command.replace(f"{ROOT}/", "")
            if found.startswith("status"):
                print(f"failed   {name}\n         {found}")
                others += 1
            elif not options.record and kept.get(name) != found:
                print(f"differs  {name}")
                others += 1
            else:
                kept[name] = found
                print(f"{'recorded' if options.record else 'same    '} {name}", flush=True)
    if options.record:
        lines = [f'"{name}" = "{digest}"' for name, digest in sorted(kept.items())]
        KEPT.write_text("\n".join(lines) + "\n")
    print(f"{len(chosen) - others} of {len(chosen)} in {time.monotonic() - began:.0f} s")
    return int(others > 0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
