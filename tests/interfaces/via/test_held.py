"""What a program does to the objects that it holds: they stand for what they were given for."""

import contextlib
import functools
from inspect import getattr_static
from itertools import cycle, product
from types import SimpleNamespace

import pytest
from pairs import MECHANISMS, Cluster

from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via import State, VipError
from pairwise import others_marked
from program_results import results_of

MESSAGE = b"sixteen bytes..."


# What may be said in place of what ``name`` of an object says, by what ``other`` says of itself.
LIES = {
    "nothing": lambda _other, _name: None,
    "a number": lambda _other, _name: -1,
    "something": lambda _other, _name: SimpleNamespace(),
    "another's": lambda other, name: getattr(other, name, "x"),
}


def lie(nic, thing, other, kind):
    """Have ``thing`` say ``LIES[kind]`` wherever that can be said.

    That includes names under which the library keeps something for it.
    """
    record = nic._owner.record_of(thing, type(thing)) if isinstance(thing, Owned) else None
    for name in {*dir(thing), *getattr(record, "__dict__", {})} - {"what", "origin"}:
        if name.startswith("_") or callable(getattr_static(thing, name, None)):
            continue
        with contextlib.suppress(AttributeError):
            setattr(thing, name, LIES[kind](other, name))


async def code_of(call):
    """The error that a call ends with, or None."""
    try:
        await call
    except VipError as error:
        return error.code
    return None


def run(mechanism, lies=None):
    """What a process and its neighbour on the node see of their own; the first may lie."""
    victims, events = {}, set()
    cluster = Cluster(mechanism=mechanism)

    def program(name):
        def said(nic, kind, thing):
            if name == "victim":
                victims[kind] = thing
            elif lies is not None:
                lie(nic, thing, victims[kind], lies)
            return thing

        async def life(host):
            nic = await host.open_nic()
            while name == "liar" and "ready" not in events:
                await nic.compute(5)
            tag = await nic.create_ptag()
            queue = said(nic, "queue", await nic.create_cq(tag, 8))
            vi = said(nic, "vi", await nic.create_vi(tag, recv_cq=queue))
            places = said(nic, "places", await nic.descriptors(tag, 8))
            region = said(nic, "region", await nic.register_mem(nic.allocate(4096), tag))
            receive = places.request(region.segment(0, 64))
            await nic.post_recv(vi, receive)
            said(nic, "receive", receive)
            request = said(nic, "request", await nic.connect_wait(name))
            await nic.connect_accept(request, vi)
            send = places.request(region.segment(64, 8), immediate=7)
            await nic.post_send(vi, send)
            said(nic, "send", send)
            events.add("ready")
            while name == "victim" and "over" not in events:
                await nic.compute(5)
            await nic.compute(200)
            found = [await code_of(nic.destroy_descriptors(places))]
            heard, is_receive = await nic.cq_wait(queue, 1000)
            got, sent = await nic.recv_done(vi), await nic.send_wait(vi)
            found += [heard is vi, is_receive, got is receive, sent is send]
            found += [(one.ok, one.length, one.immediate, one.status) for one in (got, sent)]
            found += [await nic.read(region.address, 16), vi.state, nic.errors(vi)]
            await nic.disconnect(vi)
            await nic.destroy_vi(vi)
            await nic.destroy_cq(queue)
            await nic.destroy_descriptors(places)
            await nic.deregister_mem(region)
            found += [nic.allocate(4096).address for _ in range(4)]
            events.add("over")
            return found

        return life

    def peer(name):
        async def life(host):
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            vi = await nic.create_vi(tag)
            places = await nic.descriptors(tag, 8)
            region = await nic.register_mem(nic.allocate(4096), tag)
            await nic.post_recv(vi, places.request(region.segment(0, 64)))
            await nic.write(region.address + 64, MESSAGE)
            await nic.connect_request(vi, 0, name)
            await nic.compute(50)
            await nic.post_send(vi, places.request(region.segment(64, 16), immediate=9))
            done = await nic.recv_wait(vi)
            return done.ok, done.length, done.immediate

        return life

    for name in ("victim", "liar"):
        cluster.start(0, program(name))
        cluster.start(1, peer(name))
    return cluster.run()


@functools.cache
def honestly(mechanism):
    honest = run(mechanism)
    assert all(MESSAGE in found and State.VIP_STATE_CONNECTED in found for found in honest[::2])
    return honest


# The library believes nobody, whatever carries the messages: each lie over some mechanism.
EVERY = [*product(MECHANISMS, LIES)]


@pytest.mark.parametrize(
    ("mechanism", "kind"),
    others_marked(pytest.mark.long, EVERY, zip(MECHANISMS, cycle(LIES))),
)
def test_what_an_object_says_of_itself_changes_nothing(mechanism, kind):
    assert run(mechanism, kind) == honestly(mechanism)


def test_what_a_vi_says_of_itself_cannot_be_set():
    async def program(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi, queue = await nic.create_vi(tag), await nic.create_cq(tag)
        for thing, name in [(vi, "place"), (vi, "peer"), (vi, "state"), (queue, "entries")]:
            with pytest.raises(AttributeError):
                setattr(thing, name, None)

    results_of(Cluster(), program)
