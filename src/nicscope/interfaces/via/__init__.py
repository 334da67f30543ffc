"""The Virtual Interface Architecture on ports: VIPL and its kernel agent on the common machine.

A VI is a port with one peer.  Source: VIA Specification 1.0; EDT, 3 and 6 (``docs/via.md``).
"""

from nicscope.interfaces.via.names import (
    Control,
    Error,
    Reliability,
    Return,
    State,
    Status,
    VipError,
)
from nicscope.interfaces.via.places import Descriptors
from nicscope.interfaces.vipl.cluster import Cluster
from nicscope.interfaces.vipl.host import Host
from nicscope.interfaces.vipl.nic import Nic

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
