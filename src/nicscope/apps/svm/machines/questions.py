"""Questions of one domain to others, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.apps.svm.machines.letters import Kind, Letter
from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from nicscope.apps.svm.machines.mail import Mail


class Question:
    """One that has not been answered."""

    def __init__(self, page: int | None) -> None:
        self.page = page  # that was asked for, whose bytes go to its own place
        self.gate = Gate()
        self.answer = b""


class Questions:
    """What a domain has asked."""

    def __init__(self, own: int, domains: int, mail: Mail) -> None:
        self.own = own
        self.domains = domains
        self._mail = mail
        self._open: dict[int, Question] = {}
        self._asked = 0

    async def ask(
        self, endpoint: Any, to: int, kind: Kind, body: bytes, what: str, page: int | None = None
    ) -> bytes:
        """Ask domain ``to``; what it answers.  ``page``: its bytes are the answer's body."""
        self._asked += 1
        number = self._asked
        question = self._open[number] = Question(page)
        self._mail.post(Letter(kind, self.own, to, number, body), what)
        await question.gate.wait(endpoint)
        return question.answer

    def tell(self, to: int, kind: Kind, body: bytes, what: str) -> None:
        """Tell domain ``to`` what needs no answer."""
        self._mail.post(Letter(kind, self.own, to, 0, body), what)

    def page_asked(self, number: int) -> int:
        """The page that was asked for."""
        page = self._open[number].page
        assert page is not None, "an answer with a page to a question for none"
        return page

    def answered(self, letter: Letter) -> None:
        """An answer has come."""
        question = self._open.pop(letter.number)
        question.answer = letter.body
        question.gate.open()
