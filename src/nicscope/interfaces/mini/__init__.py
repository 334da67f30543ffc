"""miNI: registered communication buffers, remote writes and reads, handles looked up on demand."""

from nicscope.interfaces.mini.cluster import Cluster
from nicscope.interfaces.mini.endpoint import BufferHandle, Endpoint, Region, Remote, Stored

__all__ = ["BufferHandle", "Cluster", "Endpoint", "Region", "Remote", "Stored"]
