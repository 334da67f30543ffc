"""Translation on the NIC: what each scheme asks of it, and what its host then does."""
