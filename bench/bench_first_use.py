"""What a first use takes, with nothing compiled, and what a later one, of the same commands.

    python bench/bench_first_use.py [--only NAME]

Each command has a cache of its own: it is run on the empty one, then everything that it asked for
is compiled, and it is run again.  "CPU" is the time of the command's own process, "wall" includes
whatever else the machine does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PINGPONG = ("simulate", "examples/unet_pingpong.py")
REDIS = ("replay", "bundled:redis_server")


class Case(NamedTuple):
    """A command; the seconds that its first and a later use may take, if anything is asked."""

    name: str
    command: tuple[str, ...]
    first_s: float
    warm_s: float | None = None


CASES = (
    Case("simulate unet_pingpong.py", PINGPONG, 3, 0.7),
    Case("simulate vmmc_store_fetch.py", ("simulate", "examples/vmmc_store_fetch.py"), 3),
    Case("flow", ("flow", "--platform", "p6-natoma", "--policy", "adaptive"), 2),
    Case("latency --bytes 256", ("latency", "--bytes", "256"), 5),
    Case("latency", ("latency",), 5),
    Case("verbs lat", ("verbs", "lat"), 5),
    Case("replay, one design", (*REDIS, "--design", "utlb"), 5, 0.6),
    Case("replay, every design", REDIS, 12),
    Case("demo", ("demo", "--out", "{out}"), 12),
)


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    said: str


def run(command: tuple[str, ...], cache: Path, package: Path | None = None) -> Run:
    """One command of nicscope; CPU is its own, not that of the process that it leaves behind."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NICSCOPE_COMPILE": "background"}
    if package is not None:
        environment["PYTHONPATH"] = str(package)
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile("w+") as errors:
        began = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "nicscope", *(each.format(out=out) for each in command)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        said = errors.read()
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{said}")
    return Run(wall, used.ru_utime + used.ru_stime, said)


def measure(case: Case, cache: Path) -> None:
    first = run(case.command, cache)
    waited = run(("compile", *case.command), cache)
    warm = run(case.command, cache)
    size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / 1e6
    asked = verdict(first.wall_s, case.first_s)
    asked_warm = "" if case.warm_s is None else verdict(warm.wall_s, case.warm_s)
    print(
        f"{case.name:<28}{first.wall_s:7.2f}{first.cpu_s:7.2f}  {asked:<15}"
        f"{waited.wall_s:9.1f}{warm.wall_s:7.2f}{warm.cpu_s:7.2f}  {asked_warm:<15}{size:6.1f}",
        flush=True,
    )


def verdict(wall_s: float, most_s: float) -> str:
    """Whether ``most_s`` was kept."""
    return f"at most {most_s:g}: " + ("met" if wall_s <= most_s else "over")


def measure_edits(folder: Path) -> None:
    """A program again after an edit of a report, and of a comment within a kernel's file."""
    package = folder / "package"
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__"))
    cache = folder / "cache"
    run(("compile", *PINGPONG), cache, package)
    before = run(PINGPONG, cache, package)
    print(f"\n{'simulate unet_pingpong.py, warm':<45}{before.wall_s:7.2f}{before.cpu_s:7.2f}")
    for name in ("reports/simulation.py", "nic/cache.py"):
        path = package / "nicscope" / name
        path.write_text("# An edit, which moves every line.\n" + path.read_text())
        run(("--version",), cache, package)
        after = run(PINGPONG, cache, package)
        found = "nothing compiled" if "uncompiled" not in after.said else "compiled anew"
        print(f"{'after an edit of ' + name:<45}{after.wall_s:7.2f}{after.cpu_s:7.2f}  {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="the first word of one command, or 'edits'")
    only = parser.parse_args().only
    print(
        f"{'':<28}{'first use':<31}{'all of it':>9}{'later':>7}\n"
        f"{'':<28}{'wall s':>7}{'CPU s':>7}{'':<17}{'compiled':>9}{'wall s':>7}{'CPU s':>7}"
        f"{'':<17}{'MB':>6}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for place, case in enumerate(CASES):
            if only in (None, case.command[0]):
                measure(case, Path(folder) / str(place))
        if only in (None, "edits"):
            measure_edits(Path(folder) / "edits")
    print(f"load average at the end {', '.join(f'{each:.1f}' for each in os.getloadavg())}")


if __name__ == "__main__":
    main()
