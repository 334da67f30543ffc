"""A program file says the same of what went wrong under ``nicscope simulate`` and Python."""

import subprocess
import sys
from pathlib import Path

import nicscope
from nicscope.cli.app import main

LOOPS = """
from nicscope.interfaces import vmmc

async def server(endpoint):
    await endpoint.notification()

async def client(endpoint):
    await endpoint.compute(5)
    raise KeyboardInterrupt

def main():
    cluster = vmmc.Cluster()
    cluster.start(0, client)
    cluster.start(1, server)
    cluster.run()

if __name__ == "__main__":
    main()
"""
STUCK = LOOPS.replace("    raise KeyboardInterrupt\n", "")
BREAKS = LOOPS.replace("raise KeyboardInterrupt", "raise KeyError('mine')")


PROGRAMS = [
    (LOOPS, 130, ["process 0 of node 1, server(): waits in endpoint.notification(), "]),
    (STUCK, 2, ["nothing more will happen after ", "server(): waits in endpoint.notificat"]),
    (BREAKS, 1, ["KeyError: 'mine'", "in process 0 of node 0, client(), "]),
    (STUCK.replace("await endpoint.c", "endpoint.c"), 2, ["endpoint.compute() without 'await'"]),
    (STUCK.replace("(5)", "(-5)"), 2, ["got -5 us (process 0 of node 0, client(), at 0 us)"]),
]
# Each file in a process of its own, which has imported what they do.
EACH = """
import os, sys
from nicscope.interfaces import vmmc
for path in sys.argv[1:]:
    if not os.fork():
        exec(compile(open(path).read(), path, "exec"), {"__name__": "__main__"})
        sys.exit()
    os.wait()
    print(chr(0), file=sys.stderr, flush=True)
"""


def test_the_command_and_python_itself_say_the_same_without_our_lines(tmp_path, capsys):
    paths = [tmp_path / f"mine{number}.py" for number in range(len(PROGRAMS))]
    for path, (program, *_) in zip(paths, PROGRAMS, strict=True):
        path.write_text(program)
    words = [sys.executable, "-c", EACH, *map(str, paths)]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stderr.split("\0\n")
    for path, alone, (_, status, lines) in zip(paths, told, PROGRAMS, strict=False):
        assert main(["simulate", str(path)]) == status
        shown = capsys.readouterr().err
        for line in lines:
            assert line in shown
            assert line.split(" (process")[0] in alone
        assert str(Path(nicscope.__file__).parent) not in shown + alone
