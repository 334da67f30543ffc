"""Builds the C libraries with the system's compiler, on demand, into the user's cache folder.

What is built is kept under a digest of its sources, so that a changed source is built anew and an
old one is never loaded.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.errors import NicscopeError
from nicscope.live import entries, layout, symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
FLAGS = (
    "-std=c11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,-z,nodelete",  # a plug-in that unloads and loads them again keeps its device
)
MORE_FLAGS = "NICSCOPE_LIVE_CFLAGS"
VERBS = "libibverbs.so.1"
CM = "librdmacm.so.1"
ENGINE = "engine.so"
RECORDER = "recorder.so"  # preloaded into a program, in front of any libibverbs
FILES = "files.so"  # preloaded too: the files that a kernel shows of a card
PACE = "pace.so"  # preloaded too: clocks that show virtual time
SOURCES = {
    VERBS: ("library.c", "data.c", "names.c"),
    CM: ("connections.c", "rsockets.c", "rsocket_connections.c", "rsocket_bytes.c"),
    ENGINE: ("engine.c", "rings.c"),
    RECORDER: ("recorder.c",),
    FILES: ("files.c",),
    PACE: ("pace.c",),
}
HEADERS = ("abi.h", "live.h", "cm_abi.h", "rsockets.h", "engine.h")
PRIVATE = 0o700


class BuildError(NicscopeError):
    """The libraries cannot be built here."""


def compiler() -> str:
    """The system's C compiler.  Errors: ``BuildError`` if there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise BuildError(
        "compiled RDMA programs are run and recorded by a C library, which the system's compiler "
        "builds, and there is none; "
        "install one (Debian: apt-get install gcc libc6-dev) or set CC"
    )


def generated() -> dict[str, str]:
    """The files that are made from declarations, by name."""
    return {
        "layout.h": layout.header(),
        "entries.h": entries.header(),
        "unsupported.h": symbols.unsupported_header(symbols.UNSUPPORTED),
        "cm_unsupported.h": symbols.unsupported_header(symbols.CM_UNSUPPORTED),
        "verbs.map": symbols.version_script(),
        "cm.map": symbols.cm_version_script(),
    }


def cache_folder() -> Path:
    """Where what is built is kept: a folder of the user's that nobody else may write to.

    Errors: ``BuildError`` for one that is somebody else's.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "nicscope" / "live"
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise BuildError(
            f"{folder} is somebody else's, or others may write to it; remove it or set "
            "XDG_CACHE_HOME"
        )
    return folder


def digest(compiler_name: str, flags: Sequence[str]) -> str:
    """What is built goes by this: sources, what is made, compiler and flags."""
    told = hashlib.sha256(repr((compiler_name, *flags)).encode())
    for name in (*HEADERS, *(each for sources in SOURCES.values() for each in sources)):
        told.update((HERE / name).read_bytes())
    for text in generated().values():
        told.update(text.encode())
    return told.hexdigest()[:24]


def built() -> Path:
    """The folder with the libraries, built now if they are not there.

    ``NICSCOPE_LIVE_CFLAGS``: further flags, such as sanitizers.  Errors: ``BuildError`` without a
    compiler, or with what it says.
    """
    maker, flags = compiler(), (*FLAGS, *shlex.split(os.environ.get(MORE_FLAGS, "")))
    cache = cache_folder()
    folder = cache / digest(maker, flags)
    if all((folder / name).exists() for name in SOURCES):
        return folder
    making = Path(tempfile.mkdtemp(dir=cache, prefix="making-"))
    try:
        _make(making, maker, flags)
        try:
            making.rename(folder)
        except OSError:  # another process was first
            if not folder.exists():
                raise
        return folder
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _make(folder: Path, maker: str, flags: Sequence[str]) -> None:
    for name, text in generated().items():
        (folder / name).write_text(text)
    linking = {
        VERBS: (f"-Wl,-soname,{VERBS}", f"-Wl,--version-script={folder / 'verbs.map'}"),
        CM: (
            *(f"-Wl,-soname,{CM}", f"-Wl,--version-script={folder / 'cm.map'}"),
            str(folder / VERBS),
        ),
        ENGINE: (),
        RECORDER: (),
        FILES: (),
        PACE: (),
    }
    for name, sources in SOURCES.items():
        command = [maker, *flags, f"-I{folder}", *(str(HERE / each) for each in sources)]
        command += ["-o", str(folder / name), *linking[name], "-Wl,-z,defs", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            for line in said:
                print(line, file=sys.stderr)
            raise BuildError(f"{maker} could not build {name}; its first words: {said[:1]}")
