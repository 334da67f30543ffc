"""Made traces one request at a time, from the words of the command's help."""

from fractions import Fraction

import numpy as np


def zipf(many, exponent):
    """The probability of each rank."""
    weights = [(rank + 1) ** -exponent for rank in range(many)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def strided(requests, size, stride, pool, regions, tenants, nodes, rate):
    """(time, node, process, region, offset, length) of each request.

    Nodes take turns, then the tenants of each; a tenant goes on from where it was.
    """
    region_bytes = pool // regions
    at = {}  # of a tenant: region and offset that come next
    rows = []
    for row in range(requests):
        node = row % nodes
        pid = row // nodes % tenants
        region, offset = at.get((node, pid), (0, 0))
        rows.append((row * 10**9 // rate, node, pid, region, offset, size))
        offset += stride
        if offset + size > region_bytes:
            region, offset = (region + 1) % regions, 0
        at[node, pid] = (region, offset)
    return rows


def poisson(requests, rate, seed, chunk):
    """Whole nanoseconds of arrivals whose gaps are drawn one by one and added up exactly."""
    times, now = [], Fraction(0)
    for row in range(requests):
        if row % chunk == 0:
            rng = np.random.default_rng([seed, row // chunk, 1])
        now += Fraction(rng.standard_exponential()) * 10**9 / rate
        times.append(int(now))
    return times
