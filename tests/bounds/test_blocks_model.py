"""The block relaxation as a model: for any stages what the compiled one proves, and never above brute force."""

from __future__ import annotations

import random

import oracle
import pytest
from cases import MODELS, draw_case
from few import few
from newer_minizinc import NEWER, execute, needs_newer
from test_bounds import OPTIMAL_TDI, least_duration, published

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.input_order import duration_bound
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import Stages
from moccasin_mzn.solvers.cpsat.branching import Branched, branch
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, SolverError, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

WORST, GIVEN = MODELS / "blocks.mzn", MODELS / "lib" / "blocks.mzn"
MOMENTS = {211, 234, 248, 299}
"""Where they make the bound better, or leave none."""


def seeds(keep: set[int]) -> list:
    return few(range(300), keep=keep, mark=pytest.mark.slow)


def data_of(instance: Instance, stages: Stages | None = None) -> dict:
    """As `export` writes it; with what `stages` knows of recomputations, if they are given."""
    form = find_formulation("staged")
    items = form.items(instance, form.data(instance), None, None)
    if stages is not None:
        items["max_computations"] = stages.most
        items["earliest_stage"] = [k + 1 for k in stages.earliest]
        items["latest_stage"] = [k + 1 for k in stages.latest]
        items["duration_limit"] = sum(w * most for w, most in zip(stages.duration, stages.most, strict=True))
    return items


def bound_of(items: dict, model=GIVEN, solver: str = "gecode") -> int | None:
    """The optimum, in the unit of the data; None if there is none."""
    found: list[int] = []
    limits = Limits(120, None if solver == "gecode" else 1, parameters="linearization_level:2")
    listener = OutputListener(solution=lambda values: found.append(values.objective), bound=lambda bound: None)
    status = run_model(find_backend(solver), model, dzn_text(items), limits, listener).status
    assert status in ("optimal", "infeasible")
    return found[-1] if status == "optimal" else None


def compiled(relaxation: Relaxation) -> int | None:
    """The same by the compiled relaxation."""
    solved: Branched = branch(
        relaxation, least=0, most=None, deadline=Deadline(60), seed=0, on_bound=lambda _: None, stop=lambda _: False
    )  # fmt: skip
    return None if solved.infeasible else relaxation.stages.baseline + solved.bound


def drawn(seed: int, workspaces: bool = False) -> tuple[Instance, Relaxation]:
    case, rng = draw_case(seed, 12, workspaces), random.Random(seed)
    instance = Instance.build(case.graph, case.budget, max_computations=case.max_computations)
    stages = Stages.of(instance)
    shares = rng.choice([0.2, 0.5, 0.8]), rng.choice([0, 0.7, 1])
    chosen, moments = ([k for k in range(stages.n) if rng.random() < share] for share in shares)
    watched = [(v, k) for v in range(stages.n) for k in range(v + 1, stages.n) if rng.random() < 0.1]
    return instance, Relaxation.of(stages, chosen, moments, watched)


@pytest.mark.few(8)
@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("seed", seeds({0, 1} | MOMENTS))
def test_blocks_model_is_the_compiled_relaxation(seed, workspaces):
    instance, relaxation = drawn(seed, workspaces)
    assert bound_of(data_of(instance, relaxation.stages) | relaxation.items()) == compiled(relaxation)


@pytest.mark.parametrize("solver", ["cp-sat", pytest.param("highs", marks=pytest.mark.slow)])
def test_blocks_model_is_the_same_for_other_solvers(solver):
    instance, relaxation = drawn(248)
    items = data_of(instance, relaxation.stages) | relaxation.items()
    bound = bound_of(items, solver=solver)
    assert bound is not None and bound == compiled(relaxation) > relaxation.stages.baseline


@needs_newer
@pytest.mark.parametrize("solver", few(["chuffed", "coin-bc", "gecode"], keep=1, mark=pytest.mark.slow))
def test_blocks_model_is_the_same_for_a_newer_minizinc(tmp_path, solver):
    instance, relaxation = drawn(248)
    data = tmp_path / "data.dzn"
    data.write_text(dzn_text(data_of(instance, relaxation.stages) | relaxation.items()))
    out = execute(NEWER, "--solver", solver, GIVEN, data)
    assert f"less than {compiled(relaxation)} = " in out and "==========" in out


@pytest.mark.few(4)
@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("seed", seeds({2, 16, 59}))
def test_blocks_model_is_never_above_brute_force(seed, workspaces):
    case, rng = draw_case(seed, workspaces=workspaces), random.Random(seed)
    graph, most = case.graph, case.max_computations
    instance = Instance.build(graph, case.budget, max_computations=most)
    every = set(range(1, len(graph.nodes) + 1))
    watches = {"watched": [*every], "watched_at": [*every][::-1]}
    stages = Stages.of(instance)
    best = oracle.best_fixed_order(graph, graph.input_order(), case.budget, most)
    least = least_duration(graph, graph.input_order(), case.budget, most)
    for items, model, optimum in (
        (data_of(instance), WORST, best),
        (data_of(instance) | {"chosen": every, "moments": every} | watches, GIVEN, best),
        (data_of(instance, stages), WORST, least),
        (data_of(instance, stages) | {"chosen": {rng.choice([*every])}, "moments": every} | watches, GIVEN, least),
    ):
        bound = bound_of(items, model)
        if optimum is not None:
            assert bound is not None and bound * stages.duration_scale <= optimum


def test_blocks_model_is_zero_within_a_large_budget():
    graph = draw_case(1).graph
    items = data_of(Instance.build(graph, 1000))
    assert bound_of(items, WORST) == sum(items["duration"])


def test_blocks_model_refuses_a_window():
    items = data_of(Instance.build(draw_case(1).graph, 1000)) | {"entry": 1}
    with pytest.raises(SolverError, match="the block relaxation is of a whole instance"):
        bound_of(items, WORST)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "budget"), OPTIMAL_TDI)
def test_blocks_model_proves_published_optima(shared, name, budget):
    """Where the worst stages are chosen, and where the compiled search chose them, whose bound is a schedule's."""
    instance = published(shared, name, budget)
    found = duration_bound(instance, time_limit=60)
    items, scale = data_of(instance), Stages.of(instance).duration_scale
    assert found.reason == "schedule" and found.relaxation is not None
    assert bound_of(items, WORST, "cp-sat") * scale == found.value
    assert bound_of(items | found.relaxation.items(), GIVEN, "cp-sat") * scale == found.value
