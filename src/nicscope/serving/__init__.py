"""Web pages served on the loopback address, for one user."""
