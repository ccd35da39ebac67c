"""One run of the solver: from the command line to the exit status."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ortools

from moccasin_mzn.solvers.cpsat.builder import (
    Branching,
    ModelError,
    Proto,
    SolutionCallback,
    Solver,
    Status,
    Term,
    as_term,
    certain_bound,
    complaint,
    keep_true,
)
from moccasin_mzn.solvers.cpsat.search import add_hints, add_strategies
from moccasin_mzn.solvers.cpsat.translate import UNBOUNDED, TranslatedModel, are_harmless, translate
from moccasin_mzn.solvers.flatzinc.execution import ExecutionOptions, StopFlag
from moccasin_mzn.solvers.flatzinc.stream import Output, Session, Statistic, outputs, print_log, read, run_session
from moccasin_mzn.solvers.flatzinc.syntax import ContinuousError, FlatZinc

if TYPE_CHECKING:
    from fractions import Fraction


MAGNITUDES = (UNBOUNDED, 2**30, 2**20)
"""Where to cut the domains of unbounded variables, in the order of trial."""
PATIENCE = 0.1
"""Seconds a search may take to end after a signal or the time limit; MiniZinc 2.6 kills 0.2 s after its SIGTERM."""


def run(
    options: ExecutionOptions, stop: StopFlag, elsewhere: Callable[[FlatZinc, ExecutionOptions], None] | None = None
) -> int:
    """Solve the file and print its solutions on stdout; the exit status.

    `elsewhere` gets a file with continuous floats that CP-SAT cannot take; if it returns, the file is refused.
    """

    def session() -> CpSatSession:
        items = read(options.path)
        try:
            return _session(items, options)
        except ContinuousError:
            if elsewhere:
                elsewhere(items, options)
            raise

    return run_session(session, stop)


def _session(items: FlatZinc, options: ExecutionOptions) -> CpSatSession:
    """The session of a file; where sums or products of cut domains overflow, narrower ones are tried."""
    unique = items.solve.goal == "satisfy" and options.enumerates
    for magnitude in MAGNITUDES:
        try:
            problem = translate(items, unique=unique, unbounded=magnitude)
        except ModelError:  # a product that goes beyond 64 bits even as a domain
            if magnitude == MAGNITUDES[-1]:
                raise
            continue
        if not problem.cut or not complaint(problem.builder.model):
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

    def __init__(self, problem: TranslatedModel, options: ExecutionOptions) -> None:
        builder, term = problem.builder, problem.objective
        booleans, integers = builder.sizes()
        sizes: dict[str, Statistic] = {
            "variables": booleans + integers,
            "boolVariables": booleans,
            "intVariables": integers,
            "propagators": builder.constraint_count(),
        }
        objective = None if term is None else lambda values: problem.reported(evaluate(term, values))
        items = output_items(problem)
        self.printed = sorted({term.variable for item in items for term in item.terms if term.coefficient})
        version = f"OR-Tools {ortools.__version__}"  # type: ignore[attr-defined]  # not in its types
        super().__init__(options, items, objective, problem.maximize, sizes, version, self._identity)
        self.problem = problem
        self.solver = Solver()
        self.status = Status.UNKNOWN
        self.stopping = False
        self.follows_only = False
        self._configure()
        refusal = complaint(builder.model)
        if refusal:
            place = problem.place_of_refusal()
            raise ModelError(f"{place}: CP-SAT refuses the model: {' '.join(refusal.split())[:500]}")

    def _configure(self) -> None:
        options, parameters = self.options, self.solver.parameters
        parameters.num_workers = options.workers or _cores()
        if options.seed is not None:
            parameters.random_seed = options.seed % 2**31
        enumerates = self.problem.objective is None and options.enumerates
        if enumerates:
            parameters.num_workers = 1
            parameters.enumerate_all_solutions = True
            parameters.keep_all_feasible_solutions_in_presolve = True
        free = options.free or enumerates  # annotations guide to solutions, which matters to no list of all
        if not free and add_strategies(self.problem):
            self._follow_annotations()
        add_hints(self.problem, from_strategies=free)
        if options.verbose:
            parameters.log_search_progress = True
            parameters.log_to_stdout = False
            self.solver.on_log = print_log
        keep_true(parameters, self.problem.builder.widest)
        if not parameters.merge_text_format(options.params):
            raise ModelError(f"--params: CP-SAT does not understand {options.params!r}")

    def _follow_annotations(self) -> None:
        """Let one worker follow the search annotations, and a second one, where there is a core for it, search on its
        own: a search that follows them never leaves them."""
        parameters = self.solver.parameters
        if self.options.workers is None:
            parameters.num_workers = min(2, _cores())
        if parameters.num_workers == 1:
            self.follows_only = True
            parameters.search_branching = Branching.FIXED_SEARCH
            parameters.keep_all_feasible_solutions_in_presolve = True  # or presolve decides before the search does
        elif parameters.num_workers == 2:  # of which CP-SAT gives one to local search
            parameters.subsolvers.extend(["fixed", "default_lp"])
            parameters.num_full_subsolvers = 2

    def interrupt(self) -> None:
        self.stopping = True
        self.solver.stop()

    def search(self) -> None:
        self.solver.on_bound = self._guess_bound
        self._solve()
        ended = self.status in (Status.OPTIMAL, Status.INFEASIBLE)
        incomplete = ended and self.problem.builder.loses_solutions
        if self.solver.parameters.enumerate_all_solutions and (incomplete or self.stream.flooded):
            self._enumerate_by_blocking()

    def _solve(self) -> None:
        left = self.seconds_left()
        if left is not None:
            self.solver.parameters.max_time_in_seconds = left
        self.status = self.solver.solve(self.problem.builder.model, _Callback(self))

    def _guess_bound(self, bound: float) -> None:
        """Take a bound of the objective from CP-SAT, as it reports it between solutions: as a float."""
        sign, offset = self.problem.objective_scale()
        lower = certain_bound(sign * (bound - offset), self.problem.builder.magnitude + abs(offset))
        if lower is not None:
            self.stream.better_bound(self.problem.reported(sign * lower + offset))

    def take(self, response: Proto) -> None:
        """Take a solution, and the bound of the objective that comes with it in integers, without sign and offset."""
        if self.problem.objective is not None:
            sign, offset = self.problem.objective_scale()
            self.stream.better_bound(self.problem.reported(sign * response.inner_objective_lower_bound + offset))
        self.stream.solution(list(response.solution), lambda: self.statistics(**_counters(response)))

    def floods(self) -> bool:
        """Is the solver enumerating, to no avail?"""
        return self.solver.parameters.enumerate_all_solutions and self.stream.flooded

    def _identity(self, values: Values) -> bytes:
        """What distinguishes a solution from others that are printed: the values of the `printed` variables."""
        return array("q", map(values.__getitem__, self.printed)).tobytes()

    def _enumerate_by_blocking(self) -> None:
        """Solve again and again, each time without the outputs printed so far.

        Needed where auxiliary variables are free: every solution that the solver enumerates would then come again for
        each of their values. And needed after an enumeration that loses solutions: only a proof that nothing is left
        reports that all was found.
        """
        self.solver.parameters.enumerate_all_solutions = False
        self.solver.parameters.keep_all_feasible_solutions_in_presolve = False
        blocked = 0
        while not self.stream.satisfied and not self.stopping:
            fresh = self.stream.distinct(blocked)
            for identity in fresh:
                self.problem.builder.block(self.printed, array("q", identity))
            blocked += len(fresh)
            self._solve()
            if self.status not in (Status.OPTIMAL, Status.FEASIBLE):
                break

    def conclude(self) -> int:
        if self.status == Status.MODEL_INVALID:
            print("error: CP-SAT refuses the model or its parameters", file=sys.stderr)
            return 1
        if self.status in (Status.OPTIMAL, Status.FEASIBLE):
            self.take(self.solver.response)
        outcome = self._outcome()
        if outcome == "stopped" and self.follows_only and not self.stream.satisfied:
            print("% one worker followed the search annotations; -f searches freely", file=sys.stderr)
        self.stream.finish(outcome, self.statistics(**_counters(self.solver.response)))
        return 0

    def _outcome(self) -> str:
        """What the end of the search proves about the file, whose unbounded variables may have been cut."""
        cut, problem = self.problem.cut, self.problem
        if self.status not in (Status.OPTIMAL, Status.INFEASIBLE) or self.stream.satisfied:
            return "stopped"
        if problem.integral and problem.integral.continuous and self.options.enumerates and self.stream.printed:
            print("% not all values of continuous variables can be listed", file=sys.stderr)
            return "stopped"
        if not cut:
            return "complete"
        if problem.objective is not None and self.stream.values is not None:
            if are_harmless(cut, problem.file, evaluate(problem.objective, self.stream.values)):
                return "complete"
            if problem.objective_is_free():
                return "unbounded"
        print("% no proof, since there may be solutions beyond these domains", file=sys.stderr)
        return "stopped"


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _counters(response: Proto) -> dict[str, Statistic]:
    """Search statistics of a response."""
    return {
        "nodes": response.num_branches,
        "failures": response.num_conflicts,
        "restarts": response.num_restarts,
        "propagations": response.num_binary_propagations + response.num_integer_propagations,
    }


class _Callback(SolutionCallback):
    """Hands every solution over to the stream."""

    def __init__(self, session: CpSatSession) -> None:
        super().__init__()
        self.session = session

    def OnSolutionCallback(self) -> None:  # noqa: N802  (CP-SAT's name)
        session = self.session
        try:
            session.take(self.Response())
        except BaseException as error:  # an exception may not pass through the solver
            session.failure = error
        if session.failure or session.stream.satisfied or session.floods():
            self.StopSearch()


# --- Solutions of CP-SAT as text ------------------------------------------------------------------------------


Values = Sequence[int]
"""The value of every CP-SAT variable, by its index."""


def evaluate(term: Term, values: Values) -> int:
    """The value of an operand in a solution."""
    return term.coefficient * values[term.variable] + term.offset


@dataclass(frozen=True, slots=True)
class OutputItem:
    """An output item with the operands that are its elements."""

    output: Output
    terms: list[Term]

    def text(self, values: Values) -> str:
        """The line for a solution."""
        return self.output.text(evaluate(term, values) for term in self.terms)


@dataclass(frozen=True, slots=True)
class FloatItem:
    """An output item of floats; each element is the sum of a constant and of operands times fractions."""

    output: Output
    elements: list[tuple[Fraction, list[Fraction], list[Term]]]

    @property
    def terms(self) -> list[Term]:
        """All operands."""
        return [term for _, _, terms in self.elements for term in terms]

    def text(self, values: Values) -> str:
        """The line for a solution."""
        return self.output.text(
            float(constant + sum(factor * evaluate(term, values) for factor, term in zip(factors, terms, strict=True)))
            for constant, factors, terms in self.elements
        )


def output_items(problem: TranslatedModel) -> list[OutputItem | FloatItem]:
    """The output items of a file, in its order: scalars first."""
    symbols, integral = problem.symbols, problem.integral
    items: list[OutputItem | FloatItem] = []
    for output in outputs(integral.source if integral else problem.file):
        if output.is_float and integral:
            forms = map(integral.form, output.elements)
            pairs = ((form, list(map(symbols.term, form.factors))) for form in forms)
            items.append(FloatItem(output, [(form.constant, [*form.factors.values()], terms) for form, terms in pairs]))
        else:
            read = (lambda item: as_term(symbols.literal(item))) if output.is_bool else symbols.term
            items.append(OutputItem(output, list(map(read, output.elements))))
    return items
