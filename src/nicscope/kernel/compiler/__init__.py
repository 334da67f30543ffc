"""Everything that needs Numba: imported where something compiles, and nowhere else."""
