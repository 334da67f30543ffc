"""The Trapeze paper: delivery of payloads, simulated in virtual time on four platforms."""
