"""What SERVE charges for what it is about to do, by what the NIC has when it begins."""

# ruff: noqa: ARG002  (every scheme takes the same arguments; few need all of them)
from oracle.ports_receiving import Receiving
from oracle.ports_records import FETCH


class Prices(Receiving):
    """Of a buffer, of a new descriptor, of a descriptor's next packet."""

    def serve_cost(self, node, what, port):
        service = node.service
        if what == "cut":
            return 0
        if what == "buffer":
            return service["lookup_free"] + self.ways_cost(node, port.space, port.free[0])
        descriptor = port.current if what == "next" else self.next_request(port)
        cost = 0
        if what == "new":
            cost = service["serve_request"] + self.handles_cost(node, port, descriptor)
        if descriptor.lost is not None:
            return cost
        if self.has_pages(descriptor):
            address, _ = descriptor.place()
            if descriptor.page != address // self.world.page:
                cost += service["lookup_send"] + self.ways_cost(node, descriptor.space, address)
        elif self.seeks_destination(descriptor):
            address = descriptor.segments[0][0] + descriptor.sought
            if descriptor.page != address // self.world.page:
                cost += service["lookup_receive"] + self.ways_cost(node, descriptor.space, address)
        return cost

    def seeks_destination(self, descriptor):
        """Whether pages that the answer goes to are still to be looked up before it is asked."""
        return False

    def handles_cost(self, node, port, descriptor):
        """Of looking up whom and what a new descriptor names, where that is not at hand."""
        return 0

    def has_request_handles(self, node, port, descriptor):
        """Whether that has been found."""
        return True

    def has_pages(self, descriptor):
        """Whether something of memory goes with the next packet."""
        control = descriptor.content is not None or descriptor.operation == FETCH
        return not control and descriptor.void is None

    def ways_cost(self, node, space, address):
        """Of the ways that a lookup checks after the first, as the set is now."""
        ways = self.further_ways(node, space, address // self.world.page)
        return ways * node.service["further_way"]

    def further_ways(self, node, space, page):
        """How many they are; none where nothing is searched."""
        return 0
