"""Numbers of Amazon's devices: none are needed."""
