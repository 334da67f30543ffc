"""All clusters simulate machines of one kind, so that what simulates is compiled once."""

import pytest

from nicscope.interfaces import trapeze, unet, vmmc
from nicscope.kernel.layout import kind_of_state
from program_results import results_of

OVER_A_BUS = {"way": "pio-combined", "delivery": "store-and-forward"}


async def nothing(_process):
    pass


def kind_of(cluster):
    results_of(cluster, nothing)
    return kind_of_state(cluster.simulation.machine)


@pytest.mark.parametrize(
    "cluster",
    [
        lambda: unet.Cluster("mini", "mini-edt", **OVER_A_BUS),
        lambda: unet.Cluster("unet", nodes=1),
        lambda: unet.Cluster("mini", "mini-edt", nodes=1, **OVER_A_BUS),
        lambda: vmmc.Cluster("utlb"),
        lambda: trapeze.Cluster("p6-natoma"),
    ],
    ids=["over a bus", "one node", "one node over a bus", "VMMC", "Trapeze"],
)
def test_neither_a_bus_nor_the_number_of_nodes_makes_another(cluster):
    assert kind_of(cluster()) == kind_of(unet.Cluster("unet"))
