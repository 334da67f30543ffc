"""The questions of perftest, asked of the simulated device by programs of verbs."""
