"""Protection domains, and parent domains whose queues lie where a program says."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, error, refusal
from nicscope.interfaces.verbs.pyverbs_error import PyverbsRDMAError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.interfaces.verbs.cmid import CMID
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs.wr import SGE


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

    def __init__(self, creator: Context | CMID, handle: int | None = None) -> None:
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

    def advise_mr(self, advise: int, flags: int, sg_list: list[SGE]) -> None:
        """Prefetch pages of on-demand memory regions."""
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


QP, CQ, SRQ = 0, 1, 2  # kinds of resources, as the callbacks get them
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
