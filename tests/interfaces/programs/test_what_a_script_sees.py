"""An error of a script's own call, outside programs, shows the script's line and none of ours."""

import subprocess
import sys
from pathlib import Path

import pytest

import nicscope

BEGIN = """
from nicscope import Cluster, Faults, load_design, load_platform
from nicscope.interfaces import HostSize, PortSize, mini, trapeze, unet, via, vmmc

async def program(_):
    pass

"""
# The last line of each, and what the error says.
WRONG = {
    'Cluster("utlb", pin_limit=-1)': "pin_limit must be from 1",
    'Cluster("nothing")': "no design 'nothing'",
    'Cluster("utlb", node=3)': "did you mean 'nodes'?",
    "Cluster()": "missing 1 required positional argument: 'design'",
    'Cluster("utlb").start(9, program)': "no node 9; there are 2, numbered from 0 to 1",
    'Cluster("via").start(9, program)': "no node 9; there are 2",
    'Cluster("utlb").start(0)': "missing 1 required positional argument: 'program'",
    'Cluster("utlb").run()': "start(node, program) has a program run on a node",
    'Cluster("trapeze").run()': "start one or more before it",
    'Cluster("utlb").report()': "call run() first",
    'Cluster("utlb").timeline("x.json")': "call run() first",
    'Cluster("utlb").counts(0)': "call run() first",
    'Cluster("utlb").served(0)': "call run() first",
    'Cluster("mini").nic_memory(0)': "call run() first",
    'Cluster("unet").structures(0)': "call run() first",
    'Cluster("trapeze").memory(0)': "call run() first",
    'unet.Cluster("unet", buffer_bytes=1.5)': "buffer_bytes must be a whole number from 1 to 4096",
    'unet.Cluster("unet", endpoints="two")': "endpoints must be a whole number from 1",
    "vmmc.Cluster(size=3)": "size is one of PortSize(ring=128), not 3",
    "vmmc.Cluster(host=3)": "host is one of HostSize(frames=4096), not 3",
    "vmmc.Cluster(delivery=3)": "delivery is one of Delivery(policy=...), or its name, not 3",
    "vmmc.Cluster(place=2)": "place must be a number from 0 to 1, got 2",
    'mini.Cluster(nodes="two")': "nodes must be a whole number of at least 1, got 'two'",
    'trapeze.Cluster("nowhere")': "no platform 'nowhere'",
    'trapeze.Cluster("p6-natoma", host_bytes="x")': "host_bytes must be a whole number",
    'trapeze.Cluster("p6-natoma", masters=3)': "masters is a list of OtherMaster, not 3",
    'via.Cluster(mechanism="edtt")': "did you mean 'edt'?",
    'via.Cluster(vis="x")': "vis must be a whole number from 0",
    "via.Cluster(names=3)": "names: {'server': 0, ...} is needed, not 3",
    "Faults(loss=3)": "loss is a probability from 0 to 1",
    "Faults(node_deaths=[1])": "node_deaths says who dies when (ps)",
    'Faults(node_deaths={1: "x"})': "when of node_deaths (ps) must be a whole number",
    "PortSize(ring=1.5)": "ring must be a whole number of at least 0, got 1.5",
    "vmmc.Cluster(size=PortSize(ring=0))": "ring must be a whole number of at least 1, got 0",
    'HostSize(frames="x")': "frames must be a whole number of at least 0, got 'x'",
    'load_design("nothing")': "no design 'nothing'",
    'load_platform("nothing")': "no platform 'nothing'",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What plain Python prints of each, all from one interpreter."""
    folder = tmp_path_factory.mktemp("scripts")
    files = []
    for number, line in enumerate(WRONG):
        files.append(folder / f"mine{number}.py")
        files[-1].write_text(BEGIN + line + "\n")
    # As plain Python does it: the code of the file, and the traceback without who runs that.
    run = (
        "import sys, traceback\n"
        "for file in sys.argv[1:]:\n"
        "    try:\n"
        "        exec(compile(open(file).read(), file, 'exec'), {'__name__': '__main__'})\n"
        "    except Exception as error:\n"
        "        error.__traceback__ = error.__traceback__.tb_next\n"
        "        print(''.join(traceback.format_exception(error)), end='\\0')\n"
        "    else:\n"
        "        print('nothing', end='\\0')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", run, *map(str, files)], capture_output=True, text=True, check=True
    )
    return dict(zip(WRONG, done.stdout.split("\0"), strict=False))


@pytest.mark.parametrize("line", WRONG)
def test_an_error_of_ones_own_call_shows_that_line_alone_and_says_what_to_do(told, line):
    said = told[line].splitlines()

    assert WRONG[line] in said[-1]
    assert [each.strip() for each in said if each.startswith("    ")] == [line]
    assert sum(each.startswith("  File ") for each in said) == 1
    assert str(Path(nicscope.__file__).parent) not in told[line]
