"""What the options for several memories ask for: the problem, the formulation, and how to search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from moccasin_mzn.cli.device_options import device_problem
from moccasin_mzn.cli.memory_options import goal_of, paging_costs, slow_capacity
from moccasin_mzn.errors import InputError

if TYPE_CHECKING:
    from moccasin_mzn.formulations.plan_formulation import PlanFormulation, PlanProblem
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.search.plan_options import PlanOptions

_SEARCHING = ("solver", "search", "time_limit", "until_gap", "threads", "seed")
_ASKING = ("formulation", "max_computations")
TAKEN = frozenset((*_SEARCHING, *_ASKING))
"""Options of one memory that go with several."""


def refuse_others(options: dict[str, Any], given: dict[str, Any], more: frozenset[str] = frozenset()) -> None:
    """Refuse what is for one memory only.

    Args:
        options: those that are there, by name.
        given: of the options for several memories, those that are there.
        more: what goes with several memories besides `TAKEN`.

    Raises:
        InputError: the first of them.
    """
    asked = "--device" if "device" in given else "--paging"
    for name in options:
        if name not in TAKEN | more:
            raise InputError(f"--{name.replace('_', '-')} is for one memory, it does not go with {asked}")


def plan_options(options: dict[str, Any]) -> PlanOptions:
    """How to search, of all options that are there.

    Raises:
        InputError: see `PlanOptions`.
    """
    from moccasin_mzn.search.options import parse_gap
    from moccasin_mzn.search.plan_options import PlanOptions

    chosen = {name: options[name] for name in _SEARCHING if name in options}
    if "until_gap" in chosen:
        chosen["until_gap"] = parse_gap(chosen["until_gap"])
    return PlanOptions(**chosen)


def platform_problem(
    graph: ComputationGraph, budget: str | None, order: str, count_fixed: bool, given: dict[str, Any],
    options: dict[str, Any],
) -> tuple[PlanProblem, PlanFormulation]:  # fmt: skip
    """What is to be planned, and the formulation for it.

    Args:
        budget: of local memory; None with devices, each of which has its own.
        given: of the options for several memories, those that are there.
        options: all others that are there.

    Raises:
        InputError: nonsense in an option, or options that do not go together.
    """
    from moccasin_mzn.extensions.paging.build import paging_platform
    from moccasin_mzn.extensions.paging.formulation import PagingFormulation
    from moccasin_mzn.formulations.plan_formulation import PlanProblem
    from moccasin_mzn.graphs.formats import read_counts
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.search.options import parse_count

    if "device" in given:
        return device_problem(graph, budget, order, count_fixed, given, options)
    costs = paging_costs(given)
    formulation = PagingFormulation(options.get("formulation", "staged"))
    most = parse_count(options["max_computations"]) if "max_computations" in options else 2
    counts = read_counts(most, graph) if isinstance(most, Path) else most
    instance = Instance.build(graph, budget, order=order, max_computations=counts, count_fixed=count_fixed)
    capacity = slow_capacity(given, instance.baseline.peak)
    platform = paging_platform(graph, max(0, instance.budget), costs, capacity)
    return PlanProblem(instance, platform, goal_of(given, instance.baseline.duration)), formulation
