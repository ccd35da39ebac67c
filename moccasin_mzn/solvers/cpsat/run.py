"""One run of the solver: from the command line to the exit status."""

from __future__ import annotations

import os
import sys
from typing import Any

import ortools
from ortools.sat.python import cp_model

from moccasin_mzn.solvers.cpsat.builder import ModelError
from moccasin_mzn.solvers.cpsat.cuts import are_harmless
from moccasin_mzn.solvers.cpsat.output import evaluate, output_items
from moccasin_mzn.solvers.cpsat.search import add_hints, add_strategies
from moccasin_mzn.solvers.cpsat.translate import UNBOUNDED, Problem, translate
from moccasin_mzn.solvers.cpsat.wide_sums import certain_bound, keep_true
from moccasin_mzn.solvers.flatzinc.options import Options
from moccasin_mzn.solvers.flatzinc.reading import read
from moccasin_mzn.solvers.flatzinc.session import Session, print_log, run_session
from moccasin_mzn.solvers.flatzinc.statistics import Statistic
from moccasin_mzn.solvers.flatzinc.stopping import StopFlag
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc

MAGNITUDES = (UNBOUNDED, 2**30, 2**20)
"""Where to cut the domains of unbounded variables, in the order of trial."""
PATIENCE = 0.1
"""Seconds a search may take to end after a signal or the time limit; MiniZinc 2.6 kills 0.2 s after its SIGTERM."""


def run(options: Options, stop: StopFlag) -> int:
    """Solve the file and print its solutions on stdout; the exit status."""
    return run_session(lambda: _session(read(options.path), options), stop)


def _session(items: FlatZinc, options: Options) -> CpSatSession:
    """The session of a file; where sums or products of cut domains overflow, narrower ones are tried."""
    unique = items.solve.goal == "satisfy" and options.enumerates
    for magnitude in MAGNITUDES:
        problem = translate(items, unique=unique, unbounded=magnitude)
        if not problem.cut or not problem.builder.model.validate():
            break
    if problem.cut:
        names = ", ".join(cut.name for cut in list(problem.cut.values())[:5])
        print(f"% variables without bounds are searched up to 2^{magnitude.bit_length() - 1}: {names}", file=sys.stderr)
    return CpSatSession(problem, options)


class CpSatSession(Session):
    """A translated problem with CP-SAT.

    Raises `ModelError` on creation if CP-SAT refuses the model or the parameters.
    """

    patience = PATIENCE

    def __init__(self, problem: Problem, options: Options) -> None:
        builder, term = problem.builder, problem.objective
        booleans, integers = builder.sizes()
        sizes: dict[str, Statistic] = {
            "variables": booleans + integers,
            "boolVariables": booleans,
            "intVariables": integers,
            "propagators": builder.constraint_count(),
        }
        objective = None if term is None else lambda values: evaluate(term, values)
        self.items = output_items(problem)
        version = f"OR-Tools {ortools.__version__}"  # type: ignore[attr-defined]  # not in its types
        super().__init__(options, self.items, objective, problem.maximize, sizes, version)
        self.problem = problem
        self.solver = cp_model.CpSolver()
        self.status = cp_model.UNKNOWN
        self.stopping = False
        self._configure()
        complaint = builder.model.validate()
        if complaint:
            place = problem.place_of_refusal()
            raise ModelError(f"{place}: CP-SAT refuses the model: {' '.join(complaint.split())[:500]}")

    def _configure(self) -> None:
        options, parameters = self.options, self.solver.parameters
        parameters.catch_sigint_signal = False
        parameters.num_workers = options.workers or os.cpu_count() or 1
        if options.seed is not None:
            parameters.random_seed = options.seed % 2**31
        if self.problem.objective is None and options.enumerates:
            parameters.num_workers = 1
            parameters.enumerate_all_solutions = True
            parameters.keep_all_feasible_solutions_in_presolve = True
        if not options.free and add_strategies(self.problem):
            self._fix_search()
        add_hints(self.problem, from_strategies=options.free)
        if options.verbose:
            parameters.log_search_progress = True
            parameters.log_to_stdout = False
            self.solver.log_callback = print_log
        keep_true(parameters, self.problem.builder.widest)
        if not parameters.merge_text_format(options.params):
            raise ModelError(f"--params: CP-SAT does not understand {options.params!r}")

    def _fix_search(self) -> None:
        """Let one worker follow the search annotations, unless more workers are asked for: then one of them does."""
        parameters = self.solver.parameters
        if self.options.workers is None:
            parameters.num_workers = 1
        if parameters.num_workers == 1:
            parameters.search_branching = cp_model.FIXED_SEARCH
            parameters.keep_all_feasible_solutions_in_presolve = True  # or presolve decides before the search does

    def interrupt(self) -> None:
        self.stopping = True
        self.solver.stop_search()

    def search(self) -> None:
        self.solver.best_bound_callback = self._guess_bound
        self._solve()
        ended = self.status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        if self.solver.parameters.enumerate_all_solutions and (ended or self.stream.flooded):
            self._enumerate_by_blocking()

    def _solve(self) -> None:
        left = self.seconds_left()
        if left is not None:
            self.solver.parameters.max_time_in_seconds = left
        self.status = self.solver.solve(self.problem.builder.model, _Callback(self))

    def _guess_bound(self, bound: float) -> None:
        """Take a bound of the objective from CP-SAT, as it tells it between solutions: as a double."""
        sign, offset = self.problem.objective_scale()
        lower = certain_bound(sign * (bound - offset), self.problem.builder.magnitude + abs(offset))
        if lower is not None:
            self.stream.better_bound(sign * lower + offset)

    def better_bound(self, response: Any) -> None:
        """Take the bound of the objective that comes with a solution, in integers and without sign and offset."""
        sign, offset = self.problem.objective_scale()
        self.stream.better_bound(sign * response.inner_objective_lower_bound + offset)

    def floods(self) -> bool:
        """Is the solver enumerating, to no avail?"""
        return self.solver.parameters.enumerate_all_solutions and self.stream.flooded

    def _enumerate_by_blocking(self) -> None:
        """Solve again and again, each time without the outputs printed so far.

        Needed where auxiliary variables are free: every solution that the solver enumerates would then come again for
        each of their values. And needed after every enumeration: CP-SAT 9.15 loses solutions of cumulative when it
        enumerates, though not when it solves. Only a proof that nothing is left tells that all was found.
        """
        self.solver.parameters.enumerate_all_solutions = False
        self.solver.parameters.keep_all_feasible_solutions_in_presolve = False
        terms = [term for item in self.items for term in item.terms if term.coefficient]
        blocked = 0
        while not self.stream.satisfied and not self.stopping:
            for values in self.stream.distinct[blocked:]:
                self.problem.builder.block(terms, values)
            blocked = len(self.stream.distinct)
            self._solve()
            if self.status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                break

    def conclude(self) -> int:
        solver = self.solver
        if self.status == cp_model.MODEL_INVALID:
            print("error: CP-SAT refuses the model or its parameters", file=sys.stderr)
            return 1
        statistics = self.statistics(**_counters(solver))
        if self.status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            if self.problem.objective is not None:
                self.better_bound(solver.response_proto)
            self.stream.solution(list(solver.response_proto.solution), statistics)
        self.stream.finish(self._outcome(), statistics)
        return 0

    def _outcome(self) -> str:
        """What the end of the search proves about the file, whose unbounded variables may have been cut."""
        cut, problem = self.problem.cut, self.problem
        if self.status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE) or self.stream.satisfied:
            return "stopped"
        if not cut:
            return "complete"
        if problem.objective is not None and self.stream.objective is not None:
            if are_harmless(cut, problem.file, self.stream.objective):
                return "complete"
            if problem.objective_is_free():
                return "unbounded"
        print("% no proof, since there may be solutions beyond these domains", file=sys.stderr)
        return "stopped"


def _counters(solver) -> dict[str, Statistic]:
    """Search statistics of a `CpSolver` or a solution callback."""
    return {
        "nodes": solver.num_branches,
        "failures": solver.num_conflicts,
        "restarts": solver.response_proto.num_restarts,
        "propagations": solver.num_binary_propagations + solver.num_integer_propagations,
    }


class _Callback(cp_model.CpSolverSolutionCallback):
    """Hands every solution over to the stream."""

    def __init__(self, session: CpSatSession) -> None:
        super().__init__()
        self.session = session

    def on_solution_callback(self) -> None:
        session = self.session
        try:
            if session.problem.objective is not None:
                session.better_bound(self.response_proto)
            session.stream.solution(list(self.response_proto.solution), session.statistics(**_counters(self)))
        except BaseException as error:  # an exception may not pass through the solver
            session.failure = error
        if session.failure or session.stream.satisfied or session.floods():
            self.stop_search()
