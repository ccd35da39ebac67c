"""The interface of a MIP solver: settings, progress, and how a search ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.program import LinearProgram


class EngineError(FlatZincError):
    """The solver refuses the program or a parameter; one line."""


@dataclass(frozen=True)
class Settings:
    """How to search.

    Attributes:
        seconds: time limit, or None.
        threads: number of threads, or None for what the solver thinks best.
        seed: random seed, or None.
        gap: the search may end when objective and bound are this close.
        tolerance: how far bounds, rows and integrality may be violated.
        presolve: may the program be simplified first?
        start: values by column, of a solution or part of one, to begin from.
        parameters: parameters in the solver's own form, which overrule all else.
        log: takes the lines of the solver's log, or None for no log.
    """

    seconds: float | None = None
    threads: int | None = None
    seed: int | None = None
    gap: float = 0.0
    tolerance: float = 1e-7
    presolve: bool = True
    start: Mapping[int, float] = field(default_factory=dict)
    parameters: str = ""
    log: Callable[[str], None] | None = None


class SolutionListener(Protocol):
    """Gets progress, possibly in a thread of the solver, and raises nothing."""

    def solution(self, values: np.ndarray) -> None:
        """A solution, by column, that may be better than those before."""

    def progress(self, bound: float, nodes: int) -> None:
        """The bound on the objective, infinite if absent, and the number of nodes."""


@dataclass(frozen=True, eq=False)
class Ending:
    """How a search ended.

    Attributes:
        status: "optimal", "infeasible", "unbounded" (the relaxation is), "undecided" (one of these two), "stopped" or
            "failed" (for numerical reasons).
        values: the best solution, by column, if there is one.
        bound: the best bound on the objective, infinite if absent.
        nodes: number of nodes.
    """

    status: str
    values: np.ndarray | None = None
    bound: float = float("nan")
    nodes: int = 0


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The duals of the linear relaxation of a minimum; not all of it need be there.

    Attributes:
        duals: weights that prove its bound, as nearly as floating point allows.
        ray: weights that prove that there is no solution.
    """

    duals: np.ndarray | None = None
    ray: np.ndarray | None = None


Relaxer = Callable[[LinearProgram, Settings], RowWeights]
"""Solves the linear relaxation of a program that minimises."""
Engine = Callable[[LinearProgram, Settings, SolutionListener], Ending]
"""Solves a program. Raises `EngineError`."""
