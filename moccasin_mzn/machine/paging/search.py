"""Plans of paging by annealing: from nothing, from the best schedule without slow memory, and from the best plan."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.heuristics.annealing import INCUMBENT, NOTHING, Annealing, Round, mean_of_positive
from moccasin_mzn.heuristics.compiled_searches import ignore, small_instance
from moccasin_mzn.heuristics.compiling import size_unit
from moccasin_mzn.heuristics.staged.state import problem_of as staged_problem
from moccasin_mzn.heuristics.staged.state import stages_of_slots, useful_edges
from moccasin_mzn.machine.paging.data import can_page, costs_of, local_instance, plan_with_writes
from moccasin_mzn.machine.paging.kernel import BEST, CHANGES, NONE, Problem, Workspace, anneal
from moccasin_mzn.machine.platforms import LOCAL, SLOW, PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance, pruned_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Plan, plan_of_sequence
from moccasin_mzn.problem.stages import first_out_of_stage

if TYPE_CHECKING:
    from moccasin_mzn.heuristics.staged.search import LocalSearch

EVENTS_PER_CHUNK = 5_000_000
"""Moves between two looks at the clock, times events."""
FIRST_ROUND = 50_000
LONGEST = 4
"""Rounds get longer, doubling so often."""
HOT, WARM, COOL, COLD = 1.0, 0.3, 0.1, 0.02
"""Temperatures in mean costs."""
PLAIN_ROUNDS, MORE_PLAIN_ROUNDS, MOST_PLAIN_ROUNDS = 2, 3, 10
"""Rounds of the search without slow memory: at first; how many more each time later, as they get longer; at most."""

Offer = Callable[[Plan], object]
Set = tuple[np.ndarray, np.ndarray]


class SetAnnealing(Annealing[Plan, Set]):
    """Annealing over sets of second intervals (see `kernel`); a run goes on where the one before it ended."""

    cold, patience = COLD, 4

    def __init__(self, posed: PlanProblem, seed: int = 0) -> None:
        self.posed, self.instance, self.problem = posed, local_instance(posed), problem_of(posed)
        problem, slots = self.problem, len(self.problem.slot_node)
        self.tail, self.head = useful_edges(staged_problem(self.instance), self.instance)
        self._numbers = itertools.count()
        self._best: Set = (np.full(slots, NONE, np.int64), np.zeros(slots, np.int64))
        self._present = self._best
        self._workspace = workspace_for(problem)
        self._trail = np.zeros((CHANGES + 2, 3), np.int64)
        self._figures, self._trial = np.zeros(4, np.int64), np.zeros(4, np.int64)
        rows = (problem.compute[0], problem.write[0] + problem.read[0])
        unit = min((mean_of_positive(row) for row in rows if np.any(row > 0)), default=1.0)
        limited = (problem.compute + problem.write + problem.read)[problem.limit < NO_LIMIT]
        penalty = unit / mean_of_positive(problem.size) / 20
        chunk = max(100, EVENTS_PER_CHUNK // (len(problem.size) + slots))
        super().__init__(seed, unit, [penalty, penalty, unit / mean_of_positive(limited)], chunk, [math.inf])

    @property
    def _value(self) -> float:
        return self._control[BEST]

    def _rounds(self) -> Iterator[Round]:
        """Start from nothing and from the best plan in turn."""
        for number in self._numbers:
            steps = FIRST_ROUND * 2 ** min(LONGEST, number // 2)
            if number % 2 == 0 or self.duration is None:
                yield Round(NOTHING, HOT if number else COOL, steps)
            else:
                yield Round(INCUMBENT, WARM, steps)

    def _start(self, plan: Round) -> Set:
        stage, back = self._best
        return self._best if plan.start == INCUMBENT else (np.full_like(stage, NONE), np.zeros_like(back))

    def _enter(self, plan: Round, start: Set) -> None:
        self._present = start[0].copy(), start[1].copy()

    def _anneal(self, plan: Round, cooling: float) -> None:
        anneal(
            self.problem, *self._present, self.tail, self.head, self._generator, self._chunk, cooling, self._control,
            *self._best, self._trail, self._workspace, self._figures, self._trial,
        )  # fmt: skip

    def _found(self) -> Plan:
        return pruned_plan(self.posed.platform, plan_of(self.instance, self.problem, *self._best))

    def adopt(self, known: Plan) -> None:
        chosen = set_of(self.instance, self.problem, known)
        simulation = judge_plan(self.posed.platform, plan_of(self.instance, self.problem, *chosen), self.posed.goal)
        value = self.posed.value(simulation)
        if simulation.feasible and value < self._control[BEST]:
            self._control[BEST] = value
            for mine, new in zip(self._best, chosen, strict=True):
                mine[:] = new


class PagingSearch:
    """Annealing of sets, and of schedules without slow memory, in turn. For a seed, the same plans in the same order;
    only how many depends on time."""

    def __init__(self, problem: PlanProblem, seed: int = 0) -> None:
        self._posed = problem
        self._seed = seed
        self._sets = SetAnnealing(problem, seed)
        self._instance, self._problem = self._sets.instance, self._sets.problem

    def run(
        self, offer: Offer, stop: Callable[[], bool], better: Callable[[], Plan | None] = lambda: None,
        max_rounds: int | None = None,
    ) -> None:  # fmt: skip
        """Search until `stop()`, or for this many rounds; see `PlanFormulation.search`."""
        self._offer(plan_of_sequence(self._instance.order), offer)
        if len(self._sets.tail) == 0 or stop():
            return None
        if not self._problem.paging and not np.any(self._problem.limit < NO_LIMIT):
            return self._plain(max_rounds, offer, stop, better)
        left = math.inf if max_rounds is None else max_rounds
        for turn in itertools.count():
            self._plain(min(PLAIN_ROUNDS + turn * MORE_PLAIN_ROUNDS, MOST_PLAIN_ROUNDS), offer, stop, better)
            rounds = int(min(3 if turn else 2, left))
            self._sets.run(offer, stop, lambda value: better(), max_rounds=rounds)
            left -= rounds
            if stop() or not left:
                return None

    def _plain(
        self, rounds: int | None, offer: Offer, stop: Callable[[], bool], better: Callable[[], Plan | None]
    ) -> None:  # fmt: skip
        """Schedules without slow memory, which go on from those found before, and from the best plan if it is one."""

        def known(duration: int | None) -> tuple[int, ...] | None:
            plan = better()
            if plan is None or any(action.source is not None for action in plan):
                return None
            sequence = tuple(action.node for action in plan)
            return sequence if first_out_of_stage(self._instance.order, sequence) is None else None

        self._local.run(lambda sequence: self._offer_ways(sequence, offer), stop, known, max_rounds=rounds)

    @cached_property
    def _local(self) -> LocalSearch:
        """The search without slow memory, with what the objective counts as durations."""
        from moccasin_mzn.heuristics.staged.search import LocalSearch

        instance = self._instance
        if self._posed.goal.objective == "energy":
            energies = tuple(self._posed.platform.memories[LOCAL].cost(v)[1] for v in range(len(instance.order)))
            instance = replace(instance, graph=replace(instance.graph, durations=energies))
        return LocalSearch(instance, self._seed)

    def _offer_ways(self, sequence: tuple[int, ...], offer: Offer) -> None:
        """A schedule, and the same with what is cheaper, or all, read back instead of recomputed."""
        problem, node = self._problem, self._problem.slot_node
        stage, back = set_of(self._instance, problem, plan_of_sequence(sequence))
        ways = [back]
        if problem.paging:
            cheaper = problem.write[0, node] + problem.read[0, node] <= problem.compute[0, node]
            ways += [(which & (stage != NONE)).astype(np.int64) for which in (cheaper, np.ones(len(node), bool))]
        for way in ways:
            self._offer(plan_of(self._instance, problem, stage, way), offer)

    def _offer(self, plan: Plan, offer: Offer) -> None:
        """Offer a plan if it is within budgets and limits, and go on from it if it is the best."""
        plan = pruned_plan(self._posed.platform, plan)
        if judge_plan(self._posed.platform, plan, self._posed.goal).feasible:
            offer(plan)
            self._sets.adopt(plan)


def compile_all() -> None:
    instance = small_instance()
    problem = PlanProblem(instance, paging_platform(instance.graph, instance.budget, PagingCosts()))
    PagingSearch(problem).run(ignore, lambda: False, max_rounds=1)


# --- Sets of second intervals (see `kernel`) from and to plans and problems -----------------------------------


NO_LIMIT = 2**62


def problem_of(problem: PlanProblem) -> Problem:
    """A problem for compiled code; sizes are rounded up, and budgets down, if sums of them might pass 2**62."""
    instance = local_instance(problem)
    staged, order = staged_problem(instance), list(instance.order)
    total = instance.graph.total_size + max(instance.graph.workspace_of)
    capacity = problem.platform.memories[SLOW].budget
    capacity = total if capacity is None else min(capacity, total)
    goal = problem.goal
    named = [goal.objective, *(what for what in OBJECTIVES if what != goal.objective)]
    rows = [costs_of(problem, what) for what in named]
    compute, write, read = (np.array([[row[kind][v] for v in order] for row in rows], np.int64) for kind in range(3))
    limits = [goal.limit(what) for what in named]
    return Problem(
        size=staged.size,
        workspace=staged.workspace,
        pred_ptr=staged.pred_ptr,
        pred=staged.pred.astype(np.int64),
        over=_may_overwrite(instance, staged.pred_ptr, staged.pred),
        slot_ptr=staged.slot_ptr,
        slot_node=staged.slot_node,
        compute=compute,
        write=write,
        read=read,
        limit=np.array([NO_LIMIT if limit is None else min(limit, NO_LIMIT) for limit in limits], np.int64),
        budget=staged.budget,
        slow_capacity=capacity // size_unit(total, len(order) + len(staged.slot_node)),
        paging=can_page(problem),
    )


def workspace_for(problem: Problem) -> Workspace:
    n, slots = len(problem.size), len(problem.slot_node)

    def zeros(count: int) -> np.ndarray:
        return np.zeros(count, np.int64)

    events = n + slots + 2
    slots_of = np.diff(problem.slot_ptr)
    overs = sum(
        int(problem.over[problem.pred_ptr[v] : problem.pred_ptr[v + 1]].sum()) * (1 + int(slots_of[v]))
        for v in range(n)
    )
    return Workspace(
        start=zeros(events), end=zeros(events), node=zeros(events), own=zeros(events), over_event=zeros(overs),
        over_copy=zeros(overs), overs=zeros(1), early=zeros(events), latest=zeros(n),
        before_back=zeros(n), last_back=zeros(n), change=zeros(events), slow_change=zeros(events), totals=zeros(3),
        head=zeros(n), after=zeros(slots),
    )  # fmt: skip


def plan_of(instance: Instance, problem: Problem, stage: np.ndarray, back: np.ndarray) -> Plan:
    """The plan a set stands for: every write follows the last read of its source at once."""
    n, order = len(instance.order), instance.order
    slots = np.flatnonzero(stage != NONE)
    keys = [(int(stage[slot]), int(problem.slot_node[slot]), bool(back[slot])) for slot in slots]
    local = sorted([*keys, *((k, k, False) for k in range(n))])
    latest, end, over = dict[int, int](), list(range(len(local))), set[tuple[int, int]]()
    for t, (_, k, read) in enumerate(local):
        for u in () if read else instance.graph.predecessors[order[k]]:
            end[latest[u]] = t
            if instance.graph.overwritable is not None and u in instance.graph.overwritable[order[k]]:
                over.add((latest[u], t))
        latest[order[k]] = t
    return plan_with_writes((t, end[t], order[k], read, (t, end[t]) in over) for t, (_, k, read) in enumerate(local))


def _may_overwrite(instance: Instance, pred_ptr: np.ndarray, pred: np.ndarray) -> np.ndarray:
    """See `Problem.over`."""
    rows, order = instance.graph.overwritable, instance.order
    if rows is None:
        return np.zeros(len(pred), bool)
    nodes = np.repeat(np.arange(len(order)), np.diff(pred_ptr))
    pairs = zip(nodes.tolist(), pred.tolist(), strict=True)
    return np.array([order[u] in rows[order[v]] for v, u in pairs], bool)


def set_of(instance: Instance, problem: Problem, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The set of a plan in stages of the input order.

    What has no slot is left out, as are second intervals of a node in a stage and what comes after the last stage.

    Raises:
        ValueError: the nodes are not all computed, or not in the input order for the first time.
    """
    actions = [action for action in plan if action.memory == LOCAL]
    stage, place = stages_of_slots(instance.order, problem.slot_ptr, [action.node for action in actions])
    back = [int(t != NONE and actions[t].source is not None) for t in place.tolist()]
    return stage, np.array(back, np.int64)
