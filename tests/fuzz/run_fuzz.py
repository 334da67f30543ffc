"""Give every reader damaged and odd files: python tests/fuzz/run_fuzz.py [--seconds N] [--seed N].

Each file is made from a seed, which is printed, and read in a process of its own, bounded in
memory and in time for each file.  A file that brings out anything but success or one line is kept
under ``fuzz-failures``.
"""

import argparse
import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
KEPT = HERE / "kept"
FOUND = Path("fuzz-failures")
MOST_BYTES = 2 << 30  # of address space beyond what the program takes to start
MOST_TOUCHED = 512 << 20  # of memory beyond that
MOST_S = int(os.environ.get("NICSCOPE_FUZZ_SECONDS", "20"))  # for a file
AT_ONCE = 100  # files of one process


class TooLong(Exception):  # noqa: N818
    """A file took longer than ``MOST_S``."""


class TooLarge(Exception):  # noqa: N818
    """A file took more than ``MOST_TOUCHED`` bytes of memory."""


def _stop(*_):
    raise TooLong(f"more than {MOST_S} s")


def _most():
    """Bytes of memory that this process had at its largest.

    Not what ``getrusage`` says: that begins with what the parent had.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _bound():
    with Path("/proc/self/statm").open() as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_BYTES, taken + MOST_BYTES))
    signal.signal(signal.SIGALRM, _stop)


def child(names, seed, first, count, folder):
    """Read files of each reader, from number ``first`` on; each is written down before."""
    import typer.main
    from readers import READERS, new_file, read_file

    # Typer builds the commands anew for each call, in more time than most files take.
    typer.main.get_command = functools.cache(typer.main.get_command)
    _bound()
    begin = _most()
    for name in names:
        slowest = 0.0
        for number in range(first, first + count):
            path = folder / f"{name}-{seed}-{number}{READERS[name].ending}"
            path.write_bytes(new_file(name, seed, number))
            began = time.monotonic()
            signal.alarm(MOST_S)
            try:
                read_file(name, path)
                if _most() - begin > MOST_TOUCHED:
                    raise TooLarge(f"{(_most() - begin) >> 20} MB")
            except BaseException:
                print(traceback.format_exc(limit=-6), file=sys.stderr)
                return 1
            finally:
                signal.alarm(0)
            slowest = max(slowest, time.monotonic() - began)
            path.unlink()
        print(f"{name}: {count} files, the slowest {slowest:.1f} s, at most {_most() >> 20} MB")
    return 0


def fuzz(names, seed, first, count):
    """What is wrong with one of ``count`` files of each reader, and the file; or None."""
    with tempfile.TemporaryDirectory(prefix="nicscope-fuzz-") as made:
        folder = Path(made)
        arguments = [__file__, "--child", ",".join(names), seed, first, count, folder]
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return None, done.stdout.strip()
        left = sorted(folder.iterdir())
        kept = None
        if left:
            FOUND.mkdir(exist_ok=True)
            kept = FOUND / left[0].name
            shutil.copyfile(left[0], kept)
        where = left[0].name if left else ", ".join(names)
        return kept, f"{where}: exit status {done.returncode}\n{done.stderr[-3000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--reader", action="append", help="only this one; may be repeated")
    parser.add_argument("--once", nargs=2, metavar=("READER", "FILE"), help="read one file")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        names, seed, first, count, folder = chosen.child
        return child(names.split(","), int(seed), int(first), int(count), Path(folder))
    from readers import READERS, read_file

    if chosen.once:
        read_file(chosen.once[0], Path(chosen.once[1]))
        return 0
    seed = int(time.time()) if chosen.seed is None else chosen.seed
    print(f"seed {seed}: the same files again with --seed {seed}", flush=True)
    until = time.monotonic() + chosen.seconds
    first, failures = 0, 0
    while time.monotonic() < until:
        for name in chosen.reader or READERS:
            if time.monotonic() > until:
                break
            kept, said = fuzz([name], seed, first, AT_ONCE)
            print(said, flush=True)
            if kept is not None or said.count("\n"):
                failures += 1
                print(
                    f"kept as {kept}; read it again: python tests/fuzz/run_fuzz.py --once {name} "
                    f"{kept}; once it is mended: mv {kept} {KEPT / name}/WHAT-IT-SHOWS",
                    flush=True,
                )
        first += AT_ONCE
    print(f"seed {seed}: {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
