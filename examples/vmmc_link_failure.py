"""A link dies in the middle of traffic: the NICs go another way, and nothing is lost or doubled.

python examples/vmmc_link_failure.py
"""

from __future__ import annotations

from nicscope.interfaces import Faults, Topology, crossbar, redundant
from nicscope.interfaces.vmmc import Cluster, Endpoint

MESSAGES = 24
DIES_US = 600
LINK = 1  # from node 1 to the first switch


async def receiver(endpoint: Endpoint) -> list[int]:
    """What came, in the order in which it came."""
    inbox = endpoint.allocate(4096)
    await endpoint.export(inbox, "inbox")
    came = []
    for _ in range(MESSAGES):
        await endpoint.notification("poll")
        came.append((await inbox.read(1))[0])
    return came


async def exporter(endpoint: Endpoint) -> None:
    """Export, and leave: where the sender gives up, nobody should wait for what will not come."""
    await endpoint.export(endpoint.allocate(4096), "inbox")


async def sender(endpoint: Endpoint) -> tuple[int, str, float]:
    """Send numbers, each to its end; how many were sent, the last status, the longest wait."""
    remote = await endpoint.import_buffer(0, "inbox")
    page = endpoint.allocate(4096)
    longest = 0.0
    for number in range(1, MESSAGES + 1):
        await page.write(bytes([number]))
        began = endpoint.now_us
        ended = await endpoint.wait(await endpoint.store(remote, page, length=64, notify=True))
        longest = max(longest, endpoint.now_us - began)
        if not ended.ok:
            return number - 1, ended.status, longest
    return MESSAGES, "done", longest


def report(name: str, topology: Topology, deaths: dict[int, int]) -> None:
    """Run it and print a line."""
    cluster = Cluster("utlb", topology=topology, faults=Faults(link_deaths=deaths))
    cluster.start(0, receiver if topology.has_several_ports() else exporter)
    cluster.start(1, sender)
    came, (sent, status, longest) = cluster.run()
    order = "" if came is None else f", in order: {came == list(range(1, MESSAGES + 1))}"
    remaps = cluster.served(0)["remaps"] + cluster.served(1)["remaps"]
    print(f"{name:32} {sent:2} stored, {status}{order}; longest {longest:8.1f} us, {remaps} remaps")


def main() -> None:
    """One switch and two, with and without a death."""
    dies = {LINK: DIES_US * 1_000_000}
    report("two switches, all alive", redundant(2), {})
    report("two switches, a link dies", redundant(2), dies)
    report("one switch, the link dies", crossbar(2), dies)


if __name__ == "__main__":
    main()
