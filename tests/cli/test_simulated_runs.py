"""Programs of several runs, and of ways of their own, as ``nicscope simulate`` tells of them."""

from __future__ import annotations

import json

from nicscope.cli.app import main


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
