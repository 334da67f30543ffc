"""The Virtual Interface Architecture: library, kernel agent, and messaging on the NIC.

Source: EDT, 3 and 6 (SONIC-VIA); VIA Specification 1.0 for names and errors (``docs/via.md``).
"""

from nicscope.interfaces.via.cluster import Cluster, Host
from nicscope.interfaces.via.names import (
    Control,
    Error,
    Reliability,
    Return,
    State,
    Status,
    VipError,
)
from nicscope.interfaces.via.nic import Nic
from nicscope.interfaces.via.places import Descriptors

__all__ = [
    "Cluster",
    "Control",
    "Descriptors",
    "Error",
    "Host",
    "Nic",
    "Reliability",
    "Return",
    "State",
    "Status",
    "VipError",
]
