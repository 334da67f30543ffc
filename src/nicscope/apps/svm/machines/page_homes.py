"""The pages that a domain manages: who is the home of which, and who asks until it has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.apps.svm.machines.wires import answer_to, home_answer

if TYPE_CHECKING:
    from nicscope.apps.svm.machines.letters import Letter
    from nicscope.apps.svm.machines.mail import Mail


class PageHomes:
    """Those whose number names this domain.  The first who asks for one is its home."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._homes: dict[int, int] = {}
        self._asking: dict[int, list[Letter]] = {}  # by page whose home does not have it yet

    def claim(self, letter: Letter, page: int) -> None:
        """Answer who the home is: whoever asks, if there is none."""
        if page not in self._homes:
            self._homes[page] = letter.sender
            self._asking[page] = []
            self._answer(letter, page)
        elif page in self._asking:
            self._asking[page].append(letter)
        else:
            self._answer(letter, page)

    def settled(self, page: int) -> None:
        """Its home has the page: others may fetch it."""
        for letter in self._asking.pop(page):
            self._answer(letter, page)

    def _answer(self, letter: Letter, page: int) -> None:
        self._mail.post(answer_to(letter, home_answer(self._homes[page])), f"page {page}")
