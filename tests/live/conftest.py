"""A machine in a thread, programs as a hostile or a plain client would speak to it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from live_clients import Client

from nicscope.live.build import ENGINE, BuildError, built, compiler
from nicscope.live.device import Engine, LiveFabric
from nicscope.live.machine import Machine


@pytest.fixture(scope="session")
def libraries():
    try:
        compiler()
    except BuildError as missing:
        pytest.skip(f"needs a package: {missing}")
    return built()


@pytest.fixture
def machine(libraries, tmp_path):
    """One that serves in a thread; its socket is ``machine.path``."""
    path = tmp_path / "machine"
    made = Machine(LiveFabric(Engine(libraries / ENGINE), "rnic", None), path)
    made.path = path
    is_over = threading.Event()
    failed = []

    def serve():
        try:
            made.serve(is_over.is_set)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    yield made
    is_over.set()
    thread.join(60)
    made.close()
    assert failed == []


@pytest.fixture
def client(machine):
    made = Client(machine.path)
    yield made
    made.close()


@pytest.fixture
def execute(libraries, tmp_path):  # noqa: ARG001 - so that nobody builds twice
    """Runs ``nicscope verbs exec``; its finished process."""

    def run(*words, timeout=400):
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
        command = [sys.executable, "-m", "nicscope", "verbs", "exec", *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run
