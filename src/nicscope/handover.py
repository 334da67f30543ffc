"""States bound to kernels, under the name by which modules know them."""

from nicscope.kernel.entering import Pace, bound, portion
from nicscope.kernel.rows import row_of

__all__ = ["Pace", "bound", "portion", "row_of"]
