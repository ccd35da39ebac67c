"""Several threads at one bound: they prove the same, and take over what one thread has begun."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from cases import draw_case
from few import few
from test_bounds import least_duration, solved

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds import worker as question
from moccasin_mzn.bounds.input_order import Alongside, duration_bound
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.bounds.worker import BoundState, Worker
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import Stages
from moccasin_mzn.search.processes.guarded import never
from moccasin_mzn.solvers.cpsat import branching
from moccasin_mzn.solvers.cpsat.branching import branch

G2 = Path(__file__).resolve().parents[2] / "data" / "paper" / "random_layered_n250.json"


@pytest.mark.parametrize("seed", few(few(range(400), keep=200, mark=pytest.mark.slow), keep=30))
def test_a_tree_that_threads_share_has_the_optimum_of_one(seed):
    rng, case = random.Random(seed), draw_case(seed)
    stages = Stages.of(Instance.build(case.graph, case.budget, max_computations=rng.choice([2, 3])))
    relaxation = Relaxation.of(stages, rng.sample(range(stages.n), rng.randint(1, stages.n)))
    alone = solved(relaxation)
    most = None if alone.infeasible or rng.random() < 0.5 else alone.bound + rng.choice([-1, 0, 1])
    shared = branch(
        relaxation, least=0, most=most, deadline=Deadline(60), seed=seed, on_bound=ignore, stop=lambda _: False,
        workers=rng.choice([2, 3]),
    )  # fmt: skip
    assert shared.ended
    assert shared.infeasible == (alone.infeasible or (most is not None and most < alone.bound))
    assert shared.infeasible or shared.bound == alone.bound


@pytest.mark.parametrize("seed", few(few(range(1000), keep=300, mark=pytest.mark.slow), keep=60))
def test_bounds_of_two_threads_from_any_stages_are_never_above_brute_force(seed):
    rng, case, most = random.Random(seed), draw_case(seed), 2 + seed % 2
    instance = Instance.build(case.graph, case.budget, max_computations=most)
    best = least_duration(case.graph, case.graph.input_order(), case.budget, most)
    state = BoundState(instance, Stages.of(instance), Deadline(20), ignore, ignore, ignore, never, lambda: None)
    state.begin(set(rng.sample(range(state.stages.n), rng.randint(1, state.stages.n))))
    Worker(state, seed, 2, lambda: True).run()
    if best is None:  # the finest relaxation may have a solution all the same
        assert state.reason in ("infeasible", "exhausted")
    else:
        assert state.reason != "infeasible"
        assert state.value == best or (state.value < best and state.reason == "exhausted")


@pytest.mark.full
def test_all_threads_take_over_what_one_looks_for(monkeypatch):
    """Of RL G2 at 85 %, whose optimum costs 2.216 % more, once a question has no solution after a second."""
    asked: list[tuple[object, int | None, int]] = []

    def noted(relaxation, *, most, workers, **others):
        asked.append((relaxation, most, workers))
        begun.append(time.monotonic())
        try:
            return branch(relaxation, most=most, workers=workers, **others)
        finally:
            begun.clear()

    begun: list[float] = []
    monkeypatch.setattr(branching, "branch", noted)
    monkeypatch.setattr(question, "PATIENCE", 0.2)
    monkeypatch.setattr(question, "CLAUSES_PER_SECOND", 1e9)
    instance = Instance.build(read_graph(G2), 124_814, max_computations=2)
    joined: list[bool] = []

    def may_join() -> bool:
        if not joined and begun and time.monotonic() > begun[-1] + 1:
            joined.append(True)
        return bool(joined)

    for _ in range(5):  # a question may end by itself just when the second thread could join
        asked.clear(), joined.clear()
        end = time.monotonic() + 60
        found = duration_bound(
            instance, time_limit=60, workers=2, alongside=Alongside(
                incumbent=lambda: 128_351, may_join=may_join,
                stop=lambda: (bool(asked) and asked[-1][2] > 1) or time.monotonic() > end,  # noqa: B023
            ),
        )  # fmt: skip
        assert [workers for *_, workers in asked[-2:]] == [1, 2]
        (one, most, _), (other, same, _) = asked[-2:]
        if one is other:
            break
    assert one is other and most == same
    assert 126_500 < found.value <= 128_351
