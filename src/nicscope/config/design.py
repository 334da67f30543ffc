"""A design: a translation scheme with its sizes and policies, and the parts beside it.

A design file is flat TOML with the names of ``SETTINGS`` and ``PARTS``; see ``docs/designs.md``.
A value may stand alone (``entries = 8192``) or with its evidence
(``entries = { value = 8192, evidence = "published", source = "UTLB, section 4.2" }``), as every
number of the catalog does.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.delivery import PARTS, read_part
from nicscope.config.evidence import Evidence, Origin, only_known, read_origin
from nicscope.config.interface import read_interface
from nicscope.config.scheme import (
    NONE,
    SETTINGS,
    USES,
    Scheme,
    Value,
    known_setting,
    read_scheme,
    read_setting,
)
from nicscope.config.shelf import beside, open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import DesignError, did_you_mean
from nicscope.memory.replacement import Replacement
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform

__all__ = [
    "Design",
    "Replacement",
    "Scheme",
    "chosen_design",
    "design_names",
    "load_design",
    "with_settings",
    "with_values",
]

_BOOKKEEPING = ("scheme", "title", "description", "platform", "interface", "sources")
_CELL = ("value", "unit", "evidence", "source")
# Of ``rnic``, besides ``entries``: their sizes, ways, and whether they have lines.
_FURTHER_CACHES = (
    ("mpt_entries", "mpt_ways", False),
    ("l1_entries", "l1_ways", True),
    ("mpt_l1_entries", "mpt_l1_ways", False),
)
_DEFAULT = Origin(Evidence.ASSUMED, "nicscope's default")


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface as parts; a field that its scheme does not use is None.

    ``page_size`` is None where the trace's is to hold (``at_page_size`` settles it).
    ``origins`` holds the evidence of every setting in use.
    """

    name: str
    title: str
    scheme: Scheme
    description: str = ""
    platform: str | None = None  # the platform that its paper measured on
    interface: str | None = None  # what programs on it call; None: as its scheme has it
    sources: dict[str, str] = {}  # citation keys of the origins
    origins: dict[str, Origin] = {}
    area_bytes: int | None = None
    entries: int | None = None
    ways: int | None = None
    line: int | None = None
    victim_entries: int | None = None
    most_valid: int | None = None  # entries; None: as many as there are
    index_offset: bool | None = None
    prefetch: int | None = None
    prepin: int | None = None
    pin_limit: int | None = None  # pages per process; None: no limit
    replacement: Replacement | None = None
    high_water: int | None = None  # pages per node; None: never unpin
    mpt_entries: int | None = None
    mpt_ways: int | None = None
    l1_entries: int | None = None  # None: there is one level
    l1_ways: int | None = None
    l1_shared: bool | None = None
    mpt_l1_entries: int | None = None  # None: regions have no second level of their own
    mpt_l1_ways: int | None = None
    mtu: int | None = None  # bytes; None: a region is looked up once per request
    indirect: int | None = None  # bytes; None: regions are of pages
    registered: int | None = None  # bytes per process; None: what it touches
    seed: int | None = None
    page_size: int | None = None  # bytes
    served_by: str | None = None  # None: as the platform's NIC allows
    delivery: str = PARTS["delivery"].default or ""
    transport: str | None = None  # None: the interface's own
    way: str = PARTS["way"].default or ""

    def settings(self) -> dict[str, Value]:
        """Every setting that the scheme uses, by name."""
        return {key: getattr(self, key) for key in USES[self.scheme]}

    def parts(self) -> dict[str, str | None]:
        """Every part beside the translation, by the names of ``PARTS``; None: others decide."""
        return {key: getattr(self, key) for key in PARTS}

    def part_origins(self) -> dict[str, Origin]:
        """The evidence of each part; of one that is not said, who decides it."""
        return {
            key: self.origins.get(key, Origin(Evidence.ASSUMED, part.unsaid))
            for key, part in PARTS.items()
        }

    def served_on(self, platform: Platform) -> str:
        """Who serves ports on ``platform``: whom the design names, or else who can there."""
        return self.served_by or platform.served_by

    def at_page_size(self, page_size: int) -> Design:
        """Itself with ``page_size`` bytes per page, unless it states its own.

        Errors: ``DesignError`` if an indirect region's parts do not have whole lines of such pages.
        """
        settled = self
        if self.page_size is None:
            settled = msgspec.structs.replace(self, page_size=page_size)
        check_indirect(settled)
        return settled

    def to_json(self) -> dict[str, Any]:
        """Name, scheme and the settings it uses, flat; an absent limit is None."""
        plain = {
            key: value.name.lower() if isinstance(value, Replacement) else value
            for key, value in self.settings().items()
        }
        return {"name": self.name, "scheme": self.scheme.value, **plain}


def design_names() -> list[str]:
    """Names of the catalog's designs, sorted."""
    return shelf_names("designs")


@ToldPlainly()
def load_design(name_or_path: str | Path | Design) -> Design:
    """Design of that name in the catalog, or the one in a ``.toml`` file; one that is there stays.

    Errors: ``DesignError`` naming the file and the key that is wrong.
    """
    if isinstance(name_or_path, Design):
        return name_or_path
    name, called, content = open_shelf("designs", name_or_path, DesignError)
    if "scheme" not in content:
        raise DesignError(f"{called}: has no scheme{did_you_mean('', list(Scheme))}")
    scheme = read_scheme(content["scheme"], called)
    sources = read_texts(content, "sources", called, DesignError)
    values: dict[str, Value | str] = {}
    origins: dict[str, Origin] = {}
    for key, given in content.items():
        if key in _BOOKKEEPING:
            continue
        if key not in PARTS:
            known_setting(scheme, key, called)
        value, origin = _cell(given, sources, called, key)
        values[key] = _read(scheme, key, value, called)
        origins[key] = origin
    bookkeeping = {
        "title": read_text(content, "title", name, called, DesignError),
        "description": read_text(content, "description", "", called, DesignError),
        "platform": beside(name_or_path, read_text(content, "platform", "", called, DesignError))
        or None,
        "interface": _interface(content, called),
    }
    return _assemble(
        {"name": name, "scheme": scheme, "sources": sources, **bookkeeping}, values, origins, called
    )


def _interface(content: Mapping[str, Any], called: str) -> str | None:
    given = read_text(content, "interface", "", called, DesignError)
    return read_interface(given, called, DesignError) if given else None


def with_settings(design: Design, assignments: Sequence[str]) -> Design:
    """``design`` with every ``key=value`` of ``assignments`` set, checked as a file's would be.

    ``scheme=NAME`` changes the scheme, wherever it stands: settings that both schemes use stay,
    the rest take their defaults.  ``none`` removes a limit.  Errors: ``DesignError``.
    """
    return _changed(design, [_split(assignment) for assignment in assignments], "--set ")


def with_values(design: Design, values: Mapping[str, object]) -> Design:
    """``design`` with ``values`` by the names of its settings, as Python has them.

    As ``with_settings``; None removes a limit.  Errors: ``DesignError`` naming what was given.
    """
    pairs = [(key, _plain(value)) for key, value in values.items()]
    return _changed(design, pairs, "") if pairs else design


def chosen_design(given: str | Path | Design, values: Mapping[str, object]) -> Design:
    """The design that ``given`` is or names, with ``values``.  Errors: ``DesignError``."""
    design = given if isinstance(given, Design) else load_design(given)
    return with_values(design, values)


def _plain(value: object) -> object:
    """A value of Python's as a design file would have it."""
    if value is None:
        return NONE
    if isinstance(value, Replacement):
        return value.name.lower()
    if isinstance(value, bool | str):
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]  # also NumPy's whole numbers
    except TypeError:
        return value


def _changed(design: Design, pairs: Sequence[tuple[str, object]], said: str) -> Design:
    """``design`` with what ``pairs`` say; ``said``: how that was told, for errors and origins."""
    scheme = design.scheme
    for key, given in pairs:
        if key == "scheme":
            scheme = read_scheme(given, f"{said}scheme={given}")
    kept = [key for key in (*USES[scheme], *PARTS) if key in design.origins]
    values = {key: getattr(design, key) for key in kept}
    origins = {key: design.origins[key] for key in kept}
    for key, given in pairs:
        if key == "scheme":
            continue
        values[key] = _read(scheme, key, given, f"{said}{key}={given}")
        origins[key] = Origin(Evidence.ASSUMED, f"{said}{key}={given}")
    bookkeeping = {
        "name": design.name,
        "scheme": scheme,
        "title": design.title,
        "description": design.description,
        "platform": design.platform,
        "interface": design.interface,
        "sources": design.sources,
    }
    return _assemble(bookkeeping, values, origins, f"design {design.name!r} as set")


def _read(scheme: Scheme, key: str, given: Any, where: str) -> Value | str:
    return read_part(key, given, where) if key in PARTS else read_setting(scheme, key, given, where)


def _assemble(
    bookkeeping: Mapping[str, Any],
    values: Mapping[str, Value | str],
    origins: Mapping[str, Origin],
    called: str,
) -> Design:
    """Design with defaults filled in and its sizes checked against each other."""
    scheme: Scheme = bookkeeping["scheme"]
    filled: dict[str, Any] = {**bookkeeping, **values}
    traced = dict(origins)
    for key in USES[scheme]:
        if key in filled:
            continue
        setting = SETTINGS[key]
        if setting.default is None and not setting.optional:
            raise DesignError(f"{called}: scheme {scheme.value!r} needs {key}; give it a value")
        if setting.default is not None:
            filled[key] = setting.default
            traced[key] = _DEFAULT
    design = Design(**filled, origins=traced)
    _check_geometry(design, called)
    return design


def _check_geometry(design: Design, called: str) -> None:
    if design.entries is None:
        return
    ways, line = design.ways or 1, design.line or 1
    if ways * line > design.entries:
        what = f"ways ({ways})" if design.line is None else f"line ({line}) times ways ({ways})"
        raise DesignError(f"{called}: {what} must not exceed entries ({design.entries})")

    for entries_of, ways_of, each in _FURTHER_CACHES:
        entries, ways = getattr(design, entries_of), getattr(design, ways_of) or 1
        if entries is not None and ways * (line if each else 1) > entries:
            raise DesignError(
                f"{called}: {ways_of} ({ways}){f' times line ({line})' if each else ''} must not "
                f"exceed {entries_of} ({entries})"
            )
    if design.l1_shared and design.l1_entries is None:
        raise DesignError(f"{called}: l1_shared needs l1_entries, the level that is shared")
    if design.l1_shared and design.mpt_l1_entries is not None:
        raise DesignError(
            f"{called}: regions have lines of the shared level or mpt_l1_entries of their own; "
            "leave one out"
        )
    if design.page_size is not None:
        check_indirect(design)


def check_indirect(design: Design) -> None:
    """Return if the parts of an indirect region have whole lines of pages.

    Errors: ``DesignError``.
    """
    least = (design.line or 1) * (design.page_size or 1)
    if design.indirect is not None and design.indirect < least:
        raise DesignError(
            f"design {design.name!r}: indirect ({design.indirect}) must be at least a line of "
            f"pages ({least} bytes); take larger parts, smaller pages or a shorter line"
        )


def _cell(given: Any, sources: Mapping[str, str], called: str, key: str) -> tuple[Any, Origin]:
    if not isinstance(given, dict):
        return given, Origin(Evidence.ASSUMED, f"{called}, without a source")
    only_known(given, _CELL, f"{called}: {key}", DesignError)
    if "value" not in given:
        raise DesignError(f"{called}: {key} has no value")
    return given["value"], read_origin(given, sources, f"{called}: {key}", DesignError)


def _split(assignment: str) -> tuple[str, str]:
    key, sign, text = assignment.partition("=")
    if not sign or not key.strip() or not text.strip():
        raise DesignError(f"--set {assignment}: write it as KEY=VALUE, for instance entries=1024")
    return key.strip(), text.strip()
