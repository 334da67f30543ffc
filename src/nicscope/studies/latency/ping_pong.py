"""The micro-benchmark: a message there, the same back, both sides with receives posted ahead.

The clock of a message starts at the first user write and stops when the receiver's poll has seen
the completion.  The two ends of the paper's own definition do not fit: it starts at VipPostSend,
yet counts the user's writes, which come before.  Source: EDT, 7.1 and 7.2.

Buffers may go through a translation cache on each side, at the costs of another platform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.errors import DesignError, StudyError
from nicscope.interfaces.via import Cluster, Reliability
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.translating import LOOKUP, Translation
from nicscope.nic.vimsg.layout import PAGE
from nicscope.studies.pricing import price

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from nicscope.interfaces.via import Host
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.translating import Translator
    from nicscope.nic.coherent.mechanism import Mechanism
    from nicscope.studies.latency.question import Question

# A scheme by its name: the design of the catalog that its paper measured.
DESIGNS = {
    "static": "vmmc-static",
    "utlb": "utlb",
    "unet-mm": "unet-mm-pca200",
    "handle": "mini",
    "interrupt": "vmmc-interrupt",
}


class Translating(msgspec.Struct, frozen=True):
    """What was asked of translations, and what could not be priced."""

    design: str
    scheme: str
    platform: str
    entries: int | None
    pages: int  # that messages use in turn
    unpriced: dict[str, str]  # steps that happened, and why they took no time


class Pricing:
    """Prices of a design's events, in ps by step."""

    def __init__(self, question: Question, name: str, own_lookup_ps: int) -> None:
        """``own_lookup_ps``: of VI-MSG's, for a platform that states none.

        Errors: ``DesignError``, ``StudyError``.
        """
        design = load_design(DESIGNS.get(name, name))
        if question.entries is not None:
            try:
                design = with_settings(design, [f"entries={question.entries}"])
            except DesignError as error:
                raise StudyError(f"--entries: {str(error).partition(': ')[2]}") from None
        if design.platform is None:
            raise StudyError(
                f"design {design.name!r} names no platform, so nothing says what its misses take"
            )
        self._design, self._platform = design, load_platform(design.platform)
        self._own = own_lookup_ps
        self._pages = question.pages
        self.unpriced: dict[str, str] = {}
        self.translation = Translation(design, self._prices)

    def _prices(self, counts: Mapping[str, int]) -> dict[str, int]:
        cost = price(counts, self._design, self._platform)
        found = {part.name: part.high_ps for part in cost.components if part.count}
        for step in cost.unpriced:
            if step.count and step.name in LOOKUP:
                found[step.name] = self._own * step.count
                self.unpriced[step.name] = f"{step.why}; taken as vimsg_translate"
            elif step.count:
                self.unpriced[step.name] = step.why
        return found

    def to_report(self) -> Translating:
        """What a report says of it."""
        design = self._design
        return Translating(
            design.name,
            design.scheme.value,
            self._platform.name,
            design.entries,
            self._pages,
            dict(self.unpriced),
        )


# Messages each way before the first that counts, and that count.  A small one takes two entries of
# a cacheable queue of 64, so either is about a pass around it.
WARM_UP = 34
MEASURED = 32


class Measured(NamedTuple):
    """Of all measured messages together, picoseconds."""

    messages: int
    total: int
    parts: list[int]  # by ``Part``; they add up to ``total``
    lookups: int = 0  # of pages in a translation cache, on both NICs, for messages both ways
    misses: int = 0


def rounds_of(pages: int) -> tuple[int, int]:
    """Messages each way before the first that counts, and that count, with so many buffers."""
    return max(WARM_UP, pages), -(-MEASURED // pages) * pages


def ping_pong(
    platform: str | Path,
    mechanism: str | Mechanism,
    byte_count: int,
    settings: Mapping[str, int] | None = None,
    *,
    measured: int | None = None,
    reliability: Reliability = Reliability.VIP_SERVICE_UNRELIABLE,
    translation: Translation | None = None,
    pages: int = 1,
    delivery: str = "store-and-forward",
) -> Measured:
    """Time ``measured`` messages of ``byte_count`` bytes one way, once caches are warm.

    ``measured`` is by default as ``rounds_of`` says; ``pages`` buffers on either side are used in
    turn.
    Errors: ``PlatformError``, ``SimulationError``.
    """
    changes = dict(settings or {})
    room = 2 * pages * (byte_count // PAGE + 1) * PAGE
    if pages > 1:
        changes.setdefault("memory_bytes", max(1 << 21, 2 << room.bit_length()))
    cluster = Cluster(
        platform, mechanism, settings=changes, translation=translation, delivery=delivery
    )
    warm_up, usual = rounds_of(pages)
    measured = usual if measured is None else measured
    game = _Game(byte_count, (warm_up, measured), pages, reliability, cluster.translator)
    cluster.start(0, game.player(first=True))
    cluster.start(1, game.player(first=False))
    cluster.run()
    counted = game.found[warm_up:]
    parts = [sum(one.parts[part] for one in counted) for part in Part]
    lookups, misses = (end - start for end, start in zip(game.looked(), game.warm, strict=True))
    return Measured(measured, sum(one.total for one in counted), parts, lookups, misses)


class _Game:
    def __init__(
        self,
        byte_count: int,
        rounds: tuple[int, int],
        pages: int,
        reliability: Reliability,
        translator: Translator | None,
    ) -> None:
        self._size = byte_count
        self._warm_up, measured = rounds
        self._rounds = self._warm_up + measured
        self._pages = pages
        self._reliability = reliability
        self._translator = translator
        self._started = 0  # when the first player began to write the message under way
        self.found: list[Measured] = []
        self.warm = (0, 0)  # what ``looked`` said before the first message that counts

    def looked(self) -> tuple[int, int]:
        """Lookups and misses so far, of both NICs."""
        if self._translator is None:
            return 0, 0
        return self._translator.lookups, self._translator.misses

    def player(self, *, first: bool) -> Callable[[Host], Coroutine[None, None, None]]:
        async def play(host: Host) -> None:
            nic = await host.open_nic()
            tag = await nic.create_ptag()
            vi = await nic.create_vi(tag, self._reliability)
            places = await nic.descriptors(tag, self._rounds, segments=1)
            ours = await nic.descriptors(tag, 1, segments=1)
            outs, intos = [
                [await nic.register_mem(nic.allocate(self._size), tag) for _ in range(self._pages)]
                for _ in range(2)
            ]
            for number in range(self._rounds):
                await nic.post_recv(vi, places.request(intos[number % self._pages].segment()))
            if first:
                await nic.connect_request(vi, 1, "ping-pong")
            else:
                await nic.connect_accept(await nic.connect_wait("ping-pong"), vi)
            for number in range(self._rounds):
                raw = bytes((number + i) % 251 for i in range(self._size))
                out, into = outs[number % self._pages], intos[number % self._pages]
                if first:
                    if number == self._warm_up:
                        self.warm = self.looked()
                    self._started = nic.now_ps
                else:
                    self._note((await nic.recv_wait(vi)).journal, nic.now_ps)
                    self._compare(raw, await nic.read(into.address, self._size))
                await nic.write(out.address, raw)
                await nic.post_send(vi, ours.request(out.segment()))
                await nic.send_wait(vi)
                if first:
                    await nic.recv_wait(vi)
                    self._compare(raw, await nic.read(into.address, self._size))

        return play

    def _note(self, journal: Journal | None, now: int) -> None:
        """The message that was begun at ``_started`` has been seen ``now``."""
        if journal is None or journal.at != now:
            raise RuntimeError("a message's journal has a gap")
        parts = list(journal.parts)
        parts[Part.USER_DATA] += journal.begin - self._started
        self.found.append(Measured(1, now - self._started, parts))

    def _compare(self, sent: bytes, received: bytes) -> None:
        if sent != received:
            raise RuntimeError("a message did not arrive as it was sent")
