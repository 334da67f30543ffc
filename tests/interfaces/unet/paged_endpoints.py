"""Two endpoints of U-Net/MM whose pages come and go."""

import msgspec

from nicscope.config.design import load_design
from nicscope.interfaces.unet import Cluster
from program_results import results_of

PAGE = 4096


DISK_US = 22_000


def small_table(entries=4, victims=2):
    return msgspec.structs.replace(
        load_design("unet-mm-pca200"), entries=entries, victim_entries=victims
    )


def run(*programs, design="unet-mm-pca200", **settings):
    """Run (node, program) pairs; what they return, and the cluster."""
    cluster = Cluster(design, **settings)
    results = results_of(cluster, *programs)
    assert (cluster.simulation.machine.ports.nodes["stale"] == 0).all()
    return results, cluster


async def written(process, fill, length=PAGE):
    """A buffer full of ``fill``."""
    room = process.allocate(length)
    await room.write(bytes([fill]) * length)
    return room


async def pong(process):
    """Be there, and hear nothing."""
    await process.open("pong")
