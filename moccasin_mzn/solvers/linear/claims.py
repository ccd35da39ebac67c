"""What a floating-point solver claims about a program of integers, and how much of it is proven.

A tolerance cannot hide a solution where numbers are small: there the solver's word counts. Where only costs are large,
so does its bound, less what the tolerance may hide of the objective. Elsewhere what it reports is a claim, and proven
is only what exact arithmetic confirms::

    bound          weights of the rows, from the linear relaxation                       search.dual_bound
    infeasible     weights of the rows, or CP-SAT finds no solution                      search.proves_infeasible
    optimal        the proven bound is as high, or CP-SAT finds no better solution       confirm
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from moccasin_mzn.solvers.linear.engine import Relaxer, Settings
from moccasin_mzn.solvers.linear.program import LinearProgram
from moccasin_mzn.solvers.linear.search import (
    DirectObjective,
    contradicts_itself,
    dual_bound,
    is_exact,
    magnitudes,
    proves_infeasible,
)

HIDDEN = 0.25
"""What a tolerance hides of integers does not matter up to this."""
RELAXATION_SHARE = 0.2
"""Part of the time left that the relaxation gets at most."""


class Claims:
    """What is claimed of a program and what is proven.

    Attributes:
        hidden: how far the solver's bound may be off, in units of the objective; infinite if a row may hide solutions.
        doubtful: may the tolerance hide anything?
        claim: what the solver claims without confirmation, "optimal" or "infeasible"; else empty.
        confirmed_by: who has confirmed its claim, other than by its own numbers; else empty.
    """

    def __init__(self, direct: DirectObjective, tolerance: float) -> None:
        program = direct.program
        rows, objective = magnitudes(program, direct.row) if is_exact(program) else (0.0, 0.0)
        self.hidden = tolerance * objective if tolerance * rows < HIDDEN else math.inf
        self.doubtful = not self.hidden < HIDDEN
        self.claim = ""
        self.confirmed_by = ""
        self._program = program

    @property
    def groundless(self) -> bool:
        """Is not even the solver's bound worth anything?"""
        return not math.isfinite(self.hidden)

    def relax(self, relaxer: Relaxer, settings: Settings) -> tuple[bool, int | None]:
        """What the linear relaxation proves: is there no solution, and the bound on the objective."""
        program = self._program
        if contradicts_itself(program):
            return True, None
        if settings.seconds is not None:
            settings = replace(settings, seconds=settings.seconds * RELAXATION_SHARE)
        costs = -program.objective if program.maximize else program.objective
        weights = relaxer(replace(program, objective=costs, maximize=False), settings)
        if weights.ray is not None and proves_infeasible(program, weights.ray):
            return True, None
        return False, None if weights.duals is None else dual_bound(program, weights.duals)

    def settle(
        self,
        claim: str,
        program: LinearProgram,
        cutoff: float | None,
        solution: Callable[[np.ndarray], None],
        settings: Settings,
    ) -> str:
        """Have a claim confirmed that no solution of `program` is better than `cutoff`, or that there is none.

        Returns:
            "infeasible": it is so; "optimal": better solutions were found, and none is better than the last of them;
            "unknown": neither could be shown.
        """
        self.claim = claim
        status = confirmer().refute(program, cutoff, solution, settings)
        if status != "unknown":
            self.claim, self.confirmed_by = "", NAME
        return status


# --- Claims of a floating-point solver, confirmed or refuted in exact arithmetic ------------------------------


NAME = "CP-SAT"
"""Who confirms."""


@functools.cache
def confirmer() -> Confirmer:
    """The confirmer of this process, with which it ends."""
    return Confirmer()


class Confirmer:
    """CP-SAT in another process, which starts with the first claim: its library does not go with that of highspy."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def refute(
        self, program: LinearProgram, cutoff: float | None, solution: Callable[[np.ndarray], None], settings: Settings
    ) -> str:
        """Search for solutions of a program of integers.

        Args:
            cutoff: they have to be better than this, if there is an objective; None: anyone will do.
            solution: gets each one that is better than all before, by column.

        Returns:
            "infeasible": proven, there is none; "optimal": proven, none is better than the last one; or "unknown".
        """
        limits = settings.seconds, settings.threads, settings.seed
        try:
            process = self._started()
            assert process.stdin and process.stdout
            pickle.dump((program, cutoff, limits), process.stdin)
            process.stdin.flush()
            for line in process.stdout:
                answer = json.loads(line)
                if "status" in answer:
                    return answer["status"]
                solution(np.array(answer["values"], dtype=float))
        except (OSError, ValueError):
            pass  # it has died, of memory perhaps
        self.close()
        return "unknown"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-P", "-m", "moccasin_mzn.solvers.linear.confirming"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin and process.stdout
            process.kill()
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.stdout.close()
            process.wait()
