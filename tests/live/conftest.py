"""A machine in a thread, programs as a hostile or a plain client would speak to it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from live_clients import Client

from nicscope.live.build import CM, ENGINE, HERE, VERBS, BuildError, built, compiler
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
def compiled(libraries, machine, tmp_path):
    """Begins a C program that lies here, of that name, over the machine; its process."""

    def begin(name, *how):
        made, source = tmp_path / name, Path(__file__).with_name(f"{name}.c")
        if not made.exists():
            words = [compiler(), "-Wall", "-Wextra", "-Werror", f"-I{HERE}", f"-I{libraries}"]
            words += [str(source), "-o", str(made), "-lpthread"]
            subprocess.run([*words, str(libraries / CM), str(libraries / VERBS)], check=True)
        environment = {"NICSCOPE_LIVE": str(machine.path), "LD_LIBRARY_PATH": str(libraries)}
        return subprocess.Popen(
            [str(made), *map(str, how)],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    return begin


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
