"""Plans on several devices without the model: incumbents for it to start from.

First each device by itself, as if there were no other, by local search over recomputations; then outputs moved to
another memory instead; then small changes of what is best.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from operator import itemgetter
from typing import Any

from moccasin_mzn.clock import Deadline
from moccasin_mzn.extensions.devices.greedy import Greedy
from moccasin_mzn.extensions.devices.improve import Improver, valued
from moccasin_mzn.extensions.devices.slots import plan_of
from moccasin_mzn.extensions.devices.stages import stages_of_plan
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan import Plan, plan_of_sequence
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.pruning import pruned_plan
from moccasin_mzn.search.conclusion import known_at_once

ROUNDS = 3
"""Of local search on each device, and of changes to one plan, each in another order."""
STARTS, SWEEPS = 3, 10
"""So many of the first plans are changed; and so often all actions of a plan are looked at."""
SECONDS_PER_DEVICE = 5.0
IDLE_SECONDS = 0.05
"""Between two looks for a plan from elsewhere."""


def search_plans(
    problem: PlanProblem, seed: int, offer: Callable[[Plan], Any], stop: Callable[[], bool],
    better: Callable[[], Plan | None],
) -> None:  # fmt: skip
    """Look for plans in stages of the input order until `stop()`; see `PlanFormulation.search`."""
    rng = random.Random(seed)
    starts: list[tuple[int, Plan]] = []

    def take(plan: Plan) -> None:
        value = valued(problem, plan)
        if value is not None:
            starts.append((value, plan))
            offer(plan)

    for plan in moved_out(problem):
        take(plan)
    for m in range(len(problem.platform.memories)):
        one_device(problem, m, seed, take, stop)
    for _, start in sorted(starts, key=itemgetter(0))[:STARTS]:
        _improved(problem, start, rng, offer, stop, 2)
    latest, rounds = None, 0
    while not stop():
        best = better()
        if best != latest:
            latest, rounds = best, 0
        if best is None or rounds == ROUNDS or not _is_staged(problem, best):
            time.sleep(IDLE_SECONDS)  # until someone finds another one
            continue
        _improved(problem, best, rng, offer, stop, SWEEPS)
        rounds += 1


def moved_out(problem: PlanProblem) -> Iterator[Plan]:
    """The plans of `Greedy`, some perhaps over budgets or limits."""
    platform = problem.platform
    for device, store in permutations(range(len(platform.memories)), 2):
        both_ways = {(device, store), (store, device)} <= platform.link_between.keys()
        if platform.memories[device].durations is not None and both_ways:
            table = Greedy(problem, device, store).slots()
            if table is not None:
                yield plan_of(problem, table)


def one_device(
    problem: PlanProblem, m: int, seed: int, take: Callable[[Plan], None], stop: Callable[[], bool]
) -> None:  # fmt: skip
    """Plans that compute everything, and again, in one memory, if that is possible."""
    graph, place, order = problem.platform.graph, problem.platform.memories[m], problem.instance.order
    costs = place.energies if problem.goal.objective == "energy" else place.durations
    known_costs = tuple(cost for cost in costs or () if cost is not None)
    if len(known_costs) < len(graph.nodes):
        return
    budget = graph.total_size if place.budget is None else place.budget
    counts = tuple(problem.most_intervals(v, m) for v in range(len(graph.nodes)))
    instance = Instance(replace(graph, durations=known_costs), order, budget, counts)
    known = known_at_once(instance)
    if known is not None:
        if known[2]:
            take(plan_of_sequence(known[2], m))
        return
    from moccasin_mzn.heuristics.staged.search import LocalSearch

    deadline = Deadline(SECONDS_PER_DEVICE)
    LocalSearch(instance, seed).run(
        lambda sequence: take(plan_of_sequence(sequence, m)), lambda: stop() or deadline.over(), max_rounds=ROUNDS
    )


def _improved(
    problem: PlanProblem, plan: Plan, rng: random.Random, offer: Callable[[Plan], Any], stop: Callable[[], bool],
    sweeps: int,
) -> None:  # fmt: skip
    improver = Improver(problem, pruned_plan(problem.platform, plan), rng)
    for _ in range(sweeps):
        before = improver.value
        for found in improver.sweep(stop):
            offer(found)
        if improver.value == before or stop():
            break


def _is_staged(problem: PlanProblem, plan: Plan) -> bool:
    stages = stages_of_plan(problem.instance.order, len(problem.platform.memories), plan)
    return len(stages) == len(plan)
