"""The Virtual Interface Architecture: its library and its kernel agent, over NICs that serve ports.

A VI is a port with one peer.  Source: VIA Specification 1.0; EDT, 3 and 6 (``docs/via.md``).
"""

from nicscope.interfaces.via.cluster import Cluster
from nicscope.interfaces.via.host import Host
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
