"""A client asks a server for a page, twice."""

from nicscope.interfaces.unet import Cluster


async def client(process):
    endpoint = await process.open()
    server_tag = await endpoint.connect(1, "server")
    await endpoint.provide(endpoint.allocate(4096), endpoint.allocate(4096))
    for attempt in ("first", "again"):
        began = process.now_us
        await endpoint.send(server_tag, b"a page, please")
        answer = await endpoint.receive()
        page = await answer.read()
        print(f"{attempt}: {len(page)} bytes in {process.now_us - began:.1f} us")


async def server(process):
    endpoint = await process.open("server")
    page = endpoint.allocate(4096)
    await page.write(b"x" * 4096)
    for _ in range(2):
        question = await endpoint.receive()
        await endpoint.send(question.tag, page)


cluster = Cluster("utlb")
cluster.start(0, client)
cluster.start(1, server)
cluster.run()
