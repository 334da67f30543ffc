"""NICs that serve ports: descriptors in, translated packets out, reports back to processes."""
