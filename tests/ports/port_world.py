"""Clusters of processes with ports, joined by hand as an operating system does it."""

import numpy as np

from nicscope.config.design import Scheme
from nicscope.drivers.simulate.ports.connections import connect_ports
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.nic.ports.layout import MAY_FETCH, MAY_WRITE

PAGE = 4096
LIBRARIES = ("utlb", "utlb-shared", "utlb-process")  # pages are the library's to pin
DESIGNS = ("vmmc-static", "vmmc-interrupt", "unet-mm-pca200", "mini", "utlb")


def cluster_of(design, **how):
    """A cluster of ``design`` on its own platform, or on the LANai of VMMC's."""
    return PortCluster(design, **how)


def run_on_nodes(cluster, *programs):
    """Run on each node its program, or several of them; what they returned."""
    for node, own in enumerate(programs):
        for program in own if isinstance(own, tuple) else (own,):
            cluster.start(node, program)
    return cluster.run()


def join(process, tag, node, peer_tag, **size):
    """Register ``tag`` for ``process``: messages to and from ``peer_tag`` of ``node``."""
    channel = process._ports.channels[process.node, tag]
    channel["port"] = process.port
    channel["node"] = node
    channel["tag"] = peer_tag
    channel["unit"] = size.get("unit", PAGE)
    channel["most"] = size.get("most", 1 << 16)
    channel["stream"] = size.get("stream", 0)


def connect(process, port, node, peer_port, level, unit=PAGE):
    """Make ``port`` of ``process`` and one of ``node`` each other's peers, as channels 'port'."""
    ports = process._ports
    for end in ((process.node, port), (node, peer_port)):
        ports.table[end]["longest"] = 1 << 16
    connect_ports(ports, (process.node, port), (node, peer_port), level, unit)


def export(process, number, address, length, rights=3):
    """Let every process of the cluster store to, and fetch from, a stretch of memory."""
    record = process._ports.shared.exports[process.node, number]
    record["valid"] = 1
    record["port"] = process.port
    record["space"] = process.number
    record["start"] = address
    record["length"] = length
    record["rights"] = rights
    record["node"] = -1
    record["importer"] = -1


def import_from(process, handle, node, number, start, length):
    """Let ``process`` use export ``number`` of ``node``, which begins at address ``start``."""
    record = process._ports.shared.imports[process.node, handle]
    record["port"] = process.port
    record["node"] = node
    record["export"] = number
    record["start"] = start % PAGE
    record["length"] = length
    record["rights"] = MAY_WRITE | MAY_FETCH


def memory_of(process, address, count):
    """What the process would read there; takes no time."""
    return process._memory.read(process.node, process.number, address, count)


def uses_left(cluster):
    """For each node, transfers and requests that hold pages, but for buffers that wait."""
    assert cluster.simulation is not None
    ports = cluster.simulation.machine.ports
    host = ports.translations.host
    keeps = cluster.design.scheme not in (Scheme.INTERRUPT, Scheme.UNET_MM)
    left = []
    for node in range(cluster.topology.nodes):
        table = ports.table[node]
        ready = int((table["ready_in"] - table["ready_out"]).sum())
        waiting = int((table["free_posted"] - table["free_taken"]).sum()) if keeps else 0
        assert host.pinning.held[node].min() >= 0
        held = int(host.pinning.held[node].sum()) - ready - waiting
        moving = int(host.in_use[node].sum()) - (0 if keeps else ready)
        left.append(abs(held) + abs(moving))
    return left


def stale(cluster):
    """Transfers with a translation that no longer held."""
    assert cluster.simulation is not None
    return int(cluster.simulation.machine.ports.nodes["stale"].sum())


def content(seed, count):
    """``count`` bytes that differ from place to place and from seed to seed."""
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).tobytes()


def buffers_of(process, addresses, length, unit=PAGE):
    """The message of ``length`` bytes that fills these buffers."""
    whole = b"".join(memory_of(process, address, unit) for address in addresses)
    return whole[:length]
