"""How long a task of the firmware takes: its plan times the node's costs."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.ports.calls import plan_completion, plan_placing, plan_service


@step
def _price(machine, n):
    """What the plan of node ``n`` costs; what of that is a lookup is noted for the observer."""
    plan = machine.ports.plans[n]
    costs = machine.ports.costs[n]
    ways = plan.further_way * costs.further_way
    handles = plan.lookup_handle * costs.lookup_handle
    lookups = plan.lookup_send * costs.lookup_send + plan.lookup_receive * costs.lookup_receive
    looking = lookups
    if plan.lookup_send + plan.lookup_receive > 0:
        looking += ways
    if plan.lookup_receive > 0:
        looking += handles
    machine.ports.nodes[n].looking = looking
    others = plan.lookup_buffer * costs.lookup_buffer + plan.lookup_free * costs.lookup_free
    return plan.serve_request * costs.serve_request + handles + lookups + others + ways


@step
def service_time(machine, n, source):
    """How long SERVE takes for ``source``, misses aside."""
    plan_service(machine, n, source)
    return machine.costs[n].firmware_start + _price(machine, n)


@step
def placing_time(machine, n):
    """How long it takes to find where the last packet's payload goes."""
    if machine.ports.rules[0].serves == 0:
        return np.int64(0)
    plan_placing(machine, n)
    return _price(machine, n)


@step
def completion_time(machine, n):
    """How long it takes to hand over what the packet that is to be completed completes."""
    plan_completion(machine, n)
    return machine.ports.plans[n].receive_message * machine.ports.costs[n].receive_message
