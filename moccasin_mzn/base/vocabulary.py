"""Words that arguments take and answers give, as types: a type checker finds misspelt ones in the code of users."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias, TypedDict


class Status(StrEnum):
    """The status of an answer: what is proven about it. Each is also the text that files and `--json` have."""

    OPTIMAL = "optimal"
    """Proven to be the best, for a schedule among those of its formulation."""
    FEASIBLE = "feasible"
    """An answer, not proven to be the best."""
    INFEASIBLE = "infeasible"
    """Proven that there is no answer."""
    UNKNOWN = "unknown"
    """None found in time, and none ruled out."""
    OVER_BUDGET = "over-budget"
    """A strategy's schedule, but over the budget."""


Search: TypeAlias = Literal["on", "off", "only"]
"""Values of `search`."""
IfNone: TypeAlias = Literal["more", "hint", "stop"]
"""Values of `if_none`."""
Objective: TypeAlias = Literal["duration", "energy", "traffic"]
"""What a plan of several memories makes least."""
FormulationName: TypeAlias = Literal["staged", "general", "checkmate-milp", "checkmate-milp-strengthened"]
"""Formulations of this package; those of other packages are accepted too when the program runs."""
StrategyName: TypeAlias = Literal[
    "keep-all", "recompute-all", "chen-sqrtn-ap", "chen-greedy-ap", "chen-sqrtn-linearized", "chen-greedy-linearized",
    "griewank", "dtr", "dtr-eq", "dtr-local", "dtr-msps", "dtr-lru", "dtr-size", "tree-decomposition",
    "tree-decomposition-held", "checkmate-lp-rounding", "mcunetv2-patches", "msf-cnn-fusion",
]  # fmt: skip
"""Rules from the literature."""
Axis: TypeAlias = Literal["event", "stage"]
"""Units of the horizontal axis of a picture."""
Durations: TypeAlias = Literal["measured", "flop"]
"""Durations of the operators of a PyTorch network."""
Workspaces: TypeAlias = Literal["measured", "none"]
"""Workspaces of the operators of a PyTorch network."""
BudgetOf: TypeAlias = Literal["step", "activations"]
"""What a fraction of a training step is of: of its whole peak, or of what is above the gradients that stay."""
Gradients: TypeAlias = Literal["returned", "accumulated"]
"""Where the gradients of a training step are."""
Shapes: TypeAlias = Literal["one", "each"]
"""Which shapes of inputs a plan is for."""


class FormulationOptions(TypedDict, total=False):
    """Options that only some formulations have; see the help of the command `solve`."""

    precedence: Literal["served-by", "reservoir"]
    index: Literal["affine", "triangular"]
    branching: Literal["density", "from-below", "by-solver"]
    redundant: str
    """"all", "none", or groups of constraints with commas between them."""
    presolve: Literal["on", "off"]


class EffortArguments(TypedDict, total=False):
    """The effort of a search, for type checkers."""

    time_limit: float | None
    threads: int | None
    seed: int | None


class SearchArguments(FormulationOptions, total=False):
    """Further arguments of `moccasin_mzn.solve` that functions of `moccasin_mzn.pytorch` take."""

    formulation: FormulationName | None
    solver: str | None
    search: Search | None
    until_gap: float | str
    two_phase: bool | None
    if_none: IfNone | None
