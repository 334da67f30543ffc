"""U-Net/MM without pinning: a page that is out is brought, and nobody else waits for the disk."""

from nicscope.interfaces.unet import Cluster


async def absent(process):
    """Send from a page that the operating system has just taken."""
    endpoint = await process.open()
    tag = await endpoint.connect(1, "sink")
    letter = process.allocate(4096)
    await letter.write(b"from the disk".ljust(4096))
    taken = process.swap_out()
    await endpoint.send(tag, letter)
    await endpoint.sent(mode="block")  # who polls would keep the CPU
    print(f"{taken} page out; sent at {process.now_us / 1000:.1f} ms")


async def present(process):
    """Send from a page that is there, at the same time and over the same NI."""
    endpoint = await process.open()
    tag = await endpoint.connect(1, "sink")
    await process.sleep(500)
    letter = process.allocate(4096)
    await letter.write(b"from memory".ljust(4096))
    await endpoint.send(tag, letter)
    await endpoint.sent()
    print(f"no page out; sent at {process.now_us / 1000:.1f} ms")


async def sink(process):
    endpoint = await process.open("sink")
    await endpoint.provide(*(process.allocate(4096) for _ in range(2)))
    for _ in range(2):
        message = await endpoint.receive(mode="block")
        print(f"got {(await message.read()).strip().decode()!r}")


cluster = Cluster("unet-mm-pca200")
cluster.start(0, absent)
cluster.start(0, present)
cluster.start(1, sink)
cluster.run()
counts = cluster.counts(0)
print(f"node 0: {counts['ni_misses']} misses, {counts['pins']} pages pinned")
