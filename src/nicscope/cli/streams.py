"""Standard streams, closed or full ones included, and signals that end a command."""

from __future__ import annotations

import _thread
import codecs
import contextlib
import importlib.abc
import io
import os
import signal
import sys
import threading
import unicodedata
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from nicscope.errors import OutputError, printable
from nicscope.outputs import Descriptor, ReaderGone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

    from _typeshed import ReadableBuffer


class Interrupted(Exception):  # noqa: N818 - nobody's error
    """Ctrl-C, re-raised so that Typer does not turn it into an ambiguous exit status."""


LOOKALIKE = "nicscope.lookalike"  # name of the encoding error handler
_OPEN_FOR = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_RDONLY}
# What nicscope draws with; each as wide as what it stands for, except for what cannot be.
_LOOKALIKES = {
    **dict(zip("░▒▓█▚", ".:%#x", strict=True)),
    **dict(zip("▏▎▍▌▋▊▉", "|||####", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇", "_.:-=+*", strict=True)),
    **dict(zip("─━╸╺│┃…✓✗", "----||~+x", strict=True)),
    "≥": ">=",
    "\N{EN DASH}": "-",
    "≤": "<=",
    "±": "+-",
}


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Convert errors of standard output within the block into nicscope's errors.

    ``OutputError`` if it is closed or takes no more, ``ReaderGone`` if nobody reads it.  What the
    error stream does not take is dropped.  Characters that an encoding lacks look like others.
    Streams that are not the process's own, such as a test's, only get such characters.
    """
    codecs.register_error(LOOKALIKE, lookalike)
    for number, flags in _OPEN_FOR.items():
        _occupy_descriptor(number, flags)
    before = sys.stdout, sys.stderr
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(1, Descriptor(1, "standard output", is_file=False), before[0])
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(2, _LossyStream(2, "standard error", is_file=False), before[1])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=LOOKALIKE)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(raw := getattr(getattr(stream, "buffer", None), "raw", None), Descriptor):
                with contextlib.suppress(OutputError, ReaderGone):
                    stream.flush()
                raw.give_up()
        sys.stdout, sys.stderr = before


def is_unicode(stream: Any) -> bool:
    """Whether ``stream`` can encode every character."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def lookalike(error: UnicodeError) -> tuple[str | bytes, int]:
    """A replacement for a character that an encoding lacks: an error handler of ``codecs``.

    Bytes of a file's name that are no text are those bytes again.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return _plain(character), error.start + 1


def _plain(character: str) -> str:
    if character in _LOOKALIKES:
        return _LOOKALIKES[character]
    if unicodedata.name(character, "").startswith("BOX DRAWINGS"):
        return "+"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


class _LossyStream(Descriptor):
    """The error stream: write errors are ignored."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except (OutputError, ReaderGone):
            return memoryview(data).nbytes


def _text(number: int, descriptor: Descriptor, like: Any) -> io.TextIOWrapper:
    """A text stream on ``descriptor`` that writes as ``like`` does, None if that was closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(descriptor),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors=LOOKALIKE,
        line_buffering=number == 2 or descriptor.isatty(),
        write_through=getattr(like, "write_through", False),
    )


def _occupy_descriptor(number: int, flags: int) -> None:
    """Occupy a closed stream's descriptor, or the next file opened would get the output.

    It stays as unusable as it was: nothing can be written to it, or read from it.
    """
    try:
        os.fstat(number)
    except OSError:
        with contextlib.suppress(OSError):
            opened = os.open(os.devnull, flags | os.O_CLOEXEC)
            if opened != number:
                os.dup2(opened, number, inheritable=False)
                os.close(opened)


# Exit statuses, 128 and the number of the signal as shells have it, and how each is told.
ENDINGS = {
    128 + signal.SIGINT: "interrupted",
    128 + signal.SIGTERM: "terminated",
    128 + signal.SIGHUP: "hung up",
}
_AGAIN_S = 0.3  # long beside any finalizer, short beside the wait until one presses again

# An interrupt's frames, and in them what the compiler was at: freeing that half-made has crashed.
_HALF_MADE: list[BaseException] = []


class _Came:
    """The signal that interrupted the last block of ``interrupts_delivered``."""

    number = signal.SIGINT


def ending_status() -> int:
    """The exit status of a command that was interrupted."""
    return 128 + _Came.number


def exit_resumable(journal: Path | None) -> None:
    """If ``journal`` exists, print how to resume, and exit with the signal's status.

    To be called while the interrupt is handled; without a journal it goes on its way.
    """
    if journal is None or not journal.exists():
        return
    status = ending_status()
    print(
        f"nicscope: {ENDINGS[status]}; what is done is kept in {printable(str(journal))}: the same "
        "command continues",
        file=sys.stderr,
    )
    from typer import Exit

    raise Exit(status) from None


class _Interrupts:
    """An interrupt that is raised again until it is handled.

    Python cannot raise it in a finalizer or in a callback of the compiler: there it would be
    printed and lost. It is heeded while anything handles it, clearing up for example.
    """

    def __init__(self) -> None:
        self.came = False
        self._over = threading.Event()

    def raise_interrupt(self, number: int, _: object) -> None:
        if not self.came:
            self.came = True
            _Came.number = signal.Signals(number)
            threading.Thread(target=self._raise_until_handled, daemon=True).start()
        raise KeyboardInterrupt

    def _raise_until_handled(self) -> None:
        while not self._over.wait(_AGAIN_S):
            if not self._is_handled():
                _thread.interrupt_main()

    def _is_handled(self) -> bool:
        top: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
        error = top[1] if isinstance(top, tuple) else top  # a tuple before Python 3.12
        while error is not None:
            if isinstance(error, KeyboardInterrupt):
                return True
            error = error.__context__
        return False

    def finish(self) -> None:
        self._over.set()


@contextmanager
def interrupts_delivered() -> Iterator[None]:
    """Deliver every interrupt of the block, even one swallowed inside a callback.

    SIGTERM and SIGHUP are interrupts as Ctrl-C is, except where somebody takes or ignores them,
    as nohup does.  Where somebody else takes SIGINT, or off the main thread, the block is left
    alone.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    _Came.number = signal.SIGINT
    interrupts = _Interrupts()
    others = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not (interrupts.came or issubclass(unraisable.exc_type, KeyboardInterrupt)):
            others(unraisable)

    taken = {signal.SIGINT: signal.default_int_handler} | {
        number: signal.SIG_DFL
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    for number in taken:
        signal.signal(number, interrupts.raise_interrupt)
    sys.unraisablehook = hook
    try:
        yield
    except Exception as error:
        if not interrupts.came:
            raise
        _HALF_MADE.append(error)
        raise KeyboardInterrupt from error
    finally:
        interrupts.finish()
        for number, before in taken.items():
            signal.signal(number, before)
        sys.unraisablehook = others


def exit_immediately(status: int) -> NoReturn:
    """Flush output and end the process with ``status``, without cleanup.

    After an interrupt CPython may die of SIGINT whatever the status, as it remembers one that left
    the ``exec`` of a string; the compiler may have been left half-way, which has crashed its end;
    and threads may be within kernels that do not end soon.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed, or full: whoever can tell of it has
            stream.flush()
    os._exit(status)


class _WithoutPandas(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as Python calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Hide pandas: errors: ``ModuleNotFoundError`` for it, nothing for other modules."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out", name=fullname)


def hide_pandas() -> None:
    """Make pandas unavailable in this process."""
    sys.meta_path.insert(0, _WithoutPandas())
