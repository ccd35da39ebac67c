"""One run of the solver: from the command line to the exit status."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ortools
from ortools.sat.python import cp_model

from moccasin_mzn.solvers.cpsat.builder import ModelError
from moccasin_mzn.solvers.cpsat.cuts import are_harmless
from moccasin_mzn.solvers.cpsat.output import evaluate, output_items
from moccasin_mzn.solvers.cpsat.search import add_hints, add_strategies
from moccasin_mzn.solvers.cpsat.translate import UNBOUNDED, Problem, translate
from moccasin_mzn.solvers.cpsat.wide_sums import certain_bound, keep_true
from moccasin_mzn.solvers.flatzinc.clock import seconds_since_start
from moccasin_mzn.solvers.flatzinc.options import Options
from moccasin_mzn.solvers.flatzinc.reading import read, without_garbage_collection
from moccasin_mzn.solvers.flatzinc.statistics import Statistic, peak_megabytes
from moccasin_mzn.solvers.flatzinc.stopping import StopFlag
from moccasin_mzn.solvers.flatzinc.stream import SolutionStream
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc, FlatZincError

MAGNITUDES = (UNBOUNDED, 2**30, 2**20)
"""Where to cut the domains of unbounded variables, in the order of trial."""
RESERVE = 0.1
"""Seconds of the time limit kept for printing."""
PATIENCE = 0.1
"""Seconds a search may take to end after a signal or the time limit; MiniZinc 2.6 kills 0.2 s after its SIGTERM."""


def run(options: Options, stop: StopFlag) -> int:
    """Solve the file and print its solutions on stdout; the exit status.

    Does not return but ends the process if the search does not stop when told to.
    """
    try:
        with without_garbage_collection():
            session = _session(read(options.path), options)
    except FlatZincError as error:
        print(error, file=sys.stderr)
        return 1
    return session.run(stop)


def _session(items: FlatZinc, options: Options) -> Session:
    """The session of a file; where sums or products of cut domains overflow, narrower ones are tried."""
    unique = items.solve.goal == "satisfy" and options.enumerates
    for magnitude in MAGNITUDES:
        problem = translate(items, unique=unique, unbounded=magnitude)
        if not problem.cut or not problem.builder.model.validate():
            break
    if problem.cut:
        names = ", ".join(cut.name for cut in list(problem.cut.values())[:5])
        print(f"% variables without bounds are searched up to 2^{magnitude.bit_length() - 1}: {names}", file=sys.stderr)
    return Session(problem, options)


class Session:
    """A translated problem together with its solver and its output.

    Raises `ModelError` on creation if CP-SAT refuses the model or the parameters.
    """

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem = problem
        self.options = options
        self.items = output_items(problem)
        self.stream = SolutionStream(self.items, options, sys.stdout, _objective(problem), problem.maximize)
        self.solver = cp_model.CpSolver()
        self.status = cp_model.UNKNOWN
        self.failure: BaseException | None = None
        self.stopping = False
        self.initial_time = 0.0
        self.sizes = problem.builder.sizes()
        self._configure()
        complaint = problem.builder.model.validate()
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
            self.solver.log_callback = lambda line: print(line, file=sys.stderr, flush=True)
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

    def run(self, stop: StopFlag) -> int:
        """Solve, print, and return the exit status."""
        self.initial_time = seconds_since_start()
        if self._limit_time() <= 0:
            self.stream.finish("stopped", self.statistics({}))
            return 0
        # Python handles signals in the main thread only, which therefore has to stay out of the solver.
        stop.armed = True
        thread = threading.Thread(target=self._solve, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            self.stream.tell_bound(self.statistics({}))
            if stop.requested:
                self._abandon(thread)
        if self.failure is not None:
            print(f"error: {self.failure}", file=sys.stderr)
            return 1
        return self._conclude()

    def _limit_time(self) -> float:
        """Give the solver what is left of the time limit; how many seconds that is."""
        if self.options.limit is None:
            return math.inf
        left = self.options.limit - seconds_since_start() - RESERVE
        self.solver.parameters.max_time_in_seconds = max(left, 0.0)
        return left

    def _abandon(self, thread: threading.Thread) -> None:
        """Stop the search; print the best solution and leave without waiting for it much longer."""
        self.stopping = True
        self.solver.stop_search()
        thread.join(PATIENCE)
        if thread.is_alive():
            self.stream.finish("stopped", self.statistics({}))
            sys.stderr.flush()
            os._exit(0)

    def _solve(self) -> None:
        try:
            self.solver.best_bound_callback = self._guess_bound
            self.status = self.solver.solve(self.problem.builder.model, _Callback(self))
            ended = self.status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
            if self.solver.parameters.enumerate_all_solutions and (ended or self.stream.flooded):
                self._enumerate_by_blocking()
        except BaseException as error:  # reported by the main thread
            self.failure = error

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
            self._limit_time()
            self.status = self.solver.solve(self.problem.builder.model, _Callback(self))
            if self.status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                break

    def _conclude(self) -> int:
        solver = self.solver
        if self.status == cp_model.MODEL_INVALID:
            print("error: CP-SAT refuses the model or its parameters", file=sys.stderr)
            return 1
        statistics = self.statistics(_counters(solver))
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

    def statistics(self, counters: dict[str, Statistic]) -> dict[str, Statistic]:
        """What there is to tell at this moment, besides the objective."""
        booleans, integers = self.sizes
        return {
            "variables": booleans + integers,
            "boolVariables": booleans,
            "intVariables": integers,
            "propagators": self.problem.builder.constraint_count(),
            "initTime": self.initial_time,
            "solveTime": seconds_since_start() - self.initial_time,
            "peakMem": peak_megabytes(),
            "solverVersion": f"OR-Tools {ortools.__version__}",  # type: ignore[attr-defined]  # not in its types
            **counters,
        }


def _objective(problem: Problem) -> Callable[[Sequence[int]], int] | None:
    """The objective of a solution."""
    term = problem.objective
    return None if term is None else lambda values: evaluate(term, values)


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

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def on_solution_callback(self) -> None:
        session = self.session
        try:
            if session.problem.objective is not None:
                session.better_bound(self.response_proto)
            session.stream.solution(list(self.response_proto.solution), session.statistics(_counters(self)))
        except BaseException as error:  # an exception may not pass through the solver
            session.failure = error
        if session.failure or session.stream.satisfied or session.floods():
            self.stop_search()
