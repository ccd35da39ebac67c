"""Calls of an engine whose answers are not taken on trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from moccasin_mzn.solvers.linear.check import SLACK, Checker
from moccasin_mzn.solvers.linear.engine import Ending, Engine, Listener, Settings
from moccasin_mzn.solvers.linear.items import has_integer_objective
from moccasin_mzn.solvers.linear.objective import DirectObjective
from moccasin_mzn.solvers.linear.program import LinearProgram

TRIALS = (
    {"tolerance": 1e-7, "presolve": True},
    {"tolerance": 1e-7, "presolve": False},
    {"tolerance": 1e-9, "presolve": False},
)
"""Settings in the order of trial. The usual tolerance, 1e-6, lets more through that rounding breaks."""
LARGE = 1e9
"""From here on neighbouring doubles differ by 1e-7."""


class Search:
    """An engine at work on a program, or on one with more columns and rows; `settings` tells what holds just now."""

    def __init__(
        self,
        engine: Engine,
        checker: Checker,
        direct: DirectObjective,
        settings: Callable[[], Settings],
        doubtful: bool = False,
    ) -> None:
        self._engine = engine
        self._checker = checker
        self._direct = direct
        self._program = direct.program
        self._integral = has_integer_objective(direct.program)
        self._settings = settings
        self._doubtful = doubtful

    def run(self, program: LinearProgram, listener: Listener) -> Ending:
        """Call the engine; again, more carefully, if it fails or what it calls optimal does not stand the check.

        The status is "failed" or "refused" if that does not help. Nothing is infeasible for which the engine had found
        a solution before, even a wrong one; and where numbers are large, the word of a presolve is not enough. Where
        all that the engine says is doubtful, any solution will do: others have to confirm the claim that it is the
        best. The listener is told the last solution and bound as well.
        """
        claimed = False
        for trial in TRIALS:
            ending = self._call(program, listener, trial)
            listener.progress(ending.bound, ending.nodes)
            accepted = ending.values is not None and self._accept(program, ending.values, listener)
            if self._checker.overflown:
                break
            if ending.status == "optimal" and not accepted:
                claimed = True
            elif (
                ending.status == "infeasible" and trial["presolve"] and not self._doubtful and _has_large_sides(program)
            ):
                continue
            elif ending.status != "failed" and not (claimed and ending.status == "infeasible"):
                return ending
        return ending if ending.status == "failed" else replace(ending, status="refused")

    def _call(self, program: LinearProgram, listener: Listener, trial: dict) -> Ending:
        if program.columns:
            return self._engine(program, replace(self._settings(), **trial), listener)
        holds = bool(np.all((program.row_lower <= 0) & (program.row_upper >= 0)))  # solvers do not like such programs
        return Ending("optimal" if holds else "infeasible", np.zeros(0), program.objective_offset)

    def _accept(self, program: LinearProgram, values: np.ndarray, listener: Listener) -> bool:
        """Hand on a solution, if it is one, possibly with other floats; is it one with the objective that it had?"""
        own = values[: self._program.columns]
        checked = self._checker.check(self._direct.restored(own))
        if checked is None:
            checked = self._repaired(own)
        if checked is None:
            return False
        listener.solution(checked)
        if self._doubtful:
            return True
        costs = program.objective[: self._program.columns]
        slack = 0.5 if self._integral else SLACK * max(1.0, abs(float(costs @ own)))
        return abs(float(costs @ (checked - own))) <= slack

    def _repaired(self, values: np.ndarray) -> np.ndarray | None:
        """The rounded integers of a solution with the best floats for them, if there are any."""
        program, rounded = self._program, self._checker.rounded(values)
        if rounded is None or program.is_integer.all():
            return None
        lower = np.where(program.is_integer, rounded, program.lower)
        upper = np.where(program.is_integer, rounded, program.upper)
        ending = self._call(replace(program, lower=lower, upper=upper), Deaf(), TRIALS[-1])
        return None if ending.values is None else self._checker.check(ending.values)


class Deaf:
    """A `Listener` that keeps nothing."""

    def solution(self, values: np.ndarray) -> None:
        """Forget it."""

    def progress(self, bound: float, nodes: int) -> None:
        """Forget it."""


def _has_large_sides(program: LinearProgram) -> bool:
    """Do the doubles around some side of a row differ by as much as the tolerances? HiGHS has called
    x - 100000 y = -4487300000 infeasible."""
    sides = np.concatenate([program.row_lower, program.row_upper])
    return bool((np.abs(sides[np.isfinite(sides)]) >= LARGE).any())
