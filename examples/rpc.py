"""Remote procedure calls over U-Net endpoints: a server, and clients on two other hosts.

python examples/rpc.py

A call is one message, ["name", argument, ...] in JSON; the answer goes back by the tag of the
channel that the call came by, so the server never looks up who asked.  Endpoints of U-Net lose what
finds no buffer, so each side provides buffers before anything can come.
"""

from __future__ import annotations

import json
from typing import Any

from nicscope.interfaces.unet import Cluster

LETTER = 4096  # bytes: the longest call or answer
CALLS = {
    "add": lambda *numbers: sum(numbers),
    "reverse": lambda text: text[::-1],
    "count": lambda text: len(text.split()),
}
ASKED = [("add", 1, 2, 3), ("reverse", "abc"), ("count", "a b " * 200)]
CLIENTS = (1, 2)  # nodes


async def call(endpoint: Any, server: Any, letter: Any, *words: object) -> Any:
    """What the server's procedure returns for these arguments."""
    content = json.dumps(words).encode()
    await letter.write(content)
    await endpoint.send(server, letter.part(0, len(content)))
    answer = await endpoint.receive("block")
    content = await answer.read()
    await endpoint.provide(*answer.buffers)  # for the next answer
    return json.loads(content)


async def client(process: Any) -> list[tuple[Any, float]]:
    """Each answer, and the us that it took."""
    endpoint = await process.open()
    await endpoint.provide(endpoint.allocate(LETTER))
    letter = endpoint.allocate(LETTER)
    server = await endpoint.connect(0, "procedures")
    answers = []
    for words in ASKED:
        began = process.now_us
        answer = await call(endpoint, server, letter, *words)
        answers.append((answer, process.now_us - began))
    return answers


async def server(process: Any) -> None:
    """Answer the calls of all clients, in the order in which they come, for as long as any asks."""
    endpoint = await process.open("procedures")
    await endpoint.provide(*(endpoint.allocate(LETTER) for _ in CLIENTS))  # each asks one at a time
    letter = endpoint.allocate(LETTER)
    while True:
        asked = await endpoint.receive("block")
        name, *arguments = json.loads(await asked.read())
        await endpoint.provide(*asked.buffers)  # for the next call
        content = json.dumps(CALLS[name](*arguments)).encode()
        await letter.write(content)
        await endpoint.send(asked.tag, letter.part(0, len(content)))
        await endpoint.sent("block")  # until then the letter is the NIC's


def main() -> None:
    """Print each client's answers."""
    cluster = Cluster("unet-mm-pca200", nodes=3)
    cluster.start(0, server, daemon=True)  # the run does not wait for it
    for node in CLIENTS:
        cluster.start(node, client)
    _, *found = cluster.run()
    for node, answers in zip(CLIENTS, found, strict=True):
        for words, (answer, took) in zip(ASKED, answers, strict=True):
            print(f"client {node}: {words[0]:8} {answer!s:>6}  {took:6.1f} us")


if __name__ == "__main__":
    main()
