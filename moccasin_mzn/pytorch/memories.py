"""The memories of a plan: that of the device alone, or with offloading to host memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from moccasin_mzn.api.solve import solve_instance, solve_problem
from moccasin_mzn.machine.memories import refuse_of_one_memory
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.platforms import SLOW, CopyCosts, PagingCosts, with_slow_memory
from moccasin_mzn.machine.problems import Amount, capacity_of, paging_costs
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.problem.platform import Action, Memory, Plan, Platform
from moccasin_mzn.pytorch.devices import CUDA, kind_of_device
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import Options, SearchOptions, plan_options
from moccasin_mzn.search.result import Result


class Search(Protocol):
    """Search of an instance."""

    def __call__(self, instance: Instance, call: Call, start: Sequence[int] | None = None) -> Result:
        """Search.

        Args:
            start: a schedule within the budget, to begin with.
        """


Paging = bool | PagingCosts | Mapping[str, object]


def memories_asked(paging: Paging | None, slow_memory: Amount | None, how: Mapping[str, object]) -> Memories:
    """What is asked for, by arguments of `plan` and further options of `moccasin_mzn.solve`.

    Raises:
        InputError: nonsense in one of them.
    """
    if slow_memory is None and paging in (None, False):
        return OneMemory(Options.of({"if_none": "more", **how}))
    return TwoMemories(True if paging is None else paging, slow_memory, how)


@dataclass(frozen=True)
class OneMemory:
    """Recomputation alone."""

    options: Options

    def search(self, device: str, unit: str, peak: int) -> Search:
        """See `TwoMemories`."""
        return lambda instance, call, start=None: solve_instance(instance, self.options, call, start)


@dataclass(frozen=True)
class TwoMemories:
    """What is asked of host memory.

    Raises:
        InputError: nonsense in an argument, or an option that does not go with it.
    """

    paging: Paging
    """Costs of copies; True: as measured."""
    capacity: Amount | None
    """None: as much as there may be."""
    how: Mapping[str, object] = field(repr=False)
    """Options of `moccasin_mzn.solve`."""

    def __post_init__(self) -> None:
        refuse_of_one_memory(self.how, lambda name: name.replace("_", " "), "offloading to host memory")
        plan_options(self.how), self._costs(), capacity_of(self.capacity, 1)  # refused before anything is traced

    def search(self, device: str, unit: str, peak: int) -> Search:
        """What searches on a device.

        Args:
            unit: of durations.
            peak: of the step without a plan, in bytes: a capacity may be a fraction of it.
        """
        from moccasin_mzn.pytorch.offloading import measured_costs

        costs = self._costs() or measured_costs(device, unit)
        capacity, options = capacity_of(self.capacity, peak), plan_options(self.how)

        def search(instance: Instance, call: Call, start: Sequence[int] | None = None) -> Result:
            graph = instance.graph
            local = Platform(graph, (Memory("local", instance.budget, graph.durations),))
            problem = PlanProblem(instance, with_slow_memory(local, capacity, *costs))
            found = _with_more(problem, options, call)
            return _written_early(found) if kind_of_device(device) == CUDA else found

        return search

    def _costs(self) -> tuple[CopyCosts | None, CopyCosts | None] | None:
        """Costs of writing and of reading back, None if not possible; None for both: to be measured."""
        return None if isinstance(self.paging, bool) else paging_costs(self.paging).ways()


Memories = OneMemory | TwoMemories


def _with_more(problem: PlanProblem, options: SearchOptions, call: Call) -> Result:
    """The best plan as asked; unless it is proven or good enough, then with twice as many intervals of each node, for
    the second half of the time: close to what is possible at all plans need them, far from it they are in the way.
    """
    first = options
    if options.time_limit is not None:
        passed = time.monotonic() - call.begin
        first = replace(options, time_limit=(passed + options.time_limit) / 2)
    found = solve_problem(problem, PagingFormulation(), first, call)
    gap = found.gap_percent
    good = gap is not None and gap <= 100 * options.until_gap
    if found.interrupted or call.stop() or good or why_impossible(problem):
        return found
    counts = tuple(2 * count if count > 1 else 1 for count in problem.instance.max_computations)
    more = replace(problem, instance=replace(problem.instance, max_computations=counts))
    return solve_problem(more, PagingFormulation(), options, call, found.plan)


def _written_early(found: Result) -> Result:
    """With all writes as early as can be, where host memory is enough: they run in parallel with computations."""
    if found.plan is None:
        return found
    early = with_early_writes(found.plan)
    simulation = found.problem.judge(early)
    return replace(found, answer=early, simulation=simulation) if simulation.feasible else found


def with_early_writes(plan: Plan) -> Plan:
    """Return a plan with each write right after its tensor has come into memory; local memory stays as it was."""
    writes: dict[int, list[Action]] = {}
    latest: dict[int, int] = {}
    for at, action in enumerate(plan):
        if action.memory == SLOW:
            writes.setdefault(latest[action.node], []).append(action)
        else:
            latest[action.node] = at
    kept = [(at, action) for at, action in enumerate(plan) if action.memory != SLOW]
    return tuple(each for at, action in kept for each in (action, *writes.get(at, ())))
