"""Tasks of one process post descriptors at its one port."""

from __future__ import annotations

import pytest

from nicscope.interfaces import Cluster


@pytest.mark.parametrize("design", ["utlb", "mini"])  # on hosts with one processor, and with two
def test_tasks_that_post_at_the_same_time_each_post_their_own(design):
    cluster = Cluster(design, interface="mini") if design == "mini" else Cluster(design)

    async def receiver(end):
        box = end.allocate(4096)
        await (end.register(box, name="box") if design == "mini" else end.export(box, "box"))
        await end.sleep(20_000)
        return list(await box.read(6))

    async def sender(end):
        if design == "mini":
            box = await end.open(await end.find("box"))
        else:
            box = await end.import_buffer(0, "box")
        page = end.allocate(4096)
        await page.write(bytes(range(1, 7)))

        async def posts(at):
            if design == "mini":
                await end.write(box, page, 1, offset=at, at=at, notify=False)
            else:
                await end.store(box, page, at, at=at, length=1)

        tasks = [end.spawn(posts(at)) for at in range(6)]
        for task in tasks:
            await task.join()
        await end.sleep(10_000)

    cluster.start(0, receiver)
    cluster.start(1, sender, tasks=6)

    assert cluster.run()[0] == [1, 2, 3, 4, 5, 6]
