"""Programs run in Jupyter's own running loop: in a real kernel, as a notebook's cells."""

import os

import pytest

CELLS = (
    """
import asyncio
assert asyncio.get_running_loop().is_running()
from nicscope.interfaces import Cluster
cluster = Cluster("utlb", pin_limit=64, keep_log=1000)

async def owner(endpoint):
    await endpoint.export(endpoint.allocate(4096), "table")
    await endpoint.sleep(2000)

async def writer(endpoint):
    remote = await endpoint.import_buffer(0, "table")
    page = endpoint.allocate(4096)
    await page.write(b"hello")
    assert (await endpoint.wait(await endpoint.store(remote, page))).ok
    return endpoint.now_us

cluster.start(0, owner)
cluster.start(1, writer)
times = cluster.run()
times
""",
    "cluster.report()",
    "cluster.report().table('process').to_pandas()[['node', 'process', 'messages_out']]",
    "cluster",
    "await asyncio.sleep(0); print(cluster.report())",
)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_cluster_runs_in_a_cell_and_its_report_shows_itself(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", os.environ.get("NUMBA_DISABLE_JIT", "0"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_ALLOW_INSECURE_WRITES", "1")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])

    nbclient.NotebookClient(book, timeout=240, kernel_name="python3").execute()

    shown = [
        output["data"] if "data" in output else {"text/plain": output["text"]}
        for cell in book.cells
        for output in cell.outputs
        if output.get("name") != "stderr"
    ]
    assert shown[0]["text/plain"].startswith("[None, ")
    assert shown[1]["text/html"].startswith("<h3>VMMC: utlb, pci, adaptive on utlb-prototype, 2")
    assert "messages_out" in shown[2]["text/html"]
    assert shown[3]["text/plain"].startswith("<Cluster of 2 nodes, 2 programs: VMMC: utlb")
    assert shown[4]["text/plain"].startswith("VMMC: utlb, pci, adaptive on utlb-prototype")
    told = [output for cell in book.cells for output in cell.outputs if "name" in output]
    assert all(output["name"] != "stderr" for output in told)
