"""A kernel's two users of one Trapeze endpoint: remote memory and a stream, from one page pool.

Pages that are asked for come through the incoming payload table straight into the frame that will
hold them.  What a stream brings is mapped into the reader where a whole page goes to a whole page,
and copied where not (Trapeze, 2.2).  Every byte is checked.

python examples/trapeze_kernel.py
"""

from __future__ import annotations

from nicscope.interfaces.trapeze import Cluster, Endpoint, PageMap, PagePool

PAGE = 8192
PAGES = 6  # that another host keeps for this one
FILE = 5 * PAGE + 1000  # bytes: its last block is no whole page
ASK, READ, END = b"ask.", b"read", b"end."


def page_of(number: int) -> bytes:
    """What page ``number`` holds."""
    return bytes((number * 37 + i) % 251 for i in range(PAGE))


CONTENT = b"".join(page_of(number) for number in range(100, 106))[:FILE]


async def client(endpoint: Endpoint) -> dict[str, object]:
    """Fetch remote pages, then read a file twice: at a page's begin, and 100 bytes behind it."""
    pool = PagePool(endpoint, 24, PAGE)
    began = endpoint.now_us
    for number in range(PAGES):
        frame = pool.take()
        endpoint.map_payload(number, frame)
        endpoint.reserve(8)[:] = ASK + number.to_bytes(4, "little")
        await endpoint.send(1)
        answer = await endpoint.receive()
        assert (answer.tag, answer.own) == (number, False)
        assert bytes(frame.bytes) == page_of(number)
        endpoint.unmap_payload(number)
        pool.give_back(frame)
    fetched_us = (endpoint.now_us - began) / PAGES
    reads = [await read_file(endpoint, pool, at) for at in (0, 100)]
    endpoint.reserve(8)[:] = END + bytes(4)
    await endpoint.send(1)
    return {"fetch_us": fetched_us, "reads": reads}


async def read_file(endpoint: Endpoint, pool: PagePool, at: int) -> tuple[int, int, float]:
    """Read the file to ``at`` of a buffer; payloads mapped, copied, and us."""
    reader = PageMap(pool, 7)
    endpoint.reserve(8)[:] = READ + bytes(4)
    await endpoint.send(1)
    began, came = endpoint.now_us, 0
    while came < FILE:
        block = await endpoint.receive()
        offset = int.from_bytes(block.scan(4), "little")
        came += block.byte_count
        await reader.put(block, at + offset)
    assert reader.content()[at : at + FILE] == CONTENT
    reader.close()
    return reader.mapped, reader.copied, endpoint.now_us - began


async def server(endpoint: Endpoint) -> None:
    """Keep pages and a file for others."""
    pages = [endpoint.allocate(PAGE, align=PAGE) for _ in range(PAGES)]
    for number, page in enumerate(pages):
        await page.write(page_of(number))
    file = endpoint.allocate(FILE, align=PAGE)
    await file.write(CONTENT)
    while True:
        asked = await endpoint.receive()
        word, number = asked.scan(4), int.from_bytes(asked.scan(4), "little")
        endpoint.release(asked)
        if word == END:
            return
        if word == ASK:
            await endpoint.send(0, pages[number], tag=number)
            continue
        for begin in range(0, FILE, PAGE):
            endpoint.reserve(4)[:] = begin.to_bytes(4, "little")
            await endpoint.send(0, file.part(begin, min(PAGE, FILE - begin)))


def main() -> None:
    """One line per use."""
    cluster = Cluster(["pentium2-440lx", "p6-natoma"], max_payload=PAGE)
    cluster.start(0, client)
    cluster.start(1, server)
    found, _ = cluster.run()
    print(f"remote memory: {PAGES} pages of {PAGE} bytes, {found['fetch_us']:.1f} us each")
    for where, (mapped, copied, took) in zip((0, 100), found["reads"], strict=True):
        print(
            f"file of {FILE} bytes, to byte {where:3} of a page: {mapped} payloads mapped, "
            f"{copied} copied, {took:.1f} us"
        )


if __name__ == "__main__":
    main()
