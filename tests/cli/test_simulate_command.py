"""``nicscope simulate`` as a person, a program and a folder see it."""

import json
import re
from pathlib import Path
from textwrap import dedent

import pyarrow.parquet as pq
import pytest

from nicscope.cli.app import main
from refusals import refused_command

DOCS = Path(__file__).parents[2] / "docs"
TRACE = ["simulate", "bundled:redis_server", "--requests", "40", "--design", "utlb"]

PROGRAM = """
    from nicscope.interfaces.ports.cluster import PortCluster
    from nicscope.nic.ports.layout import SEND

    def connect(process, peer):
        channel = process._ports.channels[process.node, 3]
        for name, value in {"port": 1, "node": peer, "tag": 3, "unit": 4096, "most": 64}.items():
            channel[name] = value

    async def client(process):
        connect(process, 1)
        await process.post_inline(SEND, 3, b"hello")
        return await process.done()

    async def server(process):
        connect(process, 0)
        found = await process.arrival()
        return found.content[:found.length]

    def main():
        cluster = PortCluster("utlb")
        cluster.start(0, client)
        cluster.start(1, server)
        print(cluster.run()[1])
"""


def test_a_trace_makes_tables_of_its_designs(capsys):
    assert main([*TRACE, "--design", "mini"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "redis_server.parquet: 40 requests, 1 node, 4 KiB pages"
    named = [line.split()[0] for line in lines if line.startswith(("utlb", "mini"))]
    assert named == ["utlb", "mini"] * 2


def test_a_folder_of_a_trace_has_parts_that_add_up_and_the_counts_of_a_replay(tmp_path, capsys):
    assert main([*TRACE, "--out", str(tmp_path / "found")]) == 0

    assert "written:" in capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "found").iterdir())
    assert names == ["designs.parquet", "results.json", "times.parquet"]
    found = json.loads((tmp_path / "found" / "results.json").read_text())
    (result,) = found["results"]
    rows = pq.read_table(tmp_path / "found" / "times.parquet").to_pylist()
    assert sum(row["part_ps"] for row in rows) == pytest.approx(result["busy_us"] * 1e6)
    assert sum(result["parts_us"].values()) == pytest.approx(result["busy_us"])
    assert result["requests"] == result["total"]["requests"] == 40
    assert found["repeat"]["command"] == ["nicscope", *TRACE[:2], "--design", "utlb",
                                          "--requests", "40"]  # fmt: skip


def test_a_program_is_run_and_what_it_prints_is_not_in_the_json(program, capsys):
    path = program(PROGRAM)
    assert main(["simulate", path]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "b'hello'"
    assert lines[1].startswith("utlb, pci, adaptive on utlb-prototype, 2 nodes, ")
    rows = [line.split() for line in lines if line.lstrip().startswith(("0 ", "1 "))]
    assert rows[0] == ["0", "1", "1", "0", "5", "0", "1", "0"]
    assert rows[1] == ["1", "1", "0", "1", "0", "5", "0", "0"]

    assert main(["simulate", path, "--json"]) == 0
    out, err = capsys.readouterr()
    (run,) = json.loads(out)["runs"]
    assert run["design"] == "utlb"
    assert [node["messages_in"] for node in run["nodes"]] == [0, 1]
    assert all(0 < node["cpu_share"] <= 1 for node in run["nodes"])
    assert "hello" in err


TRAPEZE = """
    from nicscope.interfaces.trapeze import Cluster

    async def client(endpoint):
        page = endpoint.allocate(3000)
        await endpoint.send(1, page)
        await endpoint.sent()

    async def server(endpoint):
        endpoint.release(await endpoint.receive())

    def main():
        for policy in ("adaptive", "store-and-forward"):
            cluster = Cluster("p6-natoma", policy=policy)
            cluster.start(0, client)
            cluster.start(1, server)
            cluster.run()
"""
VIA = re.findall(r"```python\n(.*?)```", (DOCS / "via.md").read_text(), re.DOTALL)[0]


@pytest.mark.parametrize(
    ("text", "heads", "nulls"),
    [
        (PROGRAM, ["utlb, pci, adaptive on utlb-prototype"], {"interface"}),
        (
            TRAPEZE,
            ["Trapeze: pci, adaptive on p6-natoma", "Trapeze: pci, store-and-forward on p6-natoma"],
            {"design"},
        ),
        (VIA, ["VIA: via-static, edt, store-and-forward on sonic-via"], set()),
    ],
    ids=["ports", "Trapeze", "VIA"],
)
def test_every_interface_has_a_report_a_folder_and_a_timeline_and_tells_no_zero_for_what_it_has_not(
    program, capsys, tmp_path, text, heads, nulls
):
    path, drawn = program(text), tmp_path / "drawn.json"

    assert main(["simulate", path, "--timeline", str(drawn), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert main(["simulate", path, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)

    assert json.loads((tmp_path / "out" / "results.json").read_text()) == plain
    assert [head for head in heads if f"{head}, 2 nodes, " in out] == heads
    assert out.splitlines()[-2:] == [f"  {tmp_path / 'out' / 'results.json'}", f"  {drawn}"]
    assert len(plain["runs"]) == len(heads)
    for run in plain["runs"]:
        assert {name for name, value in run.items() if value is None} == nulls
        shown = out.partition(run["platform"])[2].partition("written:")[0]
        for heading, value in {
            "again": run["total"]["sent"]["again"],
            "lost": run["total"]["received"]["lost"],
            "Lookups on the NIC": run["total"]["lookups"],
            "page-ins": run["total"]["page_ins"],
            "link": run["nodes"][0]["link_share"],
        }.items():
            assert (heading in shown) == (value is not None), heading
    slices = [e for e in json.loads(drawn.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {one["pid"] for one in slices} == set(range(2 * len(heads)))


def test_a_timeline_on_standard_output_is_all_that_is_there_and_html_is_a_page(
    program, capfd, tmp_path
):
    path, page = program(TRAPEZE), tmp_path / "t.html"
    assert main(["simulate", path, "--timeline", "-"]) == 0

    out, err = capfd.readouterr()
    assert json.loads(out)["traceEvents"]
    assert "Trapeze: pci, adaptive on p6-natoma, 2 nodes" in err

    assert main(["simulate", path, "--timeline", str(page)]) == 0
    text = page.read_text()
    assert text.lower().startswith("<!doctype html>")
    assert '"tracks":[["run 1, node 0"' in text
    assert "Trapeze: pci" in text


def test_a_timeline_that_could_not_hold_all_says_what_it_holds(
    program, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr("nicscope.studies.timeline.MOST_RECORDS", 20)

    assert main(["simulate", program(TRAPEZE), "--timeline", str(tmp_path / "t.json")]) == 0

    assert "t.json: the first 20 of " in capsys.readouterr().err
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 20


def test_a_cluster_by_that_name_is_run_without_a_main(program, capsys):
    text = PROGRAM.replace("def main():", "if True:").replace("print(cluster.run()[1])", "pass")

    assert main(["simulate", program(text)]) == 0

    assert capsys.readouterr().out.startswith("utlb, pci, adaptive")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("def mian(): pass", ["main()", "'mian'"]),
        ("def main(): pass", ["program.py: ", "cluster.run()"]),
        ("async def main(): pass", ["program.py:1: main()", "'async def'", "'def'"]),
        ("def main(trace): pass", ["program.py:1: main()", "arguments"]),
        (
            'def main():\n    from nicscope.interfaces.ports.cluster import PortCluster\n'
            '    PortCluster("utbl")',
            ["program.py:3: ", "'utbl'", "'utlb'"],
        ),
    ],
)  # fmt: skip
def test_a_program_that_cannot_run_takes_one_line(program, capsys, text, facts):
    refused_command(capsys, ["simulate", program(text)], *facts)


HELPER = """
def fail(what):
    try:
        {}[what]
    except KeyError as error:
        raise ValueError(f"no {what}") from error
"""
FAILING = PROGRAM.replace('await process.post_inline(SEND, 3, b"hello")', 'helper.fail("peer")')
FAILS = {  # a program: what its author is shown, but for the lines of the sources
    "import helper\n" + dedent(FAILING): [
        "Traceback (most recent call last):",
        '  File "HELPER", line 4, in fail',
        "KeyError: 'peer'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "PROGRAM", line 25, in main',
        '  File "PROGRAM", line 13, in client',
        '  File "HELPER", line 6, in fail',
        "ValueError: no peer",
        "in process 0 of node 0, client(), HELPER:6, at 0 us",
    ],
    "import json\ndef main():\n    json.loads('{')": [
        "Traceback (most recent call last):",
        '  File "PROGRAM", line 3, in main',
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
        "  raised in raw_decode, ...",
    ],
    "def main(:\n    pass": [
        '  File "PROGRAM", line 1',
        "SyntaxError: invalid syntax",
    ],
    "import broken": [
        "Traceback (most recent call last):",
        '  File "PROGRAM", line 1, in <module>',
        '  File "BROKEN", line 1',
        "SyntaxError: '(' was never closed",
    ],
    "import nowhere": [
        "Traceback (most recent call last):",
        '  File "PROGRAM", line 1, in <module>',
        "ModuleNotFoundError: No module named 'nowhere'",
    ],
    "open('absent')": [
        "Traceback (most recent call last):",
        '  File "PROGRAM", line 1, in <module>',
        "FileNotFoundError: [Errno 2] No such file or directory: 'absent'",
    ],
}


@pytest.mark.parametrize("text", FAILS, ids=["raises", "library", "syntax", "module", "none", "os"])
def test_what_a_program_raises_is_shown_with_its_own_frames_alone_and_the_status_is_1(
    program, capsys, tmp_path, text
):
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "broken.py").write_text("x = (")

    assert main(["simulate", program(text), "--out", str(tmp_path / "found")]) == 1

    assert not (tmp_path / "found").exists()
    err = capsys.readouterr().err
    for name in ("program", "helper", "broken"):
        err = err.replace(str(tmp_path / f"{name}.py"), name.upper())
    told = [line for line in err.splitlines() if not line.startswith(("    ", "compiling "))]
    told = [line.split(", /")[0] + ", ..." if "raised in" in line else line for line in told]
    assert told == FAILS[text]


@pytest.mark.parametrize(
    ("leaving", "status", "shown"),
    [("3", 3, ""), ("'enough'", "enough", ""), ("", 0, "utlb, pci, adaptive on utlb-prototype")],
)
def test_a_program_that_leaves_decides_on_the_status(program, capsys, leaving, status, shown):
    text = dedent(PROGRAM) + f"    import sys; sys.exit({leaving})\n"

    try:
        found = main(["simulate", program(text)])
    except SystemExit as error:
        found = error.code

    assert found == status
    assert shown in capsys.readouterr().out


def test_a_forgotten_await_is_named_by_its_line(program, capsys):
    text = PROGRAM.replace('await process.post_inline(SEND, 3, b"hello")', "process.sleep(5)")
    text = text.replace("return await process.done()", "return await process.sleep(1)")
    text = text.replace("await process.arrival()", "await process.sleep(1)")
    path = program(text.replace("return found.content[:found.length]", "return found"))

    facts = ("process.sleep()", "'await process.sleep(...)'", "process 0 of node 0", "client()")
    refused_command(capsys, ["simulate", path], f"{path}:12: ", *facts)


@pytest.mark.requirement("SH-2")
def test_a_cache_that_the_nic_has_no_room_for_is_refused_with_how_much_is_too_much(capsys):
    small = "utlb-prototype@nic_memory_bytes=64KiB"
    line = refused_command(
        capsys, [*TRACE, "--platform", small], "tags 32,768", f"65,536 (assumed: {small})"
    )
    assert line.count(" too many") == 1
    assert main([*TRACE, "--platform", "utlb-prototype@nic_memory_bytes=256KiB"]) == 0


def test_runs_that_go_on_in_turns_are_told_once_each(program, capsys):
    path = program("""
        from nicscope.interfaces.unet import Cluster

        async def waits(process):
            await process.sleep(50)
            await process.sleep(50)

        def main():
            clusters = Cluster("unet", nodes=1), Cluster("unet", nodes=1)
            for cluster in clusters:
                cluster.start(0, waits)
            for until_us in (20, 70, None):
                for cluster in clusters:
                    cluster.run(until_us)
    """)
    assert main(["simulate", path, "--json"]) == 0

    runs = json.loads(capsys.readouterr().out)["runs"]
    assert len(runs) == 2
    assert all(run["elapsed_us"] >= 100 for run in runs)


def test_a_program_may_do_with_the_path_of_its_imports_what_it_wants(program, capsys):
    path = program("""
        import sys
        from nicscope.interfaces.unet import Cluster

        sys.path.pop(0)

        async def ends(process):
            print("ended")

        def main():
            cluster = Cluster("unet", nodes=1)
            cluster.start(0, ends)
            cluster.run()
    """)
    assert main(["simulate", path]) == 0

    assert "ended" in capsys.readouterr().out
