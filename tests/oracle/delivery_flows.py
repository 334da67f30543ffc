"""How fast bytes move in the delivery oracle, and by which paths."""

from oracle.delivery_records import Framed


class Flows:
    """How fast bytes move in the delivery oracle, and by which paths."""

    # --- rates ----------------------------------------------------------------------------------

    def set_rates(self):
        """Once per event, when all that it changes has changed."""
        for node in self.nodes:
            if node.pci is not None:
                node.pci.transfer.set_rate(self.now, self.pci_rate(node))
        for node in self.nodes:
            if node.copy is not None:
                node.copy.set_rate(self.now, self.copy_rate(node))
            if node.tx is not None and node.tx.phase == "flow":
                node.tx.transfer.set_rate(self.now, self.flow_rate(node))

    def pci_rate(self, node):
        way = "write" if node.pci.to_host else "read"
        return node.costs[f"pci_{way}_contended_per_byte" if node.pio() else f"pci_{way}_per_byte"]

    def copy_rate(self, node):
        # Reading: the start of a PCI transfer counts: the engine is not idle.
        return node.costs[
            "block_copy_per_byte" if node.pci is None else "block_copy_contended_per_byte"
        ]

    def flow_rate(self, node):
        receiver = self.nodes[node.tx.half.message.destination]
        return max(node.costs["link_per_byte"], self.share(node), self.share(receiver))

    def share(self, node):
        flows = sum(  # what a node sends to itself is read and written there
            (node.number == other.number) + (node.number == other.tx.half.message.destination)
            for other in self.nodes
            if other.tx is not None and other.tx.phase == "flow"
        )
        memory = node.costs["nic_memory_per_byte"]
        shared = flows * memory
        if node.pci is not None:
            rate = self.pci_rate(node)
            shared = flows * (memory * rate // (rate - memory))
        return max(shared, 2 * memory)  # an engine has one of the memory's two ports

    # --- paths and flows ------------------------------------------------------------------------

    def get_links(self, node, half):
        """Take links in order until one is taken; then the head goes through the switches."""
        while half.path:
            link = half.path[0]
            if self.holder[link] is not None or self.queue[link]:
                self.queue[link].append(half)
                return
            self.hold(link, half)
        self.path_is_whole(node, half)

    def hold(self, link, half):
        assert half.path.pop(0) == link
        self.holder[link] = half
        if not half.held:
            half.held_since = self.now
        half.held.append(link)

    def path_is_whole(self, node, half):
        half.has_path = True
        delay = self.hops[node.number, half.message.destination] * node.costs["switch_hop"]
        node.tx.phase = "head" if delay else "stall"
        node.tx.until = self.now + delay

    def release(self, half):
        for link in half.held:
            self.holder[link] = None
        self.released += half.held
        half.held = []

    def go_on(self):
        while self.released:
            link = self.released.pop(0)
            if self.queue[link] and self.holder[link] is None:
                half = self.queue[link].pop(0)
                self.hold(link, half)
                self.get_links(self.nodes[half.message.sender], half)
        for node in self.nodes:
            if node.tx is not None and node.tx.phase == "stall":
                self.begin_flow(node)

    def begin_flow(self, node):
        tx = node.tx
        receiver = self.nodes[tx.half.message.destination]
        if receiver.rx is None or tx.control != (receiver.rx.half is None):
            return
        tx.phase = "flow"
        tx.transfer = Framed(self.now, tx.byte_count, tx.framing, self.flow_rate(node))
        if not tx.control:
            assert receiver.rx.half.message is tx.half.message
            receiver.rx.half.source.append(tx.transfer)
        # Reading: both ends of a flow that begins look, as at its end.
        self.concerned |= {node.number, receiver.number}
