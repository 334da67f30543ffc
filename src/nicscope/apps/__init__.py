"""Programs that run on any NIC under an interface: real data, and a result that is checked."""
