"""Options of plans of training steps: each is declared here, unless it is one of `moccasin_mzn.solve`.

::

    StepOptions        here: what is asked about a step
    Effort, Options    `search.options`: how it is searched, as for any graph ──> arguments of `plan`, `estimate`,
    max_computations   `problem.options`                                          `largest_batch` and `backend`;
    slow_memory        `machine.memories`                                         options of `run torch`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Required, TypedDict, get_args

from moccasin_mzn.base.option import check_choices, option
from moccasin_mzn.base.stop import Criteria
from moccasin_mzn.base.vocabulary import BudgetOf, Durations, Gradients, Shapes, Workspaces
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import check_count

_OF, _GRADIENTS, _SHAPES = get_args(BudgetOf), get_args(Gradients), get_args(Shapes)
_DURATIONS, _WORKSPACES = get_args(Durations), get_args(Workspaces)


@dataclass(frozen=True)
class StepOptions:
    """What is asked about a training step; of each option with choices the first one is the default.

    Raises:
        InputError: a word that is not among the choices, or a number of computations that makes no sense.
    """

    budget: Any = option(
        None, "0.8|80%|BYTES|1.5GiB|least",
        "Memory budget of a step, beyond parameters, buffers and inputs: a fraction of what the step takes without a "
        "plan, an amount, or the least for which a plan is found.",
    )  # fmt: skip
    of: BudgetOf = option(
        _OF[0], "step|activations",
        "What a fraction as the budget is of: step: all that the step takes; activations: what is above the gradients "
        "that stay to its end, which are added.  [default: step]",
        choices=_OF,
    )  # fmt: skip
    durations: Durations = option(
        _DURATIONS[0], "measured|flop",
        "Durations of operators: measured, on this machine; or flop, floating-point operations.  [default: measured]",
        choices=_DURATIONS,
    )  # fmt: skip
    workspaces: Workspaces = option(
        _WORKSPACES[0], "measured|none",
        "Memory that operators take inside: measured, on this machine; or none, it is left out.  [default: measured]",
        choices=_WORKSPACES,
    )  # fmt: skip
    gradients: Gradients = option(
        _GRADIENTS[0], "returned|accumulated",
        "returned: keep the gradients of all parameters to the end of the step; accumulated: add each to its "
        "parameter's grad as soon as it is computed.  [default: returned]",
        choices=_GRADIENTS,
    )  # fmt: skip
    shapes: Shapes = option(
        _SHAPES[0], "one|each",
        "one: refuse inputs of other shapes; each: make a plan when they first come.  [default: one]", choices=_SHAPES,
    )  # fmt: skip
    max_computations: int = 2
    """How often anything may be computed, if that is enough; declared with the options of problems."""

    def __post_init__(self) -> None:
        check_choices(self)
        check_count(self.max_computations, "max_computations")


class StepArguments(TypedDict, total=False):
    """The fields of `StepOptions`, for type checkers."""

    budget: Required[str | int | float | Fraction | Budget]
    of: BudgetOf
    durations: Durations
    workspaces: Workspaces
    gradients: Gradients
    shapes: Shapes
    max_computations: int


def refuse_counted(criteria: Criteria, given: Mapping[str, Any]) -> None:
    """Refuse a number of iterations, as a criterion or among further options, where operators are measured.

    Raises:
        InputError: there is one.
    """
    for count in (given.get("iterations"), criteria.iterations):
        Criteria(iterations=count).refuse("plans of networks, whose operators are measured", "iterations")
