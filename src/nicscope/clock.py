"""Virtual time, as every room counts it: whole picoseconds from the beginning of a run."""

import numpy as np

NEVER = np.int64(2**62)  # later than anything happens
