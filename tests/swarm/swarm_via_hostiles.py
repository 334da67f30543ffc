"""Hostile programs on VIA: forged descriptors, what others own, and what is in use taken away."""

from __future__ import annotations

import contextlib

from swarm_ports import Bazaar, attempt
from swarm_rules import PAGE, SECRET, must_be

from nicscope.errors import SimulationError
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.via import Descriptors, Host, Nic, Reliability, VipError
from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment, Descriptor, Region
from nicscope.interfaces.via.vi import CompletionQueue, Vi

ODD = (0, 1, 8, 63, 64, 4096, 2**31, 2**32 - 1)


async def taken(call):
    """What a call takes off a work queue, done or with an error; None if nothing has ended."""
    try:
        return await call
    except VipError as error:
        if error.descriptor is None:
            raise
        return error.descriptor


class Hostiles:
    """They go on for as long as ``busy`` honest programs do, and steal from a bazaar."""

    bazaar: Bazaar
    busy: int

    def hostile(self, number, there, chance):
        """Does whatever it likes with its own, and tries everybody else's."""

        async def program(host):
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            own = nic.allocate(4 * PAGE)
            await nic.write(own.address, b"\xff" * len(own))
            region = await nic.register_mem(own, tag, enable_rdma_write=True)
            places = await nic.descriptors(tag, 64, 4)
            queue = await nic.create_cq(tag, 8)
            mine = (host, nic, own, region, places, queue)
            for turn in range(chance.upto(12)):
                rights = chance.odds(0.5)
                level = chance.one_of(*Reliability)
                vi = await nic.create_vi(tag, level, enable_rdma_write=rights, send_cq=None)
                self.bazaar.show(nic, *mine, vi)
                with contextlib.suppress(VipError):
                    await nic.connect_request(vi, there, f"hostile {number}", 2000.0)
                for _ in range(chance.upto(6)):
                    act = chance.one_of(self.forge, self.forge, self.steal, self.upset)
                    await act(nic, tag, region, places, vi, chance)
                with contextlib.suppress(VipError):  # it may be gone
                    await nic.disconnect(vi)
                await nic.compute(chance.us(100))
                with contextlib.suppress(VipError):
                    while await taken(nic.send_done(vi)) is not None:
                        pass
                with contextlib.suppress(VipError):
                    while await taken(nic.recv_done(vi)) is not None:
                        pass
                with contextlib.suppress(VipError):
                    await nic.destroy_vi(vi)
                if self.busy == 0 and turn:
                    break
            held = await nic.read(own.address, len(own))
            must_be(SECRET not in held, "a secret in hostile memory")

        return program

    def accomplice(self, number, chance):
        """Accepts what a hostile process asks for, and posts receives that suit or do not."""

        async def program(host):
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            own = nic.allocate(2 * PAGE)
            region = await nic.register_mem(own, tag, enable_rdma_write=True)
            places = await nic.descriptors(tag, 64, 2)
            self.bazaar.show(nic, host, nic, own, region, places)
            while self.busy:
                level = chance.one_of(*Reliability)
                vi = await nic.create_vi(tag, level, enable_rdma_write=chance.odds(0.5))
                for _ in range(chance.upto(4)):
                    await nic.post_recv(vi, places.request(region.segment(0, chance.upto(PAGE))))
                with contextlib.suppress(VipError):
                    request = await nic.connect_wait(f"hostile {number}", 3000.0)
                    self.bazaar.show(nic, request)
                    await nic.connect_accept(request, vi)
                await nic.compute(chance.us(2000))
                if chance.odds(0.7):
                    await nic.disconnect(vi)
                with contextlib.suppress(VipError):
                    while await taken(nic.recv_done(vi)) is not None:
                        pass
                with contextlib.suppress(VipError):
                    await nic.destroy_vi(vi)

        return program

    async def forge(self, nic, tag, region, places, vi, chance):
        """A descriptor with anything in its segments; the library posts it, the NIC judges it."""
        del tag

        def anything():
            return DataSegment(
                chance.one_of(region.address, chance.upto(60) * PAGE, 2**63, *ODD),
                chance.one_of(region.handle, chance.upto(40)),
                chance.one_of(chance.upto(3 * PAGE), *ODD),
            )

        data = [anything() for _ in range(chance.upto(2))]
        remote = AddressSegment(chance.upto(60) * PAGE + chance.upto(PAGE), chance.upto(40))
        how = chance.one_of(0, 1, 1, 2, 4, 5, 8, 0x10, 3, 0xFFFF)
        asked = places.request(*data, control=how, remote=chance.one_of(None, remote))
        asked.handle = chance.one_of(asked.handle, asked.handle, asked.handle, chance.upto(40))
        with contextlib.suppress(VipError):
            await chance.one_of(nic.post_send, nic.post_send, nic.post_recv)(vi, asked)
            if chance.odds(0.7):
                await nic.compute(chance.us(200))
                await nic.send_done(vi)

    async def upset(self, nic, tag, region, places, vi, chance):
        """Take away what is in use."""
        other = await nic.register_mem(nic.allocate(PAGE), tag) if chance.odds(0.2) else None
        if other is not None:
            with contextlib.suppress(VipError):
                await nic.post_recv(vi, places.request(other.segment()))
                await nic.post_send(vi, places.request(other.segment(0, 900)))
            await nic.deregister_mem(other)
        with contextlib.suppress(VipError):
            await nic.destroy_ptag(tag)
        with contextlib.suppress(VipError):
            await nic.destroy_vi(vi)
        with contextlib.suppress(SimulationError):
            nic.allocate(chance.one_of(0, -1, 2**40))
        del region

    async def steal(self, nic, tag, region, places, vi, chance):
        """Every call with something of somebody else's."""
        kinds = (Buffer, Region, Descriptors, Vi, CompletionQueue, Nic, Host)
        theirs = self.bazaar.foreign(chance, nic, chance.one_of(*kinds))
        for call in self.guesses(nic, tag, region, places, vi, theirs):
            await attempt(call())

    def guesses(self, nic, tag, region, places, vi, theirs):
        mine = places.request(region.segment(0, 8))
        if isinstance(theirs, Buffer):
            return [
                lambda: nic.register_mem(theirs, tag),
                lambda: theirs.read(8),
                lambda: theirs.write(b"\xff" * 8),
            ]
        if isinstance(theirs, Region):
            asked = places.request(theirs.segment(0, 8))
            return [
                lambda: nic.deregister_mem(theirs),
                lambda: nic.post_send(vi, asked),
                lambda: nic.post_recv(vi, asked),
                lambda: nic.create_vi(theirs.tag) if theirs.tag != tag else never(),
            ]
        if isinstance(theirs, Descriptors):
            stolen = Descriptor(mine.address, mine.handle, mine.data, places=theirs)
            return [
                lambda: nic.destroy_descriptors(theirs),
                lambda: nic.post_send(vi, stolen),
                lambda: nic.rdma_write(vi, theirs, [region.segment(0, 8)], region.remote()),
            ]
        if isinstance(theirs, Vi):
            return [
                lambda: nic.post_send(theirs, mine),
                lambda: nic.recv_done(theirs),
                lambda: nic.disconnect(theirs),
                lambda: nic.destroy_vi(theirs),
                lambda: nic.connect_request(theirs, 0, "x", 1.0),
            ]
        if isinstance(theirs, CompletionQueue):
            return [
                lambda: nic.cq_done(theirs),
                lambda: nic.destroy_cq(theirs),
                lambda: nic.create_vi(tag, send_cq=theirs),
            ]
        if isinstance(theirs, Nic):
            return [
                lambda: theirs.create_ptag(),
                lambda: theirs.read(0, 8),
                lambda: theirs.post_send(vi, mine),
            ]
        return [lambda: theirs.open_nic()] if theirs is not None else []


async def never():
    """What is refused anyhow."""
    raise SimulationError("one's own")
