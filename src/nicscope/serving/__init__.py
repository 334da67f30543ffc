"""Pages that are served on this machine's own loopback address, to one person and nobody else."""
