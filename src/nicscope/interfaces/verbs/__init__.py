"""What programs of RDMA call, module by module under the names of rdma-core's Python bindings."""

from nicscope.interfaces.verbs.enumerations import libibverbs_enums, librdmacm_enums

__all__ = ["libibverbs_enums", "librdmacm_enums"]
__version__ = "65.0"
