"""What is reproduced of Eager Data Transfer, and what the paper's own numbers do not allow."""

import pytest

from nicscope.studies.reproduce.experiments.edt import EDT, INTERVENTION, RETRY, latency
from nicscope.studies.reproduce.harness import reproduce

# Thousands of counted messages, and latencies at seven sizes: for the compiler.
pytestmark = pytest.mark.compiled


@pytest.mark.requirement("ED-45", "ED-46", "ED-80", "ED-81", "ED-82", "ED-83")
@pytest.mark.requirement("ED-84", "ED-85", "ED-86")
def test_all_is_met_but_the_misses_that_the_catalog_lists():
    found = reproduce(["edt"])

    assert found.as_known(), [*found.misses(), *found.met]
    assert {one.id for one in found.misses()} == {"dma_rate", "figure8"}
    counts = [point.reproduced for point in found.points if point.id == "bus_transactions"]
    assert counts == [2, 2, 2, 2]
    # Two gains and a burst chose constants; the mechanism of contention came after its miss.
    fitted = {point.id for point in found.points if point.basis == "fitted"}
    assert fitted == {"contention", "figure8"}
    predicted = {point.id for point in found.points if point.basis == "predicted"}
    assert predicted == {"dma_rate", "figure8"}


CYCLE = 10_000  # ps, of the bus
MOST_SUPPLY = 64 * CYCLE


def test_with_the_receivers_loads_in_the_clock_no_answer_of_a_cache_gives_the_printed_gain():
    """Why the clock stops where the call has returned: no other reading can be fitted."""

    def cycles(name, supply):
        return latency(name, 4096, changes=(f"cache_supply={supply}",)).cycles()

    # The longest answer that leaves DMA with intervention no slower than with retry is found by
    # halves: a block costs more the longer the answer takes, and with retry nobody waits for it.
    low, high = 0, MOST_SUPPLY
    while high - low > CYCLE:
        middle = (low + high) // (2 * CYCLE) * CYCLE
        ordered = cycles(INTERVENTION, middle) <= cycles(RETRY, middle)
        low, high = (middle, high) if ordered else (low, middle)

    most = 100 * (1 - cycles(EDT, low) / cycles(INTERVENTION, low))
    assert 30 < most < 37  # printed: 38 (EDT, 7.2)
