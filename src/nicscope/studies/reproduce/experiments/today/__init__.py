"""Measurements of today's RDMA: registering, registration caches of libraries, posting."""
