"""How long a NIC waits for a peer of which it hears nothing: as often as it would send again."""

from types import SimpleNamespace

import pytest

from nicscope.drivers.simulate.ports.state import RULES
from nicscope.kernel.records import records
from nicscope.nic.ports.lookup import peer_timeout


@pytest.mark.parametrize(
    ("retries", "time_out", "expected"), [(0, 7, 7), (1, 1000, 2000), (15, 3_000_000, 48_000_000)]
)
def test_patience_ends_when_the_last_resending_has_timed_out(retries, time_out, expected):
    rules = records(1, RULES)
    rules["most_retries"], rules["time_out"] = retries, time_out

    assert peer_timeout(SimpleNamespace(ports=SimpleNamespace(rules=rules))) == expected
