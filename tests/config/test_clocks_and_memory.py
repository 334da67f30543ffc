"""Another NIC of the same kind: its processor's clock, the host's, and how much memory it has."""

import pytest

from nicscope.config.costs import COSTS, Evidence
from nicscope.config.platform import BY_HOST, BY_NI, HOST, NI, excess_of, load_platform
from nicscope.errors import SimulationError, StudyError
from nicscope.interfaces.mini import Cluster as MiniCluster
from nicscope.interfaces.vmmc import Cluster
from nicscope.studies.sizing import ask
from refusals import refused

# Of each word of a bus, a link, memory, a disk or a timer: no processor's clock changes it.
OWN_TIME = {
    "copy_start", "copy_per_byte", "post", "poll", "page_fault", "page_out", "ni_dma",
    "icm_fetch", "ni_handshake", "retry_timeout", "l1_latency", "l2_latency", "bus_cycle",
    "memory_latency",
    "cache_supply", "device_latency", "flush_instruction", "reaction", "queue_poll",
    "retransmission", "pio_write", "pio_read", "pio_write_burst", "pio_read_burst",
    "block_copy_per_byte", "block_copy_contended_per_byte", "pci_read_per_byte",
    "pci_read_contended_per_byte", "pci_write_per_byte", "pci_write_contended_per_byte",
    "link_per_byte", "link_watchdog", "switch_hop", "nic_memory_per_byte",
}  # fmt: skip


def test_every_cost_goes_by_one_clock_or_keeps_its_own_time():
    assert sorted([*BY_NI, *BY_HOST, *OWN_TIME]) == sorted(COSTS)


@pytest.mark.requirement("SH-2")
@pytest.mark.parametrize("name", ["utlb-prototype", "mini-cluster"])
def test_a_processor_twice_as_fast_halves_its_own_costs_and_no_others(name):
    stated = load_platform(name)
    clocks = {word: stated.machine[word].value for word in (NI, HOST)}
    for word, scaled in ((NI, BY_NI), (HOST, BY_HOST)):
        found = load_platform(f"{name}@{word}={2 * clocks[word]}MHz")
        assert found.machine[word].value == 2 * clocks[word]
        for key, cost in stated.costs.items():
            now = found.costs[key]
            if key not in scaled:
                assert now == cost
            elif key != "ni_miss":
                assert (now.low_ps, now.high_ps) == (
                    pytest.approx(cost.low_ps / 2, abs=1),
                    pytest.approx(cost.high_ps / 2, abs=1),
                )
                assert [x for x, _ in now.points] == [x for x, _ in cost.points]
                for (_, after), (_, before) in zip(now.points, cost.points, strict=True):
                    assert after == pytest.approx(before / 2, abs=1)
                assert now.origin.evidence is Evidence.ASSUMED
                assert f"{name} by {clocks[word]} over {2 * clocks[word]} MHz" in now.origin.source


@pytest.mark.requirement("SH-2")
def test_of_a_miss_the_dma_keeps_the_time_of_the_bus():
    stated = load_platform("utlb-prototype")
    found = load_platform("utlb-prototype@ni_mhz=66").costs["ni_miss"].points
    dma = dict(stated.costs["ni_dma"].points)
    for (size, after), (_, before) in zip(found, stated.costs["ni_miss"].points, strict=True):
        assert after == pytest.approx(dma[size] + (before - dma[size]) / 2, abs=1)


@pytest.mark.requirement("SH-2")
def test_a_file_that_combines_a_platform_at_another_clock_has_its_costs_by_that(tmp_path):
    file = tmp_path / "faster.toml"
    file.write_text(
        'title = "a faster NIC"\ncombines = ["utlb-prototype"]\n[machine]\n'
        'ni_mhz = { value = 99, unit = "MHz", evidence = "assumed", source = "assumed: three times'
        ' as fast" }\n'
    )
    found, stated = load_platform(file), load_platform("utlb-prototype")
    assert found.costs["ni_check"].low_ps == round(stated.costs["ni_check"].low_ps / 3)
    assert found.costs["user_check"].low_ps == stated.costs["user_check"].low_ps
    assert found.machine[HOST].value == 300


@pytest.mark.requirement("SH-2")
def test_where_the_kernel_serves_ports_the_hosts_clock_is_that_of_their_queues(tmp_path):
    file = tmp_path / "served.toml"
    cell = 'unit = "us", evidence = "assumed", source = "assumed: a test"'
    file.write_text(
        'title = "served by the kernel"\n'
        'served_by = { value = "kernel", evidence = "assumed", source = "assumed: a test" }\n'
        f"[costs]\nsend_queue = {{ value = 4, {cell} }}\nlink_start = {{ value = 2, {cell} }}\n"
        '[machine]\nhost_mhz = { value = 100, unit = "MHz", evidence = "assumed", source = '
        '"assumed: a test" }\n'
    )
    found = load_platform(f"{file}@host_mhz=400")
    assert found.costs["send_queue"].low_ps == 1_000_000
    assert found.costs["link_start"].low_ps == 2_000_000


def latency_of(platform):
    """The time of a remote store of a word, once all is translated, in us."""

    async def owner(endpoint):
        await endpoint.export(endpoint.allocate(8), "b")

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(8)
        await endpoint.wait(await endpoint.store(remote, mine))
        began = endpoint.now_us
        await endpoint.wait(await endpoint.store(remote, mine))
        return endpoint.now_us - began

    cluster = Cluster("utlb", platform)
    cluster.start(0, owner)
    cluster.start(1, user)
    return cluster.run()[1]


@pytest.mark.requirement("SH-2")
def test_one_simulator_runs_any_ratio_of_the_two_clocks():
    base = latency_of("utlb-prototype")
    faster = {
        changes: base - latency_of(f"utlb-prototype@{changes}")
        for changes in ("ni_mhz=66", "host_mhz=600", "ni_mhz=66,host_mhz=600")
    }
    assert all(saved > 0.1 for saved in faster.values())
    # Here the two processors take turns: what each saves adds up.
    both = faster.pop("ni_mhz=66,host_mhz=600")
    assert both == pytest.approx(sum(faster.values()), abs=1e-3)


async def idle(endpoint):
    return endpoint.node


@pytest.mark.requirement("SH-2")
@pytest.mark.parametrize(
    ("cluster_type", "design", "platform"),
    [(Cluster, "utlb", "utlb-prototype"), (MiniCluster, "mini", "mini-cluster")],
)
def test_a_nic_holds_its_structures_queues_and_buffers_to_the_last_byte(
    cluster_type, design, platform
):
    def start(memory):
        cluster = cluster_type(design, f"{platform}@nic_memory_bytes={memory}bytes")
        cluster.start(0, idle)
        return cluster

    with refused(SimulationError) as told:
        start(4096).run()
    said = str(told.value)
    total = int(said.split(" bytes")[0].split()[-1].replace(",", ""))
    listed = said.split("(")[1].split(")")[0].split(", ")
    parts = [int(part.split()[-1].replace(",", "")) for part in listed]
    assert sum(parts) == total
    assert f"{total - 4096:,} too many" in said
    assert start(total).run() == [0]
    with refused(SimulationError, "1 too many"):
        start(total - 1).run()


@pytest.mark.requirement("SH-2")
def test_a_larger_cache_a_longer_queue_and_more_peers_each_take_more_of_it():
    def excess(nodes=2, **settings):
        cluster = Cluster("utlb", "utlb-prototype@nic_memory_bytes=1KiB", nodes=nodes, **settings)
        for node in range(nodes):
            cluster.start(node, idle)
        with pytest.raises(SimulationError) as told:
            cluster.run()
        return int(str(told.value).split(" too many")[0].split()[-1].replace(",", ""))

    least = excess()
    assert excess(entries=16384) == least + 8 * 8192  # a tag and a frame for each entry
    assert excess(nodes=3) > least + 32 * 64  # a window of packets
    assert excess(transport=Cluster.transport.__class__(window=64)) > least


@pytest.mark.requirement("SH-2")
def test_a_budget_beyond_what_the_nic_has_is_refused_with_how_much_is_too_much():
    assert ask("1MiB", platform="utlb-prototype").nic_bytes == 1 << 20
    with refused(StudyError, "--nic-memory 2MiB", "1,048,576 too many"):
        ask("2MiB", platform="utlb-prototype")
    assert ask("2MiB", platform="utlb-prototype@nic_memory_bytes=2MiB").nic_bytes == 2 << 20


def test_a_platform_that_states_no_memory_holds_anything():
    platform = load_platform("linux-host")
    assert excess_of({"cache": 1 << 50}, platform) is None
