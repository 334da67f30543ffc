"""Two processes with memory on each interface, for what every interface's memory does alike."""

from nicscope.interfaces import mini, trapeze, unet, via, vmmc


async def of_endpoint(process):
    return (await process.open()).allocate


async def of_nic(host):
    return (await host.open_nic()).allocate


async def of_process(process):
    return process.allocate


MEMORIES = {
    "U-Net": (unet.Cluster, of_process),
    "U-Net, pinned area": (
        lambda: unet.Cluster("unet", "pca200-linux", area_bytes=64 * 4096),
        of_endpoint,
    ),
    "VMMC": (vmmc.Cluster, of_process),
    "miNI": (mini.Cluster, of_process),
    "Trapeze": (lambda: trapeze.Cluster("p6-natoma"), of_process),
    "VIA": (via.Cluster, of_nic),
}


def run(name, *programs):
    """What ``programs`` return, each of which is given what allocates memory on its node."""
    make, allocating = MEMORIES[name]
    cluster = make()

    def of(program):
        async def play(given):
            return await program(await allocating(given))

        return play

    for node, program in enumerate(programs):
        cluster.start(node, of(program))
    return cluster.run()
