"""Slow, obvious models that the kernels are compared with; nothing here imports nicscope."""
