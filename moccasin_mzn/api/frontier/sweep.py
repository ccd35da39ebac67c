"""The sweep: which budgets to try, in which order, and for how long.

The frontier is a falling staircase. Between two budgets it may be anywhere in a rectangle, so the next budget halves
the largest one; where both durations are equal there is nothing to find out::

    duration  |  a o------+         the frontier from a to b
              |    |      |         is inside this
              |    |      |         rectangle
              |    +------o b       peak of b's schedule on the right
              +---------------> budget

Every answer serves other budgets too (see `questions`). Time that an answer did not need is left for the others, and
what is still open at the end of the first pass gets the rest.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from moccasin_mzn.api.frontier.points import Frontier
from moccasin_mzn.api.frontier.questions import BudgetQuestion, Knowledge, PointListener, ProgressLine, Variant
from moccasin_mzn.base.checks import check_time_limit
from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.search.result import percent_over
from moccasin_mzn.solvers.minizinc.run import SolverError

MOST_POINTS = 10_000
SWEEP_SECONDS = 600.0
"""Time limit of a sweep, in seconds, where none is given."""
LEAST_SHARE = 0.2
"""Largest share of the time to seek the least feasible budget."""
FIRST_SHARE = 0.5
"""Share of the time by which every point has had its first turn."""
LONGER = 2
"""Bounds are sought again each turn, so a later one takes at least this many times what the point has had before."""
SHORTEST = 0.2
"""Seconds: a shorter turn is not worth it."""
UNUSED = 0.5
"""A search that ends by itself with more than this part of its time unused has nothing more to find."""


@dataclass(frozen=True)
class SweepPlan:
    """The extent of a sweep.

    Raises:
        InputError: fewer than two points, or far too many; a time limit that is no positive number.
    """

    points: int = 20
    """Largest number of points, the least feasible budget and the peak of the input order among them."""
    seconds: float | None = SWEEP_SECONDS
    """Seconds for all; None, with searches that count their work: each budget has one of them."""
    budgets: tuple[int, ...] = ()
    """Budgets to try; if any are given, these only, and `points` has no meaning."""

    def __post_init__(self) -> None:
        if type(self.points) is not int or not 2 <= self.points <= MOST_POINTS:
            raise InputError(f"points {shown(self.points)} is not an integer from 2 to {MOST_POINTS}")
        check_time_limit(self.seconds)
        object.__setattr__(self, "budgets", tuple(sorted(set(self.budgets))))


def sweep(
    variant: Variant, plan: SweepPlan, report: ProgressLine = lambda line: None, begin: float | None = None,
    on_point: PointListener = lambda point, seconds: None, stop: Callable[[], bool] = never,
) -> Frontier:  # fmt: skip
    """Find the frontier as well as time allows. An interrupt from the keyboard ends the sweep, not this function.

    Args:
        report: called with a line of progress after each search.
        on_point: likewise, with the point and the seconds since the sweep began.
        stop: ends the sweep by returning true; the searches of the variant have to ask it too.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.

    Raises:
        JudgeError: a search returned what the judge rejects, or proved what a schedule contradicts.
        InputError: the first search failed; later ones that fail are reported and passed over.
    """
    deadline = Deadline(plan.seconds) if begin is None else Deadline(plan.seconds, begin)
    return _Sweep(variant, plan, report, on_point, deadline, stop).run()


@dataclass
class _Sweep:
    variant: Variant
    plan: SweepPlan
    report: ProgressLine
    on_point: PointListener
    deadline: Deadline
    stop: Callable[[], bool]
    chosen: set[int] = field(default_factory=set)
    """Budgets between the two ends."""
    spent: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds by budget."""
    turns: Counter[int] = field(default_factory=Counter)
    questions: int = 0
    """Number of questions so far."""
    ended: set[int] = field(default_factory=set)
    """Budgets whose searches ended by themselves, without a proof."""
    hopeless: set[int] = field(default_factory=set)
    """Budgets where searches for any schedule did, without one."""

    def __post_init__(self) -> None:
        self.knowledge = Knowledge(self.variant)
        if self.variant.counted:
            self.variant.stop = partial(_either, self.variant.stop, self.deadline.over)

    def run(self) -> Frontier:
        interrupted = False
        try:
            if not self.plan.budgets:
                seek_least(self.knowledge, self.ask, lambda: self.remaining(LEAST_SHARE), False)
            self.first_pass()
            if not self.variant.counted:
                self.later_passes()
        except KeyboardInterrupt:
            interrupted = True
        return self.frontier(interrupted)

    def remaining(self, share: float = 1.0) -> float:
        """Seconds until this share of the time is used up, 0 once the sweep is to stop; counted searches end by
        themselves."""
        if self.variant.counted:
            return 0.0 if self.stop() or self.deadline.over() else math.inf
        return 0.0 if self.stop() else self.deadline.remaining(share) or 0.0

    @property
    def budgets(self) -> list[int]:
        if self.plan.budgets:
            return list(self.plan.budgets)
        least = self.knowledge.least_found
        ends = {self.variant.peak} if least is None else {self.variant.peak, least}
        return sorted(ends | {budget for budget in self.chosen if least is None or budget > least})

    # Passes

    def first_pass(self) -> None:
        """Try every given budget once, or the two ends and then where the frontier bends."""
        if self.plan.budgets:
            for number, budget in enumerate(self.plan.budgets):
                if self.remaining() > SHORTEST:
                    self.turn(budget, self.remaining(FIRST_SHARE) / (len(self.plan.budgets) - number))
            return
        for end in (self.budgets[0], self.variant.peak):
            if not self.stop():
                self.turn(end, self.remaining(FIRST_SHARE) / self.plan.points)
        self.refine()

    def refine(self) -> None:
        """Try budgets between the points where most is open, until there are enough points."""
        while len(self.budgets) < self.plan.points and self.remaining() > SHORTEST:
            budget = self.widest()
            if budget is None:
                return
            self.chosen.add(budget)
            self.turn(budget, self.remaining(FIRST_SHARE) / (1 + self.plan.points - len(self.budgets)))

    def widest(self) -> int | None:
        """The middle of the largest rectangle; None if all are empty."""
        largest, middle = 0, None
        budgets = self.budgets
        for left, right in zip(budgets, budgets[1:], strict=False):
            high, low = self.knowledge.best(left), self.knowledge.best(right)
            if high is None or low is None or low.peak - left < 2:
                continue
            area = (low.peak - left) * (high.duration - low.duration)
            if area > largest:
                largest, middle = area, (left + low.peak) // 2
        return middle

    def later_passes(self) -> None:
        """Spend what is left of the time on open points, fewest turns and smallest gaps first.

        Then the least feasible budget gets it."""
        while self.remaining() > SHORTEST:
            if not self.plan.budgets:
                self.refine()
            still_open = [b for b in self.budgets if not self.knowledge.settled(b) and b not in self.ended]
            still_open.sort(key=lambda budget: (self.turns[budget], self.gap(budget), budget))
            for number, budget in enumerate(still_open):
                if self.remaining() > SHORTEST:
                    share = self.remaining() / (len(still_open) - number)
                    self.turn(budget, max(share, LONGER * self.spent[budget]))
            if not still_open and not self.seek_more():
                return

    def seek_more(self) -> bool:
        """Spend half of what is left of the time on the least feasible budget; False if it is known, or not wanted."""
        if self.plan.budgets:
            return False
        before, half = self.questions, self.deadline.part(0.5)
        seek_least(self.knowledge, self.ask, lambda: half.remaining() or 0.0, hopeless=self.hopeless)
        return self.questions > before

    def gap(self, budget: int) -> float:
        """Difference of the best duration and the best bound; infinite without a schedule."""
        best = self.knowledge.best(budget)
        return math.inf if best is None else best.duration - self.knowledge.bound(budget).bound

    # Queries

    def turn(self, budget: int, seconds: float) -> None:
        """Improve what is known at a budget, unless all is."""
        best, seconds = self.knowledge.best(budget), max(SHORTEST, min(seconds, self.remaining()))
        start, enough = None if best is None else best.schedule, self.knowledge.bound(budget).bound
        self.ask(BudgetQuestion(budget, seconds, start=start, enough=enough, attempt=self.turns[budget]))
        self.turns[budget] += 1

    def ask(self, question: BudgetQuestion) -> None:
        """Put a question, unless the answer is known, and learn from the answer.

        Raises:
            KeyboardInterrupt: the user stopped the search.
        """
        budget, begun = question.budget, self.deadline.elapsed()
        if self.knowledge.settled(budget):
            return
        self.questions += 1
        try:
            answer = self.variant.ask(question)
        except SolverError as error:
            if self.questions == 1:
                raise
            self.ended.add(budget)
            self.report(f"{self.deadline.elapsed():8.1f} s  budget {self._amount(budget)}: {error}")
            return
        finally:
            taken = self.deadline.elapsed() - begun
            self.spent[budget] += taken
        self.knowledge.learn(budget, answer)
        if taken < UNUSED * question.seconds and not self.knowledge.settled(budget):
            if not question.any_schedule:
                self.ended.add(budget)
            elif self.knowledge.best(budget) is None:
                self.hopeless.add(budget)
        self.report(self.line(budget))
        self.on_point(self.knowledge.point(budget, round(self.spent[budget], 3)), self.deadline.elapsed())
        if answer.interrupted:
            raise KeyboardInterrupt

    # Answers

    def line(self, budget: int) -> str:
        point, base = self.knowledge.point(budget), self.variant.baseline
        share = f" ({100 * budget / self.variant.peak:.2f} %)" if self.variant.peak else ""
        text = f"{self.deadline.elapsed():8.1f} s  budget {self._amount(budget)}{share}  {point.status}"
        if point.duration is not None and (base or self.variant.objective == "duration"):
            text += f"  +{percent_over(point.duration, base):.3f} %  bound +{percent_over(point.bound, base):.3f} %"
        elif point.duration is not None:
            text += f"  {self.variant.objective} {point.duration}  bound {point.bound}"
        return text

    def _amount(self, budget: int) -> str:
        return memory_text(budget, self.variant.graph.size_unit)

    def frontier(self, interrupted: bool) -> Frontier:
        variant, known = self.variant, self.knowledge
        points = tuple(known.point(budget, round(self.spent[budget], 3)) for budget in self.budgets)
        more_may_fit = variant.limited and known.least_found is not None and known.least_found > variant.least
        return Frontier(
            variant.graph, points, variant.peak, variant.baseline, known.least, known.least_found, variant.scope,
            variant.fixed, self.deadline.elapsed(), interrupted, variant.swept, variant.input_increase,
            more_may_fit, variant.objective,
        )  # fmt: skip


def _either(one: Callable[[], bool], other: Callable[[], bool]) -> bool:
    return one() or other()


# --- The least feasible budget --------------------------------------------------------------------------------

#         proven none      nobody knows        found
#     ---------------)[...x.......x........x[------------->  budget
#                  least                  least found        x  searched in vain
#
# First the least peak is sought: between the highest budget searched in vain and the least peak found. Then the
# proof: between the proven bound and the lowest budget searched in vain.


TOLERANCE = 1 / 400
"""Share of the input order's peak: closer than that, two budgets are the same on a large graph."""
SEARCHES = 6
"""A single search gets this part of the time that is left, so that some may be in vain."""
SHORTEST_PROBE = 0.5
"""Seconds of a search, at least."""


def seek_least(
    knowledge: Knowledge, ask: Callable[[BudgetQuestion], None], remaining: Callable[[], float], prove: bool = True,
    hopeless: Collection[int] = (),
) -> None:  # fmt: skip
    """Close in on the least feasible budget while there is time.

    Args:
        knowledge: where it is known so far.
        ask: puts a question; the answer goes into `knowledge`.
        remaining: seconds that are left for this.
        prove: False: seek the least peak only, which is of more use and often sooner known.
        hopeless: budgets searched in vain before, to which more time makes no difference.
    """
    vain = set(hopeless)
    tolerance = max(1, int(TOLERANCE * knowledge.variant.peak))
    while remaining() > 0:
        budget = _next(knowledge, vain, tolerance, prove)
        if budget is None:
            return
        least, seconds = knowledge.least, max(SHORTEST_PROBE, remaining() / SEARCHES)
        near = knowledge.found[0].schedule if knowledge.found else None
        ask(BudgetQuestion(budget, seconds, enough=knowledge.bound(budget).bound, any_schedule=True, near=near))
        if knowledge.least == least and knowledge.best(budget) is None:
            vain.add(budget)


def _next(knowledge: Knowledge, vain: set[int], tolerance: int, prove: bool) -> int | None:
    """The budget to search with next; None if it is known closely enough, or by no shorter searches."""
    proven = knowledge.least - 1
    found = knowledge.variant.peak + 1 if knowledge.least_found is None else knowledge.least_found
    vain = {budget for budget in vain if proven < budget < found}
    sides = [(max(vain, default=proven), found), (proven, min(vain, default=found))]
    return next(((low + high) // 2 for low, high in sides[: 1 + prove] if high - low > tolerance), None)
