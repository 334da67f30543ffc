"""VMMC: remote store and remote fetch between exported and imported buffers, over the UTLBs.

    async def reader(endpoint: Endpoint) -> bytes:
        remote = await endpoint.import_buffer(1, "table")
        page = endpoint.allocate(4096)
        await endpoint.wait(await endpoint.fetch(remote, page))
        return await page.read()

Source: UTLB, 3 and 4 (``docs/vmmc.md``).
"""

from nicscope.interfaces.vmmc.cluster import Cluster
from nicscope.interfaces.vmmc.directory import Exported, Imported, Transfer
from nicscope.interfaces.vmmc.endpoint import Completion, Endpoint, Notification
from nicscope.interfaces.vmmc.library import PinnedPage

__all__ = [
    "Cluster",
    "Completion",
    "Endpoint",
    "Exported",
    "Imported",
    "Notification",
    "PinnedPage",
    "Transfer",
]
