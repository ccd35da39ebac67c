"""One run of the solver: from the command line to the exit status."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np

from moccasin_mzn.solvers.flatzinc.reading import read
from moccasin_mzn.solvers.flatzinc.session import Session, print_log, run_session
from moccasin_mzn.solvers.flatzinc.statistics import Statistic
from moccasin_mzn.solvers.flatzinc.stopping import StopFlag
from moccasin_mzn.solvers.linear.check import Checker
from moccasin_mzn.solvers.linear.claims import Claims
from moccasin_mzn.solvers.linear.configuration import ENGINES
from moccasin_mzn.solvers.linear.engine import Settings
from moccasin_mzn.solvers.linear.items import has_integer_objective, linear_items, safe_bound
from moccasin_mzn.solvers.linear.no_goods import NoGoods
from moccasin_mzn.solvers.linear.objective import direct
from moccasin_mzn.solvers.linear.options import LinearOptions
from moccasin_mzn.solvers.linear.program import LinearProgram, Translation, translate
from moccasin_mzn.solvers.linear.search import TRIALS, Deaf, Search
from moccasin_mzn.solvers.linear.warm_start import warm_start

INTEGER_GAP = 0.99
"""How close bound and objective must be if the objective is an integer: the next better one is 1 away."""
TROUBLE = {"refused": "a solution that is none", "failed": "numerical trouble"}
"""What a status means that is no result."""


def run(options: LinearOptions, stop: StopFlag) -> int:
    """Solve the file and print its solutions on stdout; the exit status.

    Neither HiGHS nor SCIP can be relied on to stop soon when told to.
    """
    return run_session(lambda: LinearSession(translate(read(options.path)), options), stop)


class LinearSession(Session):
    """A linear program with an engine, of which it is a `Listener`.

    Raises `FlatZincError` on creation if outputs or warm starts are unfit.
    """

    def __init__(self, translation: Translation, options: LinearOptions) -> None:
        self.translation = translation
        self.program = program = translation.program
        self.items = linear_items(translation)
        self.checker = Checker(translation)
        self.optimises = translation.file.solve.goal != "satisfy"
        self.integral = has_integer_objective(program)
        self.start = warm_start(translation)
        self.direct = direct(program)
        self.start.pop(self.direct.column, None)
        self.claims = Claims(self.direct, TRIALS[0]["tolerance"])
        self.solver = solver = ENGINES[options.engine]
        self.engine = import_module(f"moccasin_mzn.solvers.linear.{solver.name}")
        self.attempts = Search(self.engine.solve, self.checker, self.direct, self._settings, self.claims.doubtful)
        self.outcome = "stopped"
        self.nodes = 0
        objective = self._objective if self.optimises else None
        version = f"{solver.library} {solver.version}"
        super().__init__(options, self.items, objective, program.maximize, _sizes(program), version)

    def search(self) -> None:
        self.outcome = self._optimise() if self.optimises else self._enumerate()

    def conclude(self) -> int:
        self.stream.finish(self.outcome, self.last_statistics())
        return 0

    def solution(self, values: np.ndarray) -> None:
        """Take a solution from the solver, if it is one."""
        try:
            own = values[: self.program.columns]  # no-goods have columns of their own
            checked = self.checker.check(self.direct.restored(own))
            if checked is not None:
                self.stream.solution(checked, self.statistics)
                if self.stream.refuted:
                    self.claims.hidden = math.inf  # its bounds are worth nothing here
        except BaseException as error:  # an exception may not pass through the solver
            self.failure = error

    def progress(self, bound: float, nodes: int) -> None:
        """Take a bound from the solver."""
        self.nodes = max(self.nodes, nodes)
        if self.optimises:
            self.stream.better_bound(self._safe(bound))

    def _optimise(self) -> str:
        """Search to the end; what that proves."""
        program = self.direct.program
        if self.claims.groundless:
            infeasible, bound = self.claims.relax(self.engine.relax, self._settings())
            if infeasible:
                return "complete"
            self.stream.better_bound(None if bound is None else bound + self.direct.offset)
        ending = self.attempts.run(program, self)
        if ending.status in ("unbounded", "undecided"):
            return self._without_objective()
        if ending.status in TROUBLE:
            return self._give_up(TROUBLE[ending.status])
        if self.claims.doubtful and ending.status in ("optimal", "infeasible"):
            return self._proven(ending.status)
        if ending.status == "optimal":
            if self.integral and self._safe(ending.bound) != self.stream.objective:
                return self._give_up("an objective beyond its precision")
            self.stream.better_bound(self.stream.objective)
            return "complete"
        return "complete" if ending.status == "infeasible" and self.stream.values is None else "stopped"

    def _enumerate(self) -> str:
        """Search again and again, each time without what was printed; what that proves."""
        no_goods, blocked = NoGoods(self.program, self.items), 0
        while True:
            program = no_goods.extended()
            ending = self.attempts.run(program, self)
            status = ending.status
            if status == "infeasible" and self.claims.doubtful:
                status = self._settled(status, program, None)
            if status == "infeasible":
                return "complete"
            if status in TROUBLE:
                return self._give_up(TROUBLE[status])
            if status != "optimal" or self.stream.satisfied:
                return "stopped"
            fresh = self.stream.distinct(blocked)
            if not fresh:
                return self._give_up("a solution that it was told to leave out")
            for values in fresh:
                obstacle = no_goods.add(values)
                if obstacle:
                    print(f"% no more than this solution: {obstacle}", file=sys.stderr)
                    return "stopped"
            blocked += len(fresh)

    def _without_objective(self) -> str:
        """What follows if the relaxation is unbounded or nothing is feasible: as the numbers are rational, a single
        solution tells that the objective has no bound."""
        program = replace(self.direct.program, objective=np.zeros(self.program.columns))
        status = self.attempts.run(program, Deaf()).status
        if status == "infeasible" and self.claims.doubtful:
            status = self._settled(status, program, None)
        return {"optimal": "unbounded", "infeasible": "complete"}.get(status, "stopped")

    def _proven(self, claim: str) -> str:
        """What a claim about the objective proves, if the bound does not prove it already."""
        stream = self.stream
        if stream.values is not None and stream.objective == stream.bound:
            return "complete"
        if self._settled(claim, self.direct.program, stream.objective) == "unknown":
            return "stopped"
        stream.better_bound(stream.objective)
        return "complete"

    def _settled(self, claim: str, program: LinearProgram, cutoff: float | None) -> str:
        """Have a claim of the solver confirmed: see `Claims.settle`. Solutions that refute it are printed."""
        cutoff = None if cutoff is None else cutoff - self.direct.offset
        status = self.claims.settle(claim, program, cutoff, self.solution, self._settings())
        if status == "unknown":
            print(f"% no proof: {self.solver.title} claims {claim}, not provable in doubles", file=sys.stderr)
        return status

    def _give_up(self, reason: str) -> str:
        """Tell why there is no proof."""
        complaint = f": {self.checker.complaint}" if self.checker.complaint else ""
        print(f"% no proof, since the solver came to {reason}{complaint}", file=sys.stderr)
        return "stopped"

    def _safe(self, bound: float) -> int | float | None:
        if self.claims.groundless:
            return None
        safe = safe_bound(self.direct.program, bound, self.solver.precision, self.claims.hidden)
        return None if safe is None else safe + self.direct.offset

    def _objective(self, values: np.ndarray) -> int | float:
        """The objective of a solution."""
        objective = self.translation.file.solve.objective
        column = self.translation.columns.column(objective)
        value = self.translation.columns.number(objective) if column < 0 else values[column]
        return int(value) if self.integral else float(value)

    def _settings(self) -> Settings:
        """What to tell the engine now; the start, only the first time."""
        options = self.options
        start, self.start = self.start, {}
        return Settings(
            seconds=self.seconds_left(),
            threads=options.workers,
            seed=options.seed,
            gap=INTEGER_GAP if self.optimises and self.integral else 0.0,
            start=start,
            parameters=options.params,
            log=print_log if options.verbose else None,
        )

    def statistics(self, **counters: Statistic) -> dict[str, Statistic]:
        return super().statistics(nodes=self.nodes, confirmedBy=self.claims.confirmed_by or None, **counters)

    def last_statistics(self) -> dict[str, Statistic]:
        """With what is only claimed: before the end it may still be confirmed."""
        return self.statistics(claim=self.claims.claim or None)


def _sizes(program: LinearProgram) -> dict[str, Statistic]:
    integers = int(program.is_integer.sum())
    booleans = int((program.is_integer & (program.lower == 0) & (program.upper == 1)).sum())
    return {
        "variables": program.columns,
        "boolVariables": booleans,
        "intVariables": integers - booleans,
        "floatVariables": program.columns - integers,
        "propagators": program.rows,
    }
