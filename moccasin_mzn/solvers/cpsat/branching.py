"""Least cost of a 0-1 program with CP-SAT, whose arithmetic on bounds is exact."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moccasin_mzn.base.clock import Deadline, halting
from moccasin_mzn.solvers.cpsat.builder import (
    CpModelProto,
    Proto,
    SolutionCallback,
    Solver,
    Status,
    certain_bound,
    complaint,
    keep_true,
)
from moccasin_mzn.solvers.program import YES, Program

ROWS_AT_ONCE = 500
"""Most violated rows that are added before the linear relaxation is solved again."""
ACTIVITY_DECAY = 0.95
"""What counts of a column's part in conflicts after one more conflict."""


@dataclass(frozen=True)
class Branched:
    """What is known about the program when the search ends."""

    bound: int
    """No solution costs less; only if not `infeasible`."""
    infeasible: bool
    """There is none that costs at most what was asked for, and no schedule either."""
    solution: tuple[bool, ...] | None
    """The best one found."""
    ended: bool = False
    """Is the best one known, or that there is none?"""
    work: float = 0.0
    """In CP-SAT's deterministic seconds."""


def branch(
    program: Program, *, least: int, most: int | None, deadline: Deadline, seed: int,
    on_bound: Callable[[int], None], stop: Callable[[bool], bool], presolve: bool = False, work: float = math.inf,
    workers: int = 1,
) -> Branched:  # fmt: skip
    """Search until the least cost is known, time is up or `stop(found)` is true, which is asked every 50 ms.

    One worker runs CP-SAT's default search with all linear relaxations, but ignores the objective in choosing
    values, and mostly without presolve, cuts and inprocessing: hard proofs take less than half the time that way.
    Of more of CP-SAT's own workers, most hardly look at bounds: several share one search tree instead.

    Args:
        least: known lower bound from elsewhere; a solution that costs no more ends the search. It is no constraint:
            a schedule that costs more can be a solution that costs less here, whatever the bound on schedules.
        most: solutions that cost more are of no interest; None: all are.
        stop: from a thread of its own; `found`: is there a solution yet?
        presolve: and cuts and inprocessing; of use where most constraints of a program follow from a few.
        workers: threads that share the search.
        work: it ends after this many of CP-SAT's deterministic seconds, with the same answer every time.
    """
    if program.infeasible or (most is not None and most < least):
        return Branched(least, True, None, ended=True)
    model = _model(program, sum(program.cost) if most is None else most)
    solver = Solver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    remaining = deadline.remaining()
    solver.parameters.max_time_in_seconds = math.inf if remaining is None else max(0.01, remaining)
    solver.parameters.max_deterministic_time = work
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_presolve = presolve
    solver.parameters.exploit_objective = False
    if not presolve:
        _prove_soon(solver.parameters)
    if workers > 1:
        _share_tree(solver.parameters, workers)
    keep_true(solver.parameters, max((sum(map(abs, one.weights)) for one in program.capacities), default=0))
    best, magnitude = least, sum(program.cost)

    def improved(value: float) -> None:
        nonlocal best
        bound = certain_bound(value, magnitude)
        if bound is not None and bound > best:
            best = bound
            on_bound(best)

    solver.on_bound = improved
    solutions = _Found(program.cost, least)
    with halting(lambda: stop(solutions.found), solver.stop):
        status = solver.solve(model, solutions)
    spent = solver.response.deterministic_time
    if status == Status.INFEASIBLE:
        return Branched(best, True, None, True, spent)
    if status in (Status.OPTIMAL, Status.FEASIBLE):
        response = solver.response
        # the one that is given in integers: in floating point a bound may exceed what it bounds
        bound, solution = max(best, response.inner_objective_lower_bound), tuple(map(bool, response.solution))
        return Branched(bound, False, solution, status == Status.OPTIMAL, spent)
    if status == Status.MODEL_INVALID:
        raise RuntimeError(f"CP-SAT refuses the program: {complaint(model)}")
    return Branched(best, False, None, False, spent)


def _prove_soon(parameters: Proto) -> None:
    """Fewer and larger steps to the linear relaxation of a node, no cuts, nothing probed or shortened between, and what
    was in conflict is remembered for longer."""
    parameters.new_constraints_batch_size = ROWS_AT_ONCE
    parameters.cut_level = 0
    parameters.use_sat_inprocessing = False
    parameters.variable_activity_decay = ACTIVITY_DECAY


def _share_tree(parameters: Proto, workers: int) -> None:
    """All workers in parts of one tree, none that looks for solutions alone."""
    parameters.num_workers = parameters.shared_tree_num_workers = workers
    parameters.use_feasibility_jump = False


class _Found(SolutionCallback):
    """Remembers that there is a solution; one that costs no more than `least` is enough."""

    def __init__(self, cost: Sequence[int], least: int) -> None:
        super().__init__()
        self.cost, self.least = cost, least
        self.found = False

    def OnSolutionCallback(self) -> None:  # noqa: N802  (CP-SAT's name)
        self.found = True
        if sum(itertools.compress(self.cost, self.Response().solution)) <= self.least:
            self.StopSearch()


def _model(program: Program, most: int) -> Proto:
    proto = CpModelProto()
    for _ in program.cost:
        proto.variables.add().domain.extend((0, 1))
    for columns, premise in program.clauses:
        literals = columns if premise is None else (*columns, -premise - 1)
        proto.constraints.add().bool_or.literals.extend(literals)
    for capacity in program.capacities:
        constraint = proto.constraints.add()
        if capacity.when != YES:
            constraint.enforcement_literal.append(capacity.when)
        elif capacity.most == 1 and all(weight == 1 for weight in capacity.weights):
            constraint.at_most_one.literals.extend(capacity.columns)
            continue
        constraint.linear.vars.extend(capacity.columns)
        constraint.linear.coeffs.extend(capacity.weights)
        lowest = sum(weight for weight in capacity.weights if weight < 0)
        constraint.linear.domain.extend((lowest, capacity.most))
    priced = [column for column, cost in enumerate(program.cost) if cost]
    proto.objective.vars.extend(priced)
    proto.objective.coeffs.extend(program.cost[column] for column in priced)
    proto.objective.domain.extend((program.least_cost, max(program.least_cost, most)))
    return proto
