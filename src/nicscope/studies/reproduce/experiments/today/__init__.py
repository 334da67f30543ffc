"""Measurements of today's RDMA: registration caches of libraries."""
