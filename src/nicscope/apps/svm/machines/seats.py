"""A domain's seat on its node: what it is made of, and who of it a letter is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.apps.svm.machines.letters import PAGE, Kind, Letter, diff_of_bytes
from nicscope.apps.svm.machines.wires import answer_to

if TYPE_CHECKING:
    from nicscope.apps.svm.coherence import Coherence
    from nicscope.apps.svm.domain import Domain
    from nicscope.apps.svm.machines.mail import Mail
    from nicscope.apps.svm.machines.page_homes import PageHomes
    from nicscope.apps.svm.machines.questions import Questions
    from nicscope.apps.svm.machines.region import Region
    from nicscope.apps.svm.machines.synchronization import LetterSynchronization
    from nicscope.interfaces.ports.buffers import Buffer


class Seat(NamedTuple):
    """What one domain has."""

    domain: Domain
    region: Region
    mail: Mail
    questions: Questions
    homes: PageHomes
    coherence: Coherence
    synchronization: LetterSynchronization

    def take(self, letter: Letter) -> None:
        """A letter has come: do at once what it asks."""
        match letter.kind:
            case Kind.ANSWER:
                self.questions.answered(letter)
            case Kind.CLAIM:
                self.homes.claim(letter, _page(letter))
            case Kind.SETTLED:
                self.homes.settled(_page(letter))
            case Kind.FETCH:
                page = _page(letter)
                self.mail.post(answer_to(letter), f"page {page}", page, self.region)
            case Kind.DIFF:
                diff = diff_of_bytes(letter.body)
                self.region.put_words(diff.page, diff.words, diff.values)
                self.mail.post(answer_to(letter), f"a diff of page {diff.page}")
            case Kind.LOCK:
                self.synchronization.asked(letter)
            case Kind.PASS:
                self.synchronization.passed(letter)
            case Kind.GRANT:
                self.synchronization.granted(letter)
            case Kind.ARRIVE:
                self.synchronization.arrived(letter)
            case Kind.LEAVE:
                self.synchronization.left(letter)

    def place_of(self, letter: Letter) -> Buffer:
        """Where the page goes that ``letter`` answers with."""
        return self.region.part(self.questions.page_asked(letter.number))


def _page(letter: Letter) -> int:
    page, _ = PAGE.unpack(letter.body)
    return int(page)
