"""Two processes on U-Net/MM endpoints: what a round trip takes, small and large."""

from nicscope.interfaces.unet import Cluster

ROUNDS = 10


async def ping(process):
    endpoint = await process.open()
    tag = await endpoint.connect(1, "pong")
    room = endpoint.allocate(4096)
    await room.write(b"x" * 4096)
    await endpoint.provide(*(endpoint.allocate(4096) for _ in range(ROUNDS + 1)))
    for length in (40, 1000, 4000):
        begun = 0.0
        for turn in range(ROUNDS // 3 + 1):
            if turn == 1:  # the first one finds no translation
                begun = process.now_us
            await endpoint.send(tag, room.part(0, length))
            answer = await endpoint.receive()
            assert answer.length == length
        print(
            f"{length:5} bytes: {(process.now_us - begun) / (ROUNDS // 3):7.1f} us there and back"
        )


async def pong(process):
    endpoint = await process.open("pong")
    await endpoint.provide(*(endpoint.allocate(4096) for _ in range(ROUNDS)))
    for _ in range(3 * (ROUNDS // 3 + 1)):
        message = await endpoint.receive()
        content = await message.read()
        if message.buffers:
            await endpoint.send(message.tag, message.buffers[0])
        else:
            await endpoint.send(message.tag, content)


cluster = Cluster("unet-mm-pca200")
cluster.start(0, ping)
cluster.start(1, pong)
cluster.run()
print("pinned for the network:", *cluster.memory.state.hosts["pinned"], "pages")
