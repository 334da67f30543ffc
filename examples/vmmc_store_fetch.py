"""Two processes share a table by remote store and remote fetch, under five ways to translate.

python examples/vmmc_store_fetch.py
"""

from __future__ import annotations

from nicscope.interfaces.vmmc import Cluster, Endpoint

TABLE = 4 * 4096


async def owner(endpoint: Endpoint) -> bytes:
    """Export a table and wait until somebody has written to it."""
    table = endpoint.allocate(TABLE)
    await table.write(b"untouched" * 1000)
    await endpoint.export(table, "table", allow=1)
    written = await endpoint.notification()
    return await table.read(written.length, written.offset)


async def user(endpoint: Endpoint) -> list[float]:
    """Fetch the whole table and store into its middle; us of the fetch, first and again."""
    remote = await endpoint.import_buffer(0, "table")
    copy = endpoint.allocate(TABLE)
    times = []
    for _ in range(2):
        began = endpoint.now_us
        assert (await endpoint.wait(await endpoint.fetch(remote, copy))).ok
        times.append(endpoint.now_us - began)
    await copy.write(b"here I was")
    await endpoint.wait(await endpoint.store(remote, copy, 6000, length=10, notify=True))
    return times


def main() -> None:
    """One line per design: what came over, and what the first use of a page adds."""
    for design in ("utlb", "utlb-shared", "utlb-process", "vmmc-static", "vmmc-interrupt"):
        cluster = Cluster(design)
        cluster.start(0, owner)
        cluster.start(1, user)
        text, (first, again) = cluster.run()
        interrupts = cluster.served(0)["interrupts"] + cluster.served(1)["interrupts"]
        print(
            f"{design:14} {text.decode()!r}  fetch of 16 KB: {first:6.1f} us, "
            f"again {again:6.1f} us, {interrupts} interrupts"
        )


if __name__ == "__main__":
    main()
