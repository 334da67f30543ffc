"""Measurements of today's RDMA: registering and its caches, tables, connections, descriptors."""
