"""Protection domains, and the memory regions and windows in them that the NIC may access."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import (
    HUGE,
    PAGE,
    Attributes,
    PyverbsCM,
    PyverbsObject,
    PyverbsRDMAError,
    PyverbsUserError,
    World,
    as_bytes,
    error,
    printed,
    refusal,
)
from nicscope.interfaces.verbs.device import DM, Context, atomics
from nicscope.interfaces.verbs.enumerations import rereg_error_to_str
from nicscope.interfaces.verbs_device.calls import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


ADVICES = (
    e._IBV_ADVISE_MR_ADVICE_PREFETCH,
    e._IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
    e._IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
)
ALLOCATED = e.IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | e.IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
PARENT_MASK = (
    e.IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
    | e.IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
    | e.IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC
)


class PD(PyverbsCM):
    """A protection domain: objects of different domains cannot be used together."""

    ORDER = ("parents", "qps", "wqs", "ahs", "mws", "bufs", "mrs", "srqs")

    def __init__(self, creator: PyverbsCM, handle: int | None = None) -> None:
        owner: Any = creator
        ctx = owner.context
        if ctx is None or ctx._closed:
            raise error("Failed to allocate PD", errno.EINVAL)
        self.ctx: Context = ctx
        self._imported = handle is not None
        if handle is not None:
            if ("pd", int(handle)) not in ctx.things:
                raise error(f"Failed to import PD with handle {handle}", errno.EINVAL)
            self.handle = int(handle)
        else:
            with refusal("Failed to allocate PD"):
                self.handle = int(ctx.world.device.open_pd())
            ctx.things[("pd", self.handle)] = self.handle
        self._opened()
        ctx._add_dependent(self, "pds")

    @property
    def pd(self) -> PD:
        """The protection domain itself."""
        return self

    def _release(self) -> None:
        if not self._imported:
            self.ctx.things.pop(("pd", self.handle), None)
            self.ctx.world.device.close_pd(self.handle)

    def unimport(self) -> None:
        """Release an imported handle."""
        self._imported = True
        self.close()

    def advise_mr(self, advise: int, flags: int, sg_list: Sequence[Any]) -> None:
        """Prefetch pages of on-demand memory regions, as SGEs name them."""
        failed = "Failed to advise MR"
        if int(advise) not in ADVICES or int(flags) & ~int(e._IBV_ADVISE_MR_FLAG_FLUSH):
            raise error(failed, errno.EINVAL)
        pieces = [each.piece() for each in sg_list]
        if not pieces:
            raise error(failed, errno.EINVAL)
        with refusal(failed):
            flush = bool(int(flags) & e._IBV_ADVISE_MR_FLAG_FLUSH)
            wanted = [(piece.lkey, piece.address, piece.length) for piece in pieces]
            self.ctx.world.device.prefetch(self.handle, int(advise), flush, wanted)


class ParentDomainContext(PyverbsObject):
    """The allocator of queue memory for objects of a parent domain."""

    def __init__(
        self,
        pd: PD,
        alloc_func: Callable[..., Any] | None,
        free_func: Callable[..., Any] | None,
        user_data: Any = None,
    ) -> None:
        self.pd, self.user_data = pd, user_data
        self.alloc_func, self.free_func = alloc_func, free_func


class ParentDomainInitAttr(PyverbsObject):
    """Attributes of a parent domain."""

    def __init__(
        self, pd: PD, pd_context: ParentDomainContext | None = None, comp_mask: int = 0
    ) -> None:
        self.pd, self.pd_context, self.comp_mask = pd, pd_context, int(comp_mask)
        if pd_context is not None:
            self.comp_mask |= int(ALLOCATED)


class ParentDomain(PD):
    """A protection domain with the program's own allocator of queue memory."""

    def __init__(self, context: Context, attr: ParentDomainInitAttr) -> None:
        if attr.pd is None or attr.comp_mask & ~int(PARENT_MASK) or attr.pd.ctx is not context:
            raise error("Failed to allocate Parent Domain", errno.EINVAL)
        self.ctx, self.handle, self._imported = context, attr.pd.handle, True
        self.protection_domain = attr.pd
        self.allocator = attr.pd_context
        self._opened()
        attr.pd._add_dependent(self, "parents")

    @property
    def pd(self) -> PD:
        """The protection domain beneath."""
        return self.protection_domain

    def allocate_queue(self, size: int, kind: int) -> int | None:
        """Ask the program's allocator for queue memory; None: the provider's default."""
        if self.allocator is None or self.allocator.alloc_func is None:
            return None
        alignment = 4096
        found = self.allocator.alloc_func(self, self.allocator, size, alignment, kind)
        if found is None or int(found) == e._IBV_ALLOCATOR_USE_DEFAULT:
            return None
        if not int(found):
            raise error("Failed to allocate a queue", errno.ENOMEM)
        return int(found)

    def free_queue(self, address: int | None, kind: int) -> None:
        """Return queue memory to the program's allocator."""
        if address is not None and self.allocator is not None and self.allocator.free_func:
            self.allocator.free_func(self, self.allocator, address, kind)


QP_MEMORY, CQ_MEMORY, SRQ_MEMORY = 0, 1, 2  # kinds of resources, as the callbacks get them
ENTRY = 64  # bytes of a request or a completion in a queue


class QueueMemory:
    """The queue memory of one object, allocated only if it is made on a parent domain."""

    def __init__(self, pd: Any, entries: int, kind: int) -> None:
        self._pd = pd if isinstance(pd, ParentDomain) else None
        self._kind = kind
        size = max(entries, 1) * ENTRY
        self._address = None if self._pd is None else self._pd.allocate_queue(size, kind)

    @contextlib.contextmanager
    def made_with(self, failed: str) -> Iterator[None]:
        """Create the object within the block; if the device refuses, free its queue memory."""
        try:
            with refusal(failed):
                yield
        except PyverbsRDMAError:
            self.free()
            raise

    def free(self) -> None:
        """Free the queue memory."""
        if self._pd is not None:
            self._pd.free_queue(self._address, self._kind)
            self._address = None


class MWBindInfo(Attributes):
    """The memory range and access rights that a window is bound to."""

    address: int
    length: int
    mw_access_flags: int

    def __init__(self, mr: MR, addr: int, length: int, mw_access_flags: int) -> None:
        self.mr = mr
        self.address, self.length, self.mw_access_flags = addr, length, mw_access_flags


class MWBind(Attributes):
    """A request to bind a window of type 1."""

    SHOWN = ("wr_id", "send_flags")
    info: MWBindInfo
    send_flags: int
    wr_id: int = 0


class MW(PyverbsCM):
    """A memory window."""

    def __init__(self, pd: PD, mw_type: int) -> None:
        self.pd, self.type = pd.pd, int(mw_type)
        world = pd.ctx.world
        if not world.facts.windows:
            raise error("Failed to create MW", errno.EOPNOTSUPP)
        if self.type not in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
            raise error("Failed to create MW", errno.EINVAL)
        with refusal("Failed to create MW"):
            self.handle, self.rkey = world.device.alloc_mw(self.pd.handle, self.type)
        self._opened()
        pd._add_dependent(self, "mws")

    def _release(self) -> None:
        self.pd.ctx.world.device.free_mw(self.handle)


WRITES = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC
OPTIONAL = 0x3FF00000  # bits that a device may ignore
KNOWN = sum(e.ibv_access_flags)
ALL = (1 << 64) - 1
CHANGES = (
    e.IBV_REREG_MR_CHANGE_TRANSLATION | e.IBV_REREG_MR_CHANGE_PD | e.IBV_REREG_MR_CHANGE_ACCESS
)


def checked_access(world: World, access: int, failed: str) -> int:
    """The access flags that the device enforces; errors: EINVAL, EOPNOTSUPP, by ``failed``."""
    if access & ~(int(KNOWN) | OPTIONAL) or (
        access & WRITES and not access & e.IBV_ACCESS_LOCAL_WRITE
    ):
        raise error(failed, errno.EINVAL)
    facts = world.facts
    missing = (
        (access & e.IBV_ACCESS_ON_DEMAND and not facts.on_demand)
        or (access & e.IBV_ACCESS_MW_BIND and not facts.windows)
        or (access & _FLUSHES and e.IBV_WR_FLUSH not in facts.opcodes)
        or (access & e.IBV_ACCESS_REMOTE_ATOMIC and not atomics(world))
    )
    if missing:
        raise error(failed, errno.EOPNOTSUPP)
    return access & int(KNOWN)


_FLUSHES = e.IBV_ACCESS_FLUSH_GLOBAL | e.IBV_ACCESS_FLUSH_PERSISTENT


class MR(PyverbsCM):
    """A memory region."""

    def __init__(
        self,
        creator: PyverbsCM,  # of a protection domain, or that has one
        length: int = 0,
        access: int = 0,
        address: int | None = None,
        implicit: bool = False,
        handle: int | None = None,
    ) -> None:
        self._begin(creator, int(length), address)
        self.implicit = bool(implicit)
        if handle is not None:
            self._import(int(handle))
            return
        failed = f"Failed to register a MR. length: {int(length)}, access flags: {int(access)}"
        minded = checked_access(self.pd.ctx.world, int(access), failed)
        self._allocate(minded)
        self._register(minded, failed)

    def _begin(self, creator: Any, length: int, address: int | None) -> None:
        self.pd: PD = creator.pd
        self._length = length
        self.buf = 0 if address is None else int(address)
        self._owned = 0  # bytes of pages that this region has allocated itself
        self._imported = False
        self.lkey = self.rkey = self.handle = 0

    def _allocate(self, access: int) -> None:
        if self.buf or self._length <= 0:
            return
        huge = bool(access & e.IBV_ACCESS_HUGETLB)
        unit = HUGE if huge else PAGE
        size = -(-self._length // unit) * unit
        with refusal(f"Failed to allocate MR buffer of size {self._length}"):
            self.buf = int(self.pd.ctx.world.device.map(size, huge))
        self._owned = size

    def _register(self, access: int, failed: str, **where: Any) -> None:
        device = self.pd.ctx.world.device
        if self.implicit and not access & e.IBV_ACCESS_ON_DEMAND:
            self._unmap()
            raise error(failed, errno.EINVAL)
        length = ALL if self.implicit else self._length
        place = {"address": 0 if self.implicit else self.buf, "iova": None} | where
        iova = place["address"] if place["iova"] is None else place["iova"]
        if access & e.IBV_ACCESS_ZERO_BASED and place["iova"] is None:
            iova = 0
        try:
            found = device.register(
                self.pd.handle,
                place["address"],
                length,
                iova,
                access,
                self.implicit,
                place.get("dm", 0),
            )
        except Refused as refused:
            self._unmap()
            raise error(failed, refused.errno) from None
        self.handle, self.lkey, self.rkey = found
        self.access = access
        self.pd.ctx.things[("mr", self.handle)] = (found, length)
        self._opened()
        self.pd._add_dependent(self, "mrs")

    def _import(self, handle: int) -> None:
        found = self.pd.ctx.things.get(("mr", handle))
        if found is None:
            raise error(f"Failed to import MR with handle {handle}", errno.EINVAL)
        (self.handle, self.lkey, self.rkey), self._length = found
        self._imported = True
        self._opened()
        self.pd._add_dependent(self, "mrs")

    def __str__(self) -> str:
        shown = {"lkey": self.lkey, "rkey": self.rkey, "length": self.length, "buf": self.buf}
        return f"{type(self).__name__}\n" + printed(shown)

    @property
    def length(self) -> int:
        """The region's length in bytes."""
        return ALL if self.implicit and not self._imported else self._length

    def _unmap(self) -> None:
        if self._owned:
            self.pd.ctx.world.device.unmap(self.buf, self._owned)
            self._owned = 0

    def _release(self) -> None:
        if not self._imported:
            self.pd.ctx.things.pop(("mr", self.handle), None)
            self.pd.ctx.world.device.deregister(self.handle)
            self._unmap()

    def unimport(self) -> None:
        """Release an imported handle."""
        self._imported = True
        self.close()

    def write(self, data: Any, length: int, offset: int = 0) -> None:
        """Store ``length`` bytes of text or bytes into the region."""
        if not self.buf:
            raise PyverbsUserError("Failed to write to MR: it has no buffer")
        try:
            self.pd.ctx.world.device.write(self.buf + int(offset), as_bytes(data, int(length)))
        except Refused as refused:
            raise error("Failed to write to MR", refused.errno) from None

    def read(self, length: int, offset: int) -> bytes:
        """Load bytes of the region."""
        if not self.buf:
            raise PyverbsUserError("Failed to read from MR: it has no buffer")
        try:
            found: bytes = self.pd.ctx.world.device.read(self.buf + int(offset), int(length))
        except Refused as refused:
            raise error("Failed to read from MR", refused.errno) from None
        return found

    def rereg(
        self, flags: int, pd: PD | None = None, addr: int = 0, length: int = 0, access: int = 0
    ) -> None:
        """Reregister: change address, protection domain or access; the keys stay."""
        changes, size = int(flags), int(length)
        moved = bool(changes & e.IBV_REREG_MR_CHANGE_TRANSLATION)
        allowed = bool(changes & e.IBV_REREG_MR_CHANGE_ACCESS)
        wrong = (
            changes & ~int(CHANGES)
            or not changes
            or (moved and (not int(addr) or size < 1))
            or (access and not allowed)
            or (changes & e.IBV_REREG_MR_CHANGE_PD and pd is None)
        )
        failed = f"Failed to rereg MR: {rereg_error_to_str(e.IBV_REREG_MR_ERR_INPUT)}"
        if wrong:
            raise error(failed, errno.EINVAL)
        world = self.pd.ctx.world
        minded = checked_access(world, int(access), failed) if allowed else None
        domain = pd.pd if changes & e.IBV_REREG_MR_CHANGE_PD and pd is not None else None
        with refusal(f"Failed to rereg MR: {rereg_error_to_str(e.IBV_REREG_MR_ERR_CMD)}"):
            world.device.reregister(
                self.handle,
                pd=None if domain is None else domain.handle,
                address=int(addr) if moved else None,
                length=size if moved else None,
                access=minded,
            )
        if moved:
            self._unmap()
            self.buf, self._length = int(addr), size
            self.pd.ctx.things[("mr", self.handle)] = ((self.handle, self.lkey, self.rkey), size)
        if domain is not None:
            self.pd._born["mrs"].discard(self)
            self.pd = domain
            domain._add_dependent(self, "mrs")


class DmaHandleInitAttr(Attributes):
    """Attributes of a TLP processing hint."""

    comp_mask: int = 0
    cpu_id: int = 0
    ph: int = 0
    tph_mem_type: int = 0


class DMAHandle(PyverbsCM):
    """A handle of a TLP processing hint; errors: EOPNOTSUPP."""

    def __init__(self, ctx: Any, init_attr: DmaHandleInitAttr) -> None:  # noqa: ARG002
        raise error("Failed to allocate DMA handle", errno.EOPNOTSUPP)


class MREx(MR):
    """A memory region, created by the extended registration call.

    With ``buf`` its bytes are that buffer's from ``address`` on, which lies in it; None: from its
    begin on.
    """

    FAILED = "Failed to register MR using extended API"

    def __init__(
        self,
        pd: PD,
        length: int = 0,
        access: int = 0,
        address: int | None = None,
        iova: int | None = None,
        fd: int | None = None,
        fd_offset: int = 0,
        dmah: DMAHandle | None = None,
        implicit: bool = False,
        buf: Buf | None = None,
    ) -> None:
        self._begin(pd, int(length), address)
        self.implicit = bool(implicit)
        minded = checked_access(pd.ctx.world, int(access), self.FAILED)
        if fd is not None and (address is not None or implicit or buf is not None):
            raise error(self.FAILED, errno.EINVAL)
        if fd is not None or dmah is not None or int(fd_offset):
            raise error(self.FAILED, errno.EOPNOTSUPP)
        if buf is not None:
            start = 0 if address is None else int(address) - buf.addr
            if buf.pd.pd is not self.pd or not 0 <= start <= buf.size - self._length:
                raise error(self.FAILED, errno.EINVAL)
            self.buf = buf.addr + start
            self.buffer = buf
        self._allocate(minded)
        self._register(minded, self.FAILED, iova=None if iova is None else int(iova))


class Buf(PyverbsCM):
    """A buffer that the provider allocates."""

    def __init__(self, pd: PD, size: int) -> None:
        self.pd, self.size = pd, int(size)
        failed = f"Failed to allocate buffer of size {self.size}"
        if self.size < 1:
            raise error(failed, errno.EINVAL)
        self._room = -(-self.size // PAGE) * PAGE
        with refusal(failed):
            self.addr = int(pd.ctx.world.device.map(self._room))
        self._opened()
        pd._add_dependent(self, "bufs")

    def _release(self) -> None:
        self.pd.ctx.world.device.unmap(self.addr, self._room)

    def export_dmabuf_fd(self) -> int:
        """Errors: ENODATA, as it is ordinary memory."""
        raise error("Failed to export buffer as dma-buf", errno.ENODATA)


class BufMR(MREx):
    """A memory region over a buffer that the provider has allocated."""

    def __init__(self, pd: PD, buf: Buf, length: int = 0, access: int = 0, offset: int = 0) -> None:
        wanted = int(length) or buf.size - int(offset)
        super().__init__(pd, wanted, access, address=buf.addr + int(offset), buf=buf)


class DMMR(MR):
    """A memory region over device memory; its addresses begin at zero."""

    def __init__(self, pd: PD, length: int, access: int, dm: DM, offset: int) -> None:
        self._begin(pd, int(length), None)
        self.implicit = False
        self.dm, self._offset = dm, int(offset)
        failed = (
            f"Failed to register a device MR. length: {int(length)}, access flags: {int(access)}"
        )
        minded = checked_access(pd.ctx.world, int(access), failed)
        beyond = not 0 <= self._offset <= dm.size - self._length
        if beyond or self._length < 0 or not minded & e.IBV_ACCESS_ZERO_BASED:
            raise error(failed, errno.EINVAL)
        self._register(minded, failed, address=self._offset, iova=0, dm=dm.handle)
        dm._add_dependent(self, "dm_mrs")

    def write(self, data: Any, length: int, offset: int = 0) -> None:
        """Store words from the CPU into device memory."""
        self.dm.copy_to_dm(self._offset + int(offset), data, length)

    def read(self, length: int, offset: int) -> bytes:
        """Load words of device memory into the CPU."""
        return self.dm.copy_from_dm(self._offset + int(offset), length)


class DmaBufMR(MR):
    """A memory region over another device's memory, of which there is none."""

    def __init__(
        self,
        pd: PD,
        length: int,
        access: int,
        dmabuf: Any = None,
        offset: int = 0,
        gpu: int = 0,
        gtt: int = 0,
    ) -> None:
        self._begin(pd, int(length), None)
        self.asked = (dmabuf, offset, gpu, gtt)
        failed = (
            f"Failed to register a dma-buf MR. length: {int(length)}, access flags: {int(access)}"
        )
        checked_access(pd.ctx.world, int(access), failed)
        raise error(failed, errno.EOPNOTSUPP)
