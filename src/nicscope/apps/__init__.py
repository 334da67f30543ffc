"""Programs that run on any NIC under an interface, on real data, with checked results."""
