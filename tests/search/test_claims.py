"""Claims of solvers in floating point: what is kept, what is proven, and what is reported of them."""

from __future__ import annotations

import time
from datetime import timedelta

import minizinc
import pytest
from solving import solve

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.conclusion import LARGEST, Verdict, conclude, doubtful, verdict
from moccasin_mzn.search.options import Options
from moccasin_mzn.solvers.minizinc.run import Outcome, OutputListener, _note_statistics
from moccasin_mzn.solvers.minizinc.solvers import Backend, Sum, find_backend

GRAPH = ComputationGraph(
    nodes=tuple("abcde"),
    durations=(5, 1, 1, 1, 1),
    sizes=(2, 1, 7, 1, 1),
    edges=((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)),
)
LONGER, BEST = (0, 1, 2, 3, 0, 4), (0, 1, 2, 3, 4)
# Both were called what they are not: infeasible by HiGHS, and longer than they are by SCIP.
CALLED_INFEASIBLE = ComputationGraph(
    nodes=range(7), durations=(5, 1, 1, 1, 3, 756968397, 59), sizes=(73, 40, 72, 98, 38, 69, 60),
    edges=((0, 1), (0, 6), (1, 2), (1, 5), (2, 3), (2, 4), (3, 4), (4, 5), (5, 6)), order=range(7),
)  # fmt: skip
BOUNDED_TOO_HIGH = ComputationGraph(
    nodes=range(8), durations=(31, 3883079347, 21, 21, 726137067, 2872936081, 13, 29), sizes=(3, 7, 7, 8, 5, 6, 6, 8),
    edges=((0, 1), (0, 7), (1, 2), (1, 6), (2, 3), (2, 5), (3, 4), (4, 5), (5, 6), (6, 7)), order=range(8),
)  # fmt: skip


@pytest.fixture
def record() -> Board:
    return Board(Instance.build(GRAPH, 10), time.monotonic())


def test_a_schedule_that_refutes_a_bound_in_floating_point_is_kept_and_an_exact_bound_counts_again(record):
    least = record.bound
    record.improve_bound(least + 1, "relaxation")
    record.improve_bound(1000, "highs", in_floating_point=True)
    assert (record.bound, record.bound_source) == (1000, "highs")
    simulation = record.offer(LONGER, "cp-sat")
    assert record.answer == LONGER and simulation.duration < 1000
    assert (record.bound, record.bound_source) == (least + 1, "relaxation")
    record.improve_bound(1000, "highs", in_floating_point=True)  # again, and refuted at once
    assert record.bound == least + 1


def test_a_schedule_that_refutes_an_exact_bound_is_an_error(record):
    record.improve_bound(1000, "highs", in_floating_point=True)
    record.improve_bound(900, "cp-sat")
    with pytest.raises(JudgeError, match="cp-sat claims that no schedule is shorter than 900"):
        record.offer(LONGER, "local search")


def test_infeasible_in_floating_point_is_refuted_by_a_schedule(record):
    record.offer(LONGER, "local search")
    record.refute("highs", in_floating_point=True)
    assert not record.infeasible_source and not record.ended.is_set()
    with pytest.raises(JudgeError, match="cp-sat claims that there is no schedule"):
        record.refute("cp-sat")


def test_claims_are_reported_until_they_are_refuted(record):
    options = Options(solver="highs", search="off")
    record.note_claim("HiGHS", "infeasible")
    claimed = "HiGHS claims that there is no schedule, not provable in floating point"
    assert conclude(record, options.form, "in time") == ("unknown", claimed)
    record.offer(LONGER, "local search")
    record.note_claim("HiGHS", "infeasible")  # of no interest any more
    assert conclude(record, options.form, "in time") == ("feasible", "no proof was found in time")
    record.note_claim("HiGHS", "optimal")
    claimed = "HiGHS claims that no schedule is shorter, not provable in floating point"
    assert conclude(record, options.form, "in time") == ("feasible", f"no proof was found in time; {claimed}")
    record.offer(BEST, "local search")
    assert not record.claim


def test_who_confirms_a_proof_is_named(record):
    record.offer(LONGER, "highs")
    record.improve_bound(record.value, "highs, confirmed by CP-SAT", in_floating_point=True)
    status, reason = conclude(record, Options(solver="highs", search="off").form, "")
    assert status == "optimal" and reason.startswith("proven by highs, confirmed by CP-SAT: no schedule ")


def other(tags: list[str]) -> Backend:
    """A solver of others."""
    solver = minizinc.Solver("Other", "1.0", "org.example.other", "/bin/false", tags=tags)
    return Backend(find_backend("cp-sat").found, solver, "other")


@pytest.mark.parametrize(
    ("backend", "large", "small"),
    [("cp-sat", False, False), ("highs", False, False), (["mip"], True, False), (["cp", "int"], False, False)],
)
def test_large_sums_make_claims_of_floating_point_solvers_doubtful(backend, large, small):
    backend = find_backend(backend) if isinstance(backend, str) else other(backend)
    for total, expected in ((LARGEST + 1, large), (LARGEST, small)):
        sums = [Sum("size", (1, 2), (0, 1), 1), Sum("duration", (total - 1, 1), (0, 1), 1)]
        assert doubtful(backend, lambda sums=sums: sums) is expected


def test_claims_at_the_end_of_a_run():
    mip, own = other(["mip"]), find_backend("highs")
    for status in ("optimal", "infeasible"):
        assert verdict(mip, Outcome(status), True) == Verdict("unknown", "other", status)
        assert verdict(mip, Outcome(status), False) == Verdict(status, "other", "")
    assert verdict(mip, Outcome("feasible"), True) == Verdict("feasible", "other", "")
    assert verdict(own, Outcome("feasible", claim="optimal"), False) == Verdict("feasible", "highs", "optimal")
    confirmed = Outcome("optimal", confirmed_by="CP-SAT")
    assert verdict(own, confirmed, False) == Verdict("optimal", "highs, confirmed by CP-SAT", "")


def test_claims_come_as_statistics():
    outcome = Outcome()
    listener = OutputListener(solution=lambda values: None, bound=lambda bound: None)
    for statistics in ({"claim": "optimal"}, {"flatTime": timedelta(seconds=2)}, {"confirmedBy": "CP-SAT"}):
        _note_statistics(statistics, listener, outcome)
    assert (outcome.claim, outcome.confirmed_by, outcome.flatten_seconds) == ("optimal", "CP-SAT", 2)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("graph", "budget", "formulation", "solver", "least"),
    [
        (CALLED_INFEASIBLE, 298, "checkmate-milp-strengthened", "highs", 756968468),
        (BOUNDED_TOO_HIGH, 22, "checkmate-milp", "scip", 11365231988),
    ],
)
def test_what_was_claimed_is_proven_with_help(graph, budget, formulation, solver, least):
    result = solve(graph, budget, formulation=formulation, solver=solver)
    assert (result.status, result.duration, result.bound) == ("optimal", least, least)
    assert result.reason.startswith(f"proven by {solver}, confirmed by CP-SAT: ") and result.as_dict()["claim"] is None


@pytest.mark.full
def test_a_race_of_solvers_in_floating_point_ends_with_a_true_proof():
    instance = Instance.build(CALLED_INFEASIBLE, 298, max_computations="unlimited")
    options = Options(solver="highs,scip", formulation="checkmate-milp-strengthened", time_limit=60)
    result = solve_instance(instance, options)
    assert (result.status, result.duration) == ("optimal", 756968468)
