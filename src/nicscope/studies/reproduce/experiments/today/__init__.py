"""Measurements of today's RDMA: registration caches, connections, descriptors."""
