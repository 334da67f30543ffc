"""A run of a parallel program as a program trace: what its processes do, and wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.apps.svm.records import LEFT_OUT, SHARED_BASE
from nicscope.traces.programs.building import ProgramBuilder
from nicscope.traces.programs.schema import OPERATION_CODES, Operation, ProgramMetadata
from nicscope.traces.programs.writer import write_program

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.studies.applications import ApplicationRun
    from nicscope.traces.programs.schema import ProgramTrace

_MOVES = {"fetch", "deposit"}
_NO_INITIAL = "the first distribution of data; --with-initial has it"


def program_trace_of(run: ApplicationRun) -> ProgramTrace:
    """What its processes did, in the order in which each did it."""
    nodes, each = run.placement.nodes, run.placement.processes
    metadata = ProgramMetadata(
        nodes_of_processes=[node for node in range(nodes) for _ in range(each)],
        page_size=run.memory.page_bytes,
        base=SHARED_BASE,
        memory_bytes=run.memory.byte_count,
        program=run.name,
        size=run.size,
        seed=run.seed,
        left_out=[*LEFT_OUT] + ([] if run.program.with_initial else [_NO_INITIAL]),
        assumed=_assumed(run),
        origin=run.origin(),
    )
    made = ProgramBuilder(metadata)
    for process in range(nodes * each):
        for row in run.program.rows_of(process):
            fields = row._asdict()
            operation = Operation(OPERATION_CODES[fields.pop("operation")])
            if row.operation in _MOVES:
                fields["address"] += SHARED_BASE
            made.add(process, operation, **fields)
    return made.trace()


def _assumed(run: ApplicationRun) -> dict[str, Any]:
    """Costs of the CPU that nothing measured."""
    named = ("access", "local_miss", "write_fault")
    return {f"{name}_us": getattr(run.costs, name) for name in named}


def write_application_program(run: ApplicationRun, path: Path) -> None:
    """Write it to ``path``.  Errors: ``OutputError`` if it cannot be written."""
    write_program(path, program_trace_of(run))
