"""Merging local optima: the best of all sets of recomputations that several of them together contain.

Annealing ends in one local optimum after the other, each good in some part. All subsets of their union are searched to
the end in about a second (see `program_of`); the best is mostly better than each of them (Blum et al. 2016: construct,
merge, solve and adapt).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.heuristics.compiling import NONE, ProblemArrays
from moccasin_mzn.solvers.program import YES, Literal, Program

# --- The best of all subsets of some recomputations, as a 0-1 program -----------------------------------------

# ::
#
#     node u      computed      read    maybe again: c    read    read, if x is recomputed
#     event           |----------|------------|------------|-----------|
#     in memory?           yes      a column        yes       a column
#
# Events are those of `state`: computing v in stage k is event k n + v. A stretch between two events that compute or
# read u has a column that states whether u is in memory throughout, unless it must be.


Recomputation = tuple[int, int]
"""A node, and the stage in which it is recomputed."""


def program_of(problem: ProblemArrays, choices: Sequence[Recomputation]) -> Program:
    """Solutions are the subsets within the budget and C_v.

    The first columns are the choices, in their order, which is ascending.
    """
    program = Program()
    column = {(v, k): program.column(int(problem.duration[v])) for v, k in choices}
    again: dict[int, list[int]] = {}
    for v, k in choices:
        again.setdefault(v, []).append(k)
    for v, stages in again.items():
        slots = int(problem.slot_ptr[v + 1] - problem.slot_ptr[v])
        program.capacity(((column[v, k], 1) for k in stages), slots)
    _add_memory(problem, program, column, again)
    return program


def _add_memory(
    problem: ProblemArrays, program: Program, column: dict[Recomputation, int], again: dict[int, list[int]]
) -> None:
    """What is in memory at each computation that is made fits."""
    n, size = len(problem.duration), problem.size.tolist()
    events = sorted([*(k * n + k for k in range(n)), *(k * n + v for v, k in column)])
    index = {event: i for i, event in enumerate(events)}
    change = [0] * (len(events) + 1)
    beginning: list[list[tuple[int, int, Literal]]] = [[] for _ in events]
    for u in range(n):
        for begin, end, kept in _stretches(problem, program, column, again, u) if size[u] else ():
            if kept == YES:
                change[index[begin] + 1] += size[u]
                change[index[end] + 1] -= size[u]
            else:
                beginning[index[begin]].append((index[end], u, kept))
    lasting, sure = list[tuple[int, int, Literal]](), 0
    for i, event in enumerate(events):
        k, v = divmod(event, n)
        sure += change[i]
        lasting = [stretch for stretch in lasting if stretch[0] >= i]
        left = int(problem.budget) - sure - size[v] - int(problem.workspace[v])
        others = ((kept, size[u]) for _, u, kept in lasting if u != v)
        program.capacity(others, left, YES if v == k else column[v, k])
        lasting += beginning[i]


def _stretches(
    problem: ProblemArrays, program: Program, column: dict[Recomputation, int], again: dict[int, list[int]], u: int
) -> Iterator[tuple[int, int, Literal]]:
    """From when to when, both events, u may be in memory, with a literal that states whether it is; in order.

    At the first of the two events it is not counted, at the second it is.
    """
    n = len(problem.duration)

    def computations(x: int) -> dict[int, Literal]:
        return {x * n + x: YES, **{k * n + x: column[x, k] for k in again.get(x, ())}}

    computed, read = computations(u), dict[int, Literal]()
    for x in problem.succ[problem.succ_ptr[u] : problem.succ_ptr[u + 1]].tolist():
        read |= computations(x)
    events = sorted(event for event in computed | read if event <= max(read, default=-1))
    kept, must = [0] * len(events), False  # by the event that ends the stretch; the first one ends none
    for i in range(len(events) - 1, 0, -1):
        event = events[i]
        must = read.get(event) == YES or (must and event not in computed)
        kept[i] = YES if must else program.column()
    for i, event in enumerate(events):
        before, after = (kept[i] if i else None), (kept[i + 1] if i + 1 < len(events) else None)
        if event in read:
            program.clause((before,), premise=read[event])
            program.clause((before,), premise=after)
        else:
            program.clause((before, computed[event]), premise=after)
        if i:
            yield events[i - 1], event, kept[i]


# --- The merger -----------------------------------------------------------------------------------------------


FIRST_SETS, FEWEST_SETS, MOST_SETS = 8, 2, 40
"""How many sets are merged: the best, and the latest."""
DRAFTS = 4
"""And as many of the latest drafts with them."""
MOST_CHOICES = 1_000
"""More recomputations are not chosen among,"""
LARGEST = 2**60
"""nor any whose durations sum to more, for CP-SAT's integers."""
WORK, EASY = 2.0, 0.25
"""Limit of one merger in CP-SAT's deterministic seconds; the fraction of it below which a merger was easy."""
MORE_INPUTS = 0.1
"""How much higher the chance is of each input after a merger that was easy."""


@dataclass
class Merger:
    """The local optima that were met lately.

    What is merged grows with every merger that was easy, and shrinks with every one that was not solved to its end.
    """

    problem: ProblemArrays
    seed: int
    sets: list[frozenset[Recomputation]] = field(default_factory=list)
    """Within the budget, the latest last."""
    drafts: deque[frozenset[Recomputation]] = field(default_factory=lambda: deque(maxlen=DRAFTS))
    """Over the budget, but near good ones, the latest last."""
    new: int = 0
    """How many have come since the last merger."""
    number: int = FIRST_SETS
    """How many are merged."""
    inputs: float = 0.0
    """Chance that an input of what is recomputed may be so in the same stage."""

    def __post_init__(self) -> None:
        self.draw = Random(self.seed)

    def note(self, stage_of_slot: np.ndarray) -> None:
        """Take notice of a local optimum, within the budget."""
        found = self._set(stage_of_slot)
        self.new += found not in self.sets
        self.sets = [*(one for one in self.sets if one != found), found]

    def suggest(self, stage_of_slot: np.ndarray) -> None:
        """Take notice of a set that is over the budget, but near good ones."""
        self.drafts.append(self._set(stage_of_slot))

    def _set(self, stage_of_slot: np.ndarray) -> frozenset[Recomputation]:
        slots = np.flatnonzero(stage_of_slot != NONE)
        return frozenset(zip(self.problem.slot_node[slots].tolist(), stage_of_slot[slots].tolist(), strict=True))

    def merged(self, stop: Callable[[], bool]) -> np.ndarray | None:
        """By slots, a set that is better than all that are known; None if none was found."""
        from moccasin_mzn.solvers.cpsat.branching import branch

        best = min(self.sets, key=self._duration)
        self.sets = [best, *[one for one in self.sets if one != best][1 - self.number :]]
        self.new, choices = 0, self._choices()
        if len(choices) > MOST_CHOICES or self._duration(choices) > LARGEST:
            self._adapt(-1)
            return None
        solved = branch(
            program_of(self.problem, choices), least=0, most=self._duration(best) - 1, deadline=Deadline(),
            seed=self.draw.randrange(2**31), on_bound=ignore, stop=lambda _: stop(), presolve=True, work=WORK,
        )  # fmt: skip
        self._adapt(-1 if not solved.ended else 1 if solved.work < EASY * WORK else 0)
        if solved.solution is None:
            return None
        return self._slots(one for one, chosen in zip(choices, solved.solution, strict=False) if chosen)

    def _duration(self, recomputations: Iterable[Recomputation]) -> int:
        return sum(int(self.problem.duration[v]) for v, _ in recomputations)

    def _adapt(self, sign: int) -> None:
        if sign > 0:
            self.number, self.inputs = min(MOST_SETS, self.number + 1), min(1.0, self.inputs + MORE_INPUTS)
        elif sign < 0:
            self.number, self.inputs = max(FEWEST_SETS, self.number - 2), self.inputs / 2

    def _choices(self) -> list[Recomputation]:
        """The nodes of all sets, and some of their inputs with them; ascending."""
        found = set().union(*self.sets, *self.drafts)
        for v, k in sorted(found):
            for u in self.problem.pred[self.problem.pred_ptr[v] : self.problem.pred_ptr[v + 1]].tolist():
                if self.draw.random() < self.inputs and self.problem.slot_ptr[u] < self.problem.slot_ptr[u + 1]:
                    found.add((u, k))
        return sorted(found)

    def _slots(self, chosen: Iterable[Recomputation]) -> np.ndarray:
        """The stage of each slot, ascending for each node."""
        stage_of_slot, free = np.full(len(self.problem.slot_node), NONE, np.int64), self.problem.slot_ptr.tolist()
        for v, k in chosen:
            stage_of_slot[free[v]] = k
            free[v] += 1
        return stage_of_slot
