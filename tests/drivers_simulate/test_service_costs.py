"""A replay's price of a hit and a miss is what a running system charges for them."""

import pytest

from nicscope.config.design import load_design
from nicscope.config.platform import load_platform, program_costs
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.studies.pricing import price


def charged(design, platform):
    costs = program_costs(platform, design.scheme)
    return service_costs(costs, design)


@pytest.mark.parametrize("path", ["send", "receive"])
@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("unet-mm-pca200", "pca200-linux"),
        ("unet-mm-dc21140", "dc21140-nt"),
        ("vmmc-interrupt", "utlb-prototype"),
        ("vmmc-interrupt", "pca200-linux"),
        ("utlb", "utlb-prototype"),
    ],
)
def test_one_miss_one_hit_and_one_eviction_cost_the_same_in_both(name, machine, path):
    design, platform = load_design(name).at_page_size(4096), load_platform(machine)
    counts = {"requests": 2, "lookups": 2, "ni_misses": 1, "interrupts": 1, "pins": 1, "unpins": 1}
    for other in ("send", "receive"):
        counts[f"lookups_{other}"] = 2 * (other == path)
        counts[f"ni_misses_{other}"] = int(other == path)
    if name == "utlb":
        counts |= {"pin_calls": 1, "unpin_calls": 1, "entries_fetched": 1}
    service = charged(design, platform)
    steps = service.steps
    hit = steps[f"lookup_{path}"]
    if name == "utlb":
        # The library checks both pages, pins one and unpins one; the miss is on top of the check.
        calls = int(service.user_pin[1] + service.user_unpin[1])
        spent = 2 * steps["check"] + calls + 2 * hit + steps["fetch"]
    else:
        miss = steps["handshake"] + steps["interrupt"] + steps[f"pin_{path}"] + steps["unpin"]
        # Instead of the lookup under U-Net/MM, on top of it otherwise.
        spent = hit + miss + (0 if name.startswith("unet") else hit)

    cost = price(counts, design, platform)

    lookups = [part.count for part in cost.unpriced]
    if machine == "pca200-linux" and name == "vmmc-interrupt":
        assert lookups == [2]  # replay borrows no hit of U-Net/MM's for another scheme's check
        spent -= 2 * hit
    else:
        assert lookups == []
    assert cost.low_ps == cost.high_ps == spent
