"""How a NIC and its host translate one page, for every driver: ask, and if it misses, serve."""
