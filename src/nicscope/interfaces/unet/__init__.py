"""U-Net and U-Net/MM: endpoints with a send, a free and a receive queue, over any design.

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await endpoint.send(tag, b"hello")

Source: U-Net/MM, sections 4 and 5 (``docs/unet.md``).
"""

from nicscope.interfaces.unet.cluster import Cluster, Process
from nicscope.interfaces.unet.endpoint import Endpoint, Message
from nicscope.interfaces.unet.links import AtmCircuits, EthernetPorts, TagForm

__all__ = [
    "AtmCircuits",
    "Cluster",
    "Endpoint",
    "EthernetPorts",
    "Message",
    "Process",
    "TagForm",
]
