"""The decorators of kernels, under the name by which modules know them."""

from nicscope.kernel.decorators import distant, kernel, routine, step
from nicscope.kernel.entering import on_compilation
from nicscope.kernel.fingerprint import package_stamp
from nicscope.kernel.records import as_records, longer, records

__all__ = [
    "as_records",
    "distant",
    "kernel",
    "longer",
    "on_compilation",
    "package_stamp",
    "records",
    "routine",
    "step",
]
