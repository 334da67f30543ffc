"""Programs of verbs are run as they are, and say what they cost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import nicscope as ns
from nicscope.cli.app import main
from nicscope.errors import NicscopeError
from nicscope.interfaces.verbs.os_emulation import HUGE_PAGES, system_emulated
from nicscope.studies.programs import ProgramError

EXAMPLE = Path(__file__).parents[3] / "examples" / "verbs_pingpong.py"
FOLDER = os.environ.get("NICSCOPE_RDMA_TESTS")
TESTS = """
    import random
    import sys
    import unittest

    from pyverbs.device import get_device_list

    class Its(unittest.TestCase):
        def test_passes(self):
            print(get_device_list()[0].name.decode(), sys.argv[1:2], random.randrange(1000))

        def test_skips(self):
            self.skipTest("there is no card")

        def test_fails(self):
            self.assertEqual(1, 2)

    if __name__ == "__main__":
        unittest.main(argv=sys.argv[:1])
"""


@pytest.fixture
def tests(tmp_path):
    path = tmp_path / "its_tests.py"
    path.write_text(dedent(TESTS))
    return path


def test_a_program_prints_what_it_prints_and_then_its_bill(capsys):
    assert main(["verbs", "run", "--json", str(EXAMPLE), "4"]) == 0
    told = capsys.readouterr()
    assert "4 rounds, the last answer was pong" in told.err
    [run] = json.loads(told.out)["runs"]
    assert run["messages_out"] == 8
    assert run["lookups"] >= 8
    assert run["bytes_out"] == 8 * 64
    assert run["elapsed_us"] > 0
    assert "pyverbs" not in sys.modules


def test_a_seed_loses_the_same_packets(capsys):
    runs = [
        ns.run_verbs(EXAMPLE, ["20"], loss=0.1, seed=seed).found.runs[0].elapsed_us
        for seed in (3, 3, 4)
    ]
    assert capsys.readouterr().out.count("pong") == 3
    assert runs[0] == runs[1] != runs[2]


def test_tests_are_counted_with_their_reasons(tests, capsys):
    assert main(["verbs", "run", "--seed", "5", str(tests), "-v"]) == 1
    told = capsys.readouterr().out
    assert "nicscope0 ['-v']" in told
    assert "3 tests: 1 passed, 1 skipped, 1 failed." in told
    assert "there is no card" in told
    assert "AssertionError: 1 != 2" in told


def test_a_seed_is_that_of_the_programs_numbers(tests, capsys):
    told = []
    for seed in ("1", "1", "2"):
        main(["verbs", "run", "--seed", seed, str(tests)])
        told.append(capsys.readouterr().out.splitlines()[0])
    assert told[0] == told[1] != told[2]


def test_a_program_opens_the_device_by_the_name_that_it_knows(tmp_path, capsys):
    path = tmp_path / "named.py"
    path.write_text("from pyverbs.device import Context\n\nprint(Context(name='mlx5_0').name)\n")
    assert main(["verbs", "run", "--device", "mlx5_0", str(path)]) == 0
    assert capsys.readouterr().out.startswith("mlx5_0\n")


def test_a_program_finds_its_folder_wherever_it_is_called_from(tmp_path, monkeypatch, capsys):
    (tmp_path / "where.py").write_text("import os\nprint(os.path.dirname(__file__))\n")
    monkeypatch.chdir(tmp_path)

    assert main(["verbs", "run", "where.py"]) == 0
    assert str(tmp_path) in capsys.readouterr().out.splitlines()


def test_what_a_program_raises_is_told_from_its_own_lines(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text("import pyverbs.device as d\n\nd.Context(name='mlx5_0')\n")
    with pytest.raises(ProgramError) as found:
        ns.run_verbs(path)
    assert "Failed to find device mlx5_0" in found.value.told
    assert "wrong.py" in found.value.told
    with pytest.raises(NicscopeError, match="no such program"):
        ns.run_verbs(tmp_path / "nothing.py")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"design": ["utlb", "no-such-design"]}, "no design 'no-such-design'"),
        ({"design": ["utlb", "utlb"], "entries": 3}, "entries"),
        ({"design": ["utlb", "vmmc-interrupt"], "prepin": 4}, "'vmmc-interrupt'"),
        ({"design": "utlb", "platform": "no-such-platform"}, "no platform 'no-such-platform'"),
        ({"design": "utlb", "loss": 2.0}, "loss"),
    ],
)
def test_a_design_that_cannot_be_is_refused_before_the_program_runs(how, words, tmp_path):
    program = tmp_path / "leaves_a_mark.py"
    program.write_text(f"open({str(tmp_path / 'ran')!r}, 'x').close()\n")

    with pytest.raises(NicscopeError, match=words):
        ns.run_verbs(program, **how)

    assert not (tmp_path / "ran").exists()
    ns.run_verbs(program)
    assert (tmp_path / "ran").exists()


@pytest.mark.usefixtures("device_world")
def test_questions_about_the_device_are_answered_and_others_asked():
    asked = subprocess.check_output
    with system_emulated():
        [link] = json.loads(subprocess.check_output(["rdma", "link", "show", "-j"]))
        assert (link["ifname"], link["port"]) == ("nicscope0", 1)
        asked_of = ["ip", "-j", "addr", "show", link["netdev"]]
        [interface] = json.loads(subprocess.check_output(asked_of))
        assert interface["addr_info"][0]["local"] == "10.0.0.1"
        assert interface["address"] == "02:00:00:00:00:01"
        assert interface["addr_info"][1]["local"] == "fe80::ff:fe00:1"
        key = "/sys/class/infiniband/nicscope0/ports/1/pkeys/0"
        told = subprocess.check_output(["cat", key], universal_newlines=True)
        assert int(told, 16) == 0xFFFF
        assert subprocess.check_output(["echo", "it"]) == b"it\n"
        assert os.path.isfile(HUGE_PAGES)  # noqa: PTH113 - as programs ask it
        with open(HUGE_PAGES) as file:  # noqa: PTH123
            assert int(file.read()) > 0
    assert subprocess.check_output is asked


@pytest.mark.skipif(
    FOLDER is None, reason="needs data: NICSCOPE_RDMA_TESTS names no folder of rdma-core 65.0"
)
def test_the_tests_of_rdma_core_do_not_fail_and_those_that_passed_pass():
    lines = (Path(__file__).parent / "rdma_core_passing.txt").read_text().splitlines()
    named = {line for line in lines if not line.startswith("#")}
    program = Path(str(FOLDER)) / "run_tests.py"
    found = subprocess.run(
        [sys.executable, "-m", "nicscope", "verbs", "run", "--json", str(program)],
        capture_output=True,
        check=False,
        text=True,
        cwd="/",
    )
    [run] = json.loads(found.stdout)["runs"]
    assert [t for t in run["tests"] if t["outcome"] == "failed"] == []
    others = {test["test"]: test["reason"] for test in run["tests"] if test["outcome"] != "passed"}
    assert {name: others[name] for name in named & others.keys()} == {}
    assert named <= {test["test"] for test in run["tests"]}


def test_what_is_set_on_a_design_changes_it_and_nothing_else(capsys):
    program = ["--design", "vmmc-interrupt", str(EXAMPLE), "2"]
    found = []
    for more in ([], ["--set", "entries=1"]):
        assert main(["verbs", "run", "--json", *more, *program]) == 0
        found.append(json.loads(capsys.readouterr().out)["runs"])

    [plain], [small] = found
    assert small["ni_misses"] > plain["ni_misses"]
    assert small["messages_out"] == plain["messages_out"]
    [own] = ns.run_verbs(EXAMPLE, ["2"], design="vmmc-interrupt", entries=1).found.runs
    assert own.ni_misses == small["ni_misses"]
    assert main(["verbs", "run", "--set", "entires=1", *program]) == 2
    assert "vmmc-interrupt" in capsys.readouterr().err
