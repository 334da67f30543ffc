"""Kernels: what they wear, how they are entered, compiled, and kept.  Only this room knows how."""
