"""What decides which code is made: the environment's settings, and how each function is marked."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nicscope.errors import NicscopeError

# Of Numba's variables those that change no code, or have a place of their own in its key.
_SAME_CODE = {
    "NUMBA_BOUNDSCHECK", "NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT", "NUMBA_NUM_THREADS",
    "NUMBA_THREADING_LAYER", "NUMBA_THREADING_LAYER_PRIORITY",
}  # fmt: skip
_SETTINGS_FILE = ".numba_config.yaml"
BACKGROUND, WAIT, NEVER, SWITCH = "background", "wait", "never", "switch"
VARIABLE = "NICSCOPE_COMPILE"


class Mode(NamedTuple):
    """Who compiles; ``share`` and ``seed`` are of ``switch`` alone."""

    name: str
    share: float = 1.0
    seed: int = 0


def _is_set(name: str) -> bool:
    """Whether a switch of Numba's is on, read as Numba reads it."""
    try:
        return bool(int(os.environ.get(name, "0") or 0))
    except ValueError:
        return False


def numba_settings() -> tuple[str, ...]:
    """What else of the environment says which code the compiler makes, as far as that is told.

    Such as ``NUMBA_CPU_NAME`` and ``NUMBA_OPT``, and the file in which Numba looks for them too.
    """
    told = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in _SAME_CODE
    ]
    with suppress(OSError):
        told.append(hashlib.sha256(Path(_SETTINGS_FILE).read_bytes()).hexdigest())
    return tuple(told)


def mode_of(text: str) -> Mode:
    """The mode that ``text`` names.  Errors: ``NicscopeError`` if there is no such mode."""
    name, *more = text.split(":")
    if name in (BACKGROUND, WAIT, NEVER) and not more:
        return Mode(name)
    if name == SWITCH and len(more) == 2:
        try:
            share, seed = float(more[0]), int(more[1])
        except ValueError:
            share = -1.0
        if 0 <= share <= 1:
            return Mode(SWITCH, share, seed)
    raise NicscopeError(
        f"{VARIABLE} is {text!r}; it can be {BACKGROUND}, {WAIT}, {NEVER} or "
        f"{SWITCH}:SHARE:SEED with a share from 0 to 1"
    )


INTERPRETED_BY_NUMBA = _is_set("NUMBA_DISABLE_JIT")
CHECKED = _is_set("NUMBA_BOUNDSCHECK")
MODE = Mode(NEVER) if INTERPRETED_BY_NUMBA else mode_of(os.environ.get(VARIABLE) or BACKGROUND)
INTERPRETED = MODE.name == NEVER


class Compiled(NamedTuple):
    """How a function is compiled into its callers."""

    inline: bool = True
    code: str = ""  # module and name of what writes its code, if that is not its own


STEPS: dict[Any, Compiled] = {}


class Wrapped:
    """A function as Python calls it; compiled code calls ``function`` itself."""

    function: Any
