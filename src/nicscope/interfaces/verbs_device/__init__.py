"""The device beneath verbs: queue pairs and registered memory, as plain calls on ports."""
