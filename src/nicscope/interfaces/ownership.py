"""Whose is what: each process's table of the objects that its calls may name.

A library hands objects to a process: buffers, endpoints, regions, imports.  A call that takes one
looks it up here, in the table of the process whose call it is, and by identity: this very object
must have been given to this very process.  What the object says of itself counts for nothing, what
the table keeps beside it does.  So an object of another process, of another cluster or an earlier
run, one that has been given back, and one that was made by hand are refused before anything is
posted.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TypeVar

from nicscope.drivers.current_program import RUNNING
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Owned:
    """Something that a library gives to one process; it stands for nothing but itself."""

    what: ClassVar[str] = "object"  # as messages call it
    origin: ClassVar[str] = "the library"  # what gives one
    _owner: Owner | None = None  # for messages alone: the table decides
    _gone: str = ""  # how it was given back

    @property
    def _of(self) -> str:
        """Whose it is, for its ``repr``."""
        gone = f", {self._gone}" if self._gone else ""
        return ("nobody" if self._owner is None else self._owner.place) + gone


T = TypeVar("T", bound=Owned)


class Actor(Protocol):
    """A program of a run, as its driver knows it."""

    name: str
    run: object


class Owner:
    """One process of one run, and what it has been given."""

    def __init__(
        self,
        name: str,
        run: object,
        actor: Actor | None,
        error: Callable[[str], SimulationError] = SimulationError,
    ) -> None:
        """``run``: whatever is one and the same for all its processes.

        ``actor`` may follow (``act_as``); ``error`` makes what is raised of a message.
        """
        self.name = name
        self.is_over = False
        self._run = run
        if actor is not None:
            self.act_as(actor)
        self._error = error
        # The objects are kept, so that no other can have the identity of one that is in here.
        self._records: dict[int, tuple[Owned, Any]] = {}
        # Whose calls are many looks here first, by ``id``, and asks ``record_of`` for what is not.
        self.records: Mapping[int, tuple[Owned, Any]] = self._records

    @property
    def place(self) -> str:
        """Where it is, as what it holds says of itself: "node 1, process 0"."""
        process, _, node = self.name.partition(" of ")
        return f"{node}, {process}"

    def act_as(self, actor: Actor) -> None:
        """The process is ``actor`` for its driver."""
        actor.name, actor.run = self.name, self._run
        self._actor = actor

    def give(self, thing: T, record: object = None) -> T:
        """The process may name ``thing`` from now on, which stands for ``record``."""
        object.__setattr__(thing, "_owner", self)
        self._records[id(thing)] = thing, record
        return thing

    def take_back(self, thing: Owned, how: str) -> None:
        """``thing`` stands for nothing any more; ``how``: "closed", "released"."""
        if self._records.pop(id(thing), None) is not None:
            object.__setattr__(thing, "_gone", how)

    def record_of(self, thing: object, kind: type[Owned]) -> Any:
        """What ``thing``, a ``kind``, stands for.  Errors: if it is none of this process's."""
        found = self._records.get(id(thing))
        if found is None or not isinstance(thing, kind):
            self.refuse(thing, kind)
        return found[1]

    def has(self, thing: object) -> bool:
        """Whether ``thing`` is this process's."""
        return id(thing) in self._records

    def check_caller(self) -> None:
        """Return if this process is the one that goes on now, or none does.

        Errors: if another calls what is this one's: it would act in its name; if its run is over.
        """
        running = RUNNING.program
        if running is None and getattr(self._run, "is_over", False):
            raise self._error(
                f"{self.name} is not running: its run is over, and what it opened with it; call "
                "this from its program, and return from that what is to be looked at later"
            )
        if running is not self._actor and running is not None:
            where = "" if running.run is self._run else ", in another cluster or an earlier run"
            raise self._error(
                f"{running.name} called what is {self.name}'s{where}; a process acts only for "
                "itself: call what you were given or opened yourself"
            )

    def refuse(self, thing: object, kind: type[Owned]) -> NoReturn:
        """Say why ``thing`` is no ``kind`` of this process's.  Errors: that."""
        what, advice = kind.what, f"use one that {kind.origin} gave {self.name}"
        if inspect.iscoroutine(thing):
            name = thing.__name__
            thing.close()
            raise self._error(
                f"{what} is needed, not the call {name}(): write 'await' before that, which gives "
                "what it returns"
            )
        if isinstance(thing, bytes | bytearray | memoryview) and kind.origin == "allocate()":
            advice = f"write the bytes to one that allocate() gave {self.name}, and give that"
        if not isinstance(thing, kind):
            name = type(thing).__name__
            raise self._error(f"{what} is needed, not something of type {name}; {advice}")
        owner = thing._owner
        if not isinstance(owner, Owner) or (owner is self and not thing._gone):
            raise self._error(f"{what} that was made by hand names nothing; {advice}")
        if owner._run is not self._run or owner.is_over:
            raise self._error(
                f"{what} of another cluster, or of an earlier run: it was {owner.name}'s; {advice}"
            )
        if owner is not self:
            raise self._error(f"{what} of {owner.name}, not of {self.name}; {advice}")
        raise self._error(f"{what} that is {thing._gone} already; {advice}")
