"""Who listens to a search on behalf of a question, and ends it as soon as that is answered."""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.extensions.frontier.questions import Answer, Question
from moccasin_mzn.search.progress import Progress


class EnoughError(Exception):
    """The search has found what was asked for."""


@dataclass
class Listener:
    """Ends a search as soon as its schedule is as good as the question wants it, and remembers who found what."""

    question: Question
    latest: Progress | None = None
    """The latest improvement with a schedule."""
    bound: int = 0
    bound_source: str = ""

    def __call__(self, progress: Progress) -> None:
        if progress.bound > self.bound:
            self.bound, self.bound_source = progress.bound, progress.source
        if progress.answer is not None:
            self.latest = progress
            enough = self.question.enough
            if self.question.any_schedule or (enough is not None and progress.value <= enough):
                raise EnoughError

    def answer(self) -> Answer:
        """What was heard."""
        schedules = () if self.latest is None else ((self.latest.answer, self.latest.source),)
        return Answer(schedules, self.bound, self.bound_source)
