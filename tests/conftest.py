"""Makes ``tests/oracle`` importable as ``oracle`` and sets how hard Hypothesis tries."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from nicscope.library import progress

sys.path.insert(0, str(Path(__file__).parent))

# Compiled code is what the first of the three ways tests: it is waited for.
os.environ.setdefault("NICSCOPE_COMPILE", "wait")

# Tables are as wide as wherever the tests are run says, and tests are run anywhere.
os.environ["COLUMNS"] = "100"

settings.register_profile(
    "default",
    deadline=None,  # the first example pays for compilation
    max_examples=100,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
# With bounds checks an example costs some times more, without the compiler many times.
settings.register_profile("checked", settings.get_profile("default"), max_examples=25)
settings.register_profile("interpreted", settings.get_profile("default"), max_examples=10)
PROFILES = {"NUMBA_DISABLE_JIT": "interpreted", "NUMBA_BOUNDSCHECK": "checked"}
fitting = [profile for name, profile in PROFILES.items() if os.environ.get(name) == "1"]
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or [*fitting, "default"][0])


# The three ways of ``make test``.  Folders and files whose tests enter no kernel, or only by the
# way, run without the compiler alone.
ONCE = {
    "config", "docs", "drivers_simulate/test_looks.py", "fuzz", "mutation", "oracle", "outputs",
    "pages",
    "reports", "traces_recording",
    "test_benches.py", "test_errors.py", "test_imports.py", "test_inputs.py", "test_structure.py",
    "cli/test_bad_input.py", "cli/test_curve_command.py", "cli/test_curve_figures.py",
    "cli/test_folders_cluster.py", "cli/test_folders_shared_out.py", "studies/test_workers.py",
    "cli/test_help.py", "cli/test_numbers_recomputed.py", "cli/test_progress.py",
    "cli/test_reading_anything.py", "cli/test_settings_are_named.py",
    "cli/test_size_command.py", "cli/test_sweep_cluster.py",
    "cli/test_sweep_numbers_recomputed.py",
    "interfaces/ownership", "interfaces/test_examples_over_the_bus.py",
    "nic/test_the_firmware_alone.py",
    "traces/test_checksums.py", "traces/test_round_trips.py",
    "traces/test_strace_descriptors.py",
    "traces/test_strace_importer.py", "traces/test_strace_room.py",
    "traces/test_trace_commands.py", "traces/test_trace_folders.py",
    "traces/test_trace_splitting.py", "traces/test_traces_from_tables.py",
}  # fmt: skip
# What takes a million steps of the interpreter and shows nothing of them.
COMPILED = {
    "cli/test_flow_command.py", "cli/test_latency_command.py", "traces/test_room_for_traces.py",
}  # fmt: skip
# Kernels by themselves, and against their slow twins: with bounds checks as well.  Whatever index
# of an array is wrong elsewhere, the interpreter refuses.
KERNELS = {
    "drivers", "drivers_traced", "fabric", "memory", "nic", "swarm", "test_indexing.py",
    "drivers_bus/test_a_long_program.py", "drivers_bus/test_transactions.py",
    "drivers_simulate/test_connections_agree_with_the_oracle.py",
    "drivers_simulate/test_delivery_agrees_with_the_oracle.py", "drivers_simulate/test_flow.py",
    "ports/test_ports_agree_with_the_oracle.py", "ports/test_random_traffic.py",
}  # fmt: skip


def pytest_collection_modifyitems(items):
    """Mark the tests that not every way of ``make test`` runs."""
    root = Path(__file__).parent
    assert all((root / place).exists() for place in ONCE | COMPILED | KERNELS)
    for item in items:
        parts = item.path.relative_to(root).parts
        places = {"/".join(parts[: 1 + depth]) for depth in range(len(parts))}
        if places & ONCE and not item.get_closest_marker("compiled"):
            item.add_marker(pytest.mark.once)
        if places & COMPILED:
            item.add_marker(pytest.mark.compiled)
        if places & KERNELS:
            item.add_marker(pytest.mark.kernels)


@pytest.fixture(autouse=True)
def no_progress_lines(monkeypatch):
    """Commands say nothing of how far they are: what tests compare must not depend on the time."""
    monkeypatch.setattr(progress, "PATIENCE_S", 3600.0)
