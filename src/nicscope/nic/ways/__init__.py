"""How bytes cross between a host and its NIC: each way's steps, which know no time."""
