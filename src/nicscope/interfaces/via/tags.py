"""Protection tags of one node: whose each is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.names import Return, VipError
from nicscope.interfaces.via.numbers import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.interfaces.ownership import Owner


class Tags:
    """Of one node."""

    def __init__(self) -> None:
        self._owners: dict[int, Owner] = {}

    def make(self, owner: Owner, number: int) -> int:
        """``number`` is a protection tag of that process from now on."""
        self._owners[number] = owner
        return number

    def forget(self, owner: Owner, tag: object, is_in_use: Callable[[int], bool]) -> None:
        """Forget the tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        known = self.known(owner, tag, Return.VIP_INVALID_PARAMETER)
        if is_in_use(known):
            raise VipError(Return.VIP_ERROR_RESOURCE, f"protection tag {known} is in use")
        del self._owners[known]

    def of(self, owner: Owner) -> list[int]:
        """Those of that process."""
        return [number for number, holder in self._owners.items() if holder is owner]

    def known(self, owner: Owner, tag: object, code: Return) -> int:
        """The tag, if it is that process's; else raise ``code``."""
        try:
            number = whole(tag, "a protection tag", 1)
        except VipError as error:
            raise VipError(code, str(error).partition(": ")[2]) from None
        holder = self._owners.get(number)
        if holder is None:
            raise VipError(code, f"no protection tag {number}; create_ptag makes one")
        if holder is not owner:
            raise VipError(
                code,
                f"protection tag {number} is {holder.name}'s, not {owner.name}'s; create_ptag "
                "makes one",
            )
        return number
