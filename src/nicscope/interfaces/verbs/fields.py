"""Attribute objects: numbers as C takes them, and their print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTH = 22  # of a name in a print


class Number:
    """A field that holds an integer; what is no integer is cut to one, as C does."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._place = f"_{name}"

    def __get__(self, holder: Any, kind: type | None = None) -> int:
        if holder is None:
            return self  # type: ignore[return-value]
        found: int = getattr(holder, self._place)
        return found

    def __set__(self, holder: Any, value: Any) -> None:
        setattr(holder, self._place, int(value))


class Fields:
    """Something whose print is a line for each of its fields."""

    SHOWN: ClassVar[tuple[str, ...]] = ()

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        return [(name.replace("_", " "), getattr(self, name)) for name in self.SHOWN]

    def __str__(self) -> str:
        return printed(dict(self.shown()))


def printed(values: Mapping[str, Any]) -> str:
    """A line for each value, behind its name."""
    return "".join(f"{name:<{WIDTH}}: {value}\n" for name, value in values.items())


def as_int(value: Any, default: int = 0) -> int:
    """``value`` cut to an integer; ``default`` for None."""
    return default if value is None else int(value)
