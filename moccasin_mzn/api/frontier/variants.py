"""What is swept, by the arguments of `moccasin_mzn.frontier`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moccasin_mzn.api.frontier.plans import Plans
from moccasin_mzn.api.frontier.solving import Rematerialization
from moccasin_mzn.api.request import Given, Memories, model_of, plan_options
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.search.options import STOP, SearchOptions


def prepared_sweep(
    given: Given, memories: Memories | None = None, adjusted: Callable[[Any], Any] = lambda options: options
) -> Callable[..., Any]:
    """Check arguments before any graph is read; the result makes a `Variant` of one, `order` and `count_fixed`.

    Args:
        given: all others, as for `asking.prepared`.
        memories: what several of them ask; budgets of the first one are varied.
        adjusted: makes the options that are used of those that are asked for.

    Raises:
        InputError: nonsense in an argument, or arguments that do not go together.
    """
    if memories is not None:
        planning: SearchOptions = adjusted(plan_options(given))

        def plans(graph: ComputationGraph, **problem: Any) -> Plans:
            asked, formulation = memories(graph, **problem)
            return Plans(asked, planning, formulation=formulation)

        return plans
    asked, counted = model_of({"if_none": STOP, **given})
    options = adjusted(asked)

    def schedules(graph: ComputationGraph, **problem: Any) -> Rematerialization:
        most = counted(graph) if options.form.limited else None
        return Rematerialization.of(graph, options, max_computations=most, **problem)

    return schedules
