"""The Virtual Interface Architecture: its library and its kernel agent, over NICs that serve ports.

A VI is a port with one peer.  Source: VIA Specification 1.0; EDT, 3 and 6 (``docs/via.md``).
"""

from nicscope.interfaces.via.cluster import Cluster, Host
from nicscope.interfaces.via.descriptor import (
    Control,
    Descriptors,
    Error,
    Reliability,
    Return,
    State,
    Status,
    VipError,
)
from nicscope.interfaces.via.library import Nic

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
