"""Why the kernel lets nobody trace a process."""

from __future__ import annotations

from pathlib import Path


def why_refused(name: str, error: OSError, tracer: str | None) -> str:
    """In a line why the process called ``name`` may not be traced, and what to do about it.

    ``error`` is what the kernel said, ``tracer`` who traces it already.
    """
    if tracer is not None:
        return (
            f"{name} cannot be recorded: it is traced by {tracer} already, and Linux allows one "
            "tracer only; start 'nicscope record' outside of it"
        )
    scope = yama_scope()
    if scope >= 2:
        return (
            f"{name} cannot be recorded: this machine forbids tracing "
            f"(kernel.yama.ptrace_scope is {scope}); "
            + ("reboot with it below 3" if scope > 2 else "record as root")
        )
    return (
        f"{name} cannot be recorded: the kernel refuses to trace it ({error.strerror}); in a "
        "container, start that with --cap-add=SYS_PTRACE"
    )


def tracer_of(pid: int) -> str | None:
    """Name and number of the process that traces ``pid``."""
    tracer = int(status_of(pid).get("TracerPid", 0))
    if not tracer:
        return None
    return f"{status_of(tracer).get('Name', '?')!r} (process {tracer})"


def status_of(pid: int) -> dict[str, str]:
    """The fields of ``/proc/PID/status``; none if there is no such process or it is hidden."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="backslashreplace")
    except OSError:
        return {}
    fields = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in fields}


def yama_scope() -> int:
    """Whom Yama lets trace: 0 whoever is the same user, 1 ancestors, 2 root, 3 nobody."""
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0
