"""One run of the solver: from the command line to the exit status."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

import numpy as np

from moccasin_mzn.solvers.flatzinc.execution import StopFlag
from moccasin_mzn.solvers.flatzinc.stream import Session, Statistic, print_log, read, run_session
from moccasin_mzn.solvers.flatzinc.syntax import warm_starts
from moccasin_mzn.solvers.linear.claims import Claims
from moccasin_mzn.solvers.linear.configuration import ENGINES, LinearOptions
from moccasin_mzn.solvers.linear.engine import Settings
from moccasin_mzn.solvers.linear.program import LinearProgram, Translation, UnfitError, translate
from moccasin_mzn.solvers.linear.search import (
    TRIALS,
    Checker,
    Deaf,
    LinearItem,
    Search,
    direct,
    has_integer_objective,
    linear_items,
    safe_bound,
)

INTEGER_GAP = 0.99
"""How close bound and objective must be if the objective is an integer: the next better one is 1 away."""
TROUBLE = {"refused": "a solution that is none", "failed": "numerical trouble"}
"""What a status means that is no result."""


def run(options: LinearOptions, stop: StopFlag) -> int:
    """Solve the file and print its solutions on stdout; the exit status.

    Neither HiGHS nor SCIP can be relied on to stop soon when asked to.
    """
    return run_session(lambda: LinearSession(translate(read(options.path)), options), stop)


class LinearSession(Session):
    """A linear program with an engine, whose `SolutionListener` it is.

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
        self.claims = Claims(self.direct, TRIALS[0].tolerance)
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
                return self._give_up("a solution that it was asked to leave out")
            for values in fresh:
                obstacle = no_goods.add(values)
                if obstacle:
                    print(f"% no more than this solution: {obstacle}", file=sys.stderr)
                    return "stopped"
            blocked += len(fresh)

    def _without_objective(self) -> str:
        """What follows if the relaxation is unbounded or nothing is feasible: as the numbers are rational, a single
        solution shows that the objective has no bound."""
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
        best: int | float | None = stream.objective  # type: ignore[assignment]  # a fraction for CP-SAT alone
        if self._settled(claim, self.direct.program, best) == "unknown":
            return "stopped"
        stream.better_bound(stream.objective)
        return "complete"

    def _settled(self, claim: str, program: LinearProgram, cutoff: float | None) -> str:
        """Have a claim of the solver confirmed: see `Claims.settle`. Solutions that refute it are printed."""
        cutoff = None if cutoff is None else cutoff - self.direct.offset
        status = self.claims.settle(claim, program, cutoff, self.solution, self._settings())
        if status == "unknown":
            print(f"% no proof: {self.solver.title} claims {claim}, not provable in floating point", file=sys.stderr)
        return status

    def _give_up(self, reason: str) -> str:
        """Report why there is no proof."""
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
        """The settings of the engine now; the start, only the first time."""
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


# --- Programs without the solutions that are known already ----------------------------------------------------


class NoGoods:
    """A program, and rows that demand that what is printed differs from each known solution.

    For a known value v of a column x with bounds l..u, two 0-1 columns state that it is less or greater, and one row
    for each solution demands that some column differs:

        less = 1     ->  x <= v - 1          x + (u - v + 1) less <= u
        greater = 1  ->  x >= v + 1          x - (v - l + 1) greater >= l

    A 0-1 column needs no others: it differs by itself.
    """

    def __init__(self, program: LinearProgram, items: Sequence[LinearItem]) -> None:
        self._program = program
        self._printed = sorted({column for item in items for column in item.columns if column >= 0})
        self._added = 0
        self._rows: list[tuple[dict[int, float], float, float]] = []

    def add(self, values: np.ndarray) -> str | None:
        """Exclude a solution; if that cannot be expressed, why not."""
        program, terms, least = self._program, {}, 1.0
        for column in self._printed:
            low, high, value = program.lower[column], program.upper[column], values[column]
            if not program.is_integer[column]:
                return f"{program.names[column]} is a float"
            if not (np.isfinite(low) and np.isfinite(high)):
                return f"{program.names[column]} is not bounded"
            if (low, high) == (0, 1):
                terms[column] = 1.0 - 2.0 * value
                least -= value
                continue
            if value > low:
                less = self._column()
                terms[less] = 1.0
                self._rows.append(({column: 1.0, less: high - value + 1}, -np.inf, high))
            if value < high:
                greater = self._column()
                terms[greater] = 1.0
                self._rows.append(({column: 1.0, greater: low - value - 1}, low, np.inf))
        self._rows.append((terms, least, np.inf))
        return None

    def _column(self) -> int:
        self._added += 1
        return self._program.columns + self._added - 1

    def extended(self) -> LinearProgram:
        """The program with all that was added."""
        program, count = self._program, self._added
        columns = [column for terms, _, _ in self._rows for column in sorted(terms)]
        coefficients = [terms[column] for terms, _, _ in self._rows for column in sorted(terms)]
        ends = program.row_start[-1] + np.cumsum([len(terms) for terms, _, _ in self._rows], dtype=np.int64)
        return replace(
            program,
            names=(*program.names, *(f"differs {index}" for index in range(count))),
            lower=np.append(program.lower, np.zeros(count)),
            upper=np.append(program.upper, np.ones(count)),
            is_integer=np.append(program.is_integer, np.ones(count, dtype=bool)),
            objective=np.append(program.objective, np.zeros(count)),
            row_start=np.append(program.row_start, ends),
            row_column=np.append(program.row_column, np.array(columns, dtype=np.int32)),
            row_coefficient=np.append(program.row_coefficient, coefficients),
            row_lower=np.append(program.row_lower, [low for _, low, _ in self._rows]),
            row_upper=np.append(program.row_upper, [high for _, _, high in self._rows]),
        )


# --- Warm starts: the values that annotations of the solve item suggest ---------------------------------------


_NAMES = ("warm_start", "warm_start_int", "warm_start_bool", "warm_start_float")


def warm_start(translation: Translation) -> dict[int, float]:
    """The value that the first warm start for it gives each column; one outside of its bounds is left out.

    Raises `FlatZincError` if there are not as many values as variables.
    """
    columns, program = translation.columns, translation.program
    values: dict[int, float] = {}
    for variable, start in warm_starts(translation.file, _NAMES, columns.operands):
        try:
            column, number = columns.column(variable), float(columns.number(start))
        except UnfitError:
            continue
        if column >= 0 and program.lower[column] <= number <= program.upper[column]:
            values.setdefault(column, number)
    return values
