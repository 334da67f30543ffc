"""What programs of RDMA call, module by module under the names of rdma-core's Python bindings."""

from __future__ import annotations

__version__ = "65.0"
