"""Parts of all schedules: none is lost, and what is proven of each is proven of all."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from cases import draw_case
from few import few
from test_bounds import least_duration, solved

from moccasin_mzn.bounds import question, workers
from moccasin_mzn.bounds.cubes import Cube, Cubes
from moccasin_mzn.bounds.duration import duration_bound
from moccasin_mzn.bounds.linear import relax
from moccasin_mzn.bounds.parting import parting
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.bounds.workers import State, Worker
from moccasin_mzn.clock import Deadline
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import Stages, highest_maxima
from moccasin_mzn.search.processes.guarded import never

DATA = Path(__file__).resolve().parents[2] / "data"
G1 = DATA / "paper" / "random_layered_n100.json"


def some_places(relaxation: Relaxation, rng: random.Random) -> list[tuple[int, int]]:
    """Up to three of what a cube can be parted by."""
    places = [*relaxation.places().values()]
    return rng.sample(places, min(3, len(places)))


@pytest.mark.parametrize("seed", few(range(400), keep=40))
def test_parts_have_the_optimum_between_them(seed):
    """Of one relaxation, and never above it where another stage is seen in the parts."""
    rng, case = random.Random(seed), draw_case(seed)
    stages = Stages.of(Instance.build(case.graph, case.budget, max_computations=rng.choice([2, 3])))
    chosen = rng.sample(range(stages.n), rng.randint(1, stages.n))
    relaxation, finer = Relaxation.of(stages, chosen), Relaxation.of(stages, range(stages.n))
    cubes = [Cube(0)]
    for k, u in some_places(relaxation, rng):
        cube = cubes.pop(rng.randrange(len(cubes)))
        cubes += cube.parts(k, u)
    for seen in (relaxation, finer):
        rows = len(seen.clauses)
        parts = [answer.bound for cube in cubes if not (answer := solved(cube.of(seen))).infeasible]
        whole = solved(seen)
        assert whole.infeasible == (not parts)
        assert whole.infeasible or whole.bound == min(parts)
        assert len(seen.clauses) == rows and not (seen.infeasible and not whole.infeasible)


@pytest.mark.parametrize("seed", few(range(1000), keep=60))
def test_workers_that_begin_with_parts_are_never_above_brute_force(seed):
    rng, case, most = random.Random(seed), draw_case(seed), 2 + seed % 2
    instance = Instance.build(case.graph, case.budget, max_computations=most)
    best = least_duration(case.graph, case.graph.input_order(), case.budget, most)
    state = State(instance, Stages.of(instance), Deadline(20), ignore, ignore, ignore, never, lambda: None)
    state.begin(set(rng.sample(range(state.stages.n), rng.randint(1, state.stages.n))))
    seen, cubes = state.begun
    for k, u in some_places(seen.relaxation(), rng):
        with cubes.one(None) as cube:
            assert cube is not None
            state.replace(cube, cube.parts(k, u), seen.relaxation())
    Worker(state, seed).run()
    if best is None:  # the finest relaxation may have a solution all the same
        assert state.reason in ("infeasible", "exhausted")
    else:
        assert state.reason != "infeasible"
        assert state.value == best or (state.value < best and state.reason == "exhausted")


def test_hard_questions_are_asked_in_parts_by_all_workers(monkeypatch):
    """Patience is too short for most questions of RL G2 at 85 %, whose optimum costs 2.216 % more."""
    parted = []

    def noted(*arguments):
        parted.append(parting(*arguments))
        return parted[-1]

    monkeypatch.setattr(workers, "parting", noted)
    monkeypatch.setattr(question, "PATIENCE", 0.2)
    monkeypatch.setattr(question, "CLAUSES_PER_SECOND", 1e9)
    instance = Instance.build(read_graph(DATA / "paper" / "random_layered_n250.json"), 124_814, max_computations=2)
    end = time.monotonic() + 60
    found = duration_bound(
        instance, time_limit=60, workers=2, incumbent=lambda: 128_351,
        stop=lambda: sum(map(bool, parted)) > 3 or time.monotonic() > end,
    )  # fmt: skip
    assert sum(map(bool, parted)) > 3
    assert 127_000 < found.value <= 128_351


def test_what_it_is_parted_by_makes_both_parts_dear():
    stages = Stages.of(Instance.build(read_graph(G1), 34_739))
    relaxation = Relaxation.of(stages, highest_maxima(stages.memory, stages.budget, 5))
    by = parting(relaxation, sum(relaxation.cost), Deadline(60), never)
    assert by in relaxation.places().values()
    whole, parts = relax(relaxation, 60), [relax(cube.of(relaxation), 60) for cube in Cube(0).parts(*by)]
    assert all(part.bound > whole.bound for part in parts)
    assert parting(relaxation, sum(relaxation.cost), Deadline(60), lambda: True) is None


def test_nothing_to_part_by_where_the_linear_relaxation_is_whole():
    case = draw_case(1)
    stages = Stages.of(Instance.build(case.graph, sum(case.graph.sizes)))
    assert parting(Relaxation.of(stages, range(stages.n)), 10, Deadline(60), never) is None


def test_workers_take_the_cube_of_the_least_bound_that_nobody_works_at():
    cubes = Cubes(5)
    with cubes.one(None) as whole:
        assert whole is not None and whole.held == ()
        with cubes.one(None) as other:
            assert other is None
        assert cubes.replace(whole, whole.parts(3, 1)) == 5
    with cubes.one(None) as one, cubes.one(None) as other:
        assert {one.held, other.held} == {((3, 1, True),), ((3, 1, False),)}
        assert (cubes.improve(one, 9), cubes.improve(other, 7), cubes.improve(other, 6)) == (5, 7, 7)
    with cubes.one(None) as least, cubes.one(9) as none_better:
        assert least is other and none_better is None
    assert cubes.replace(other, ()) == 9 and cubes.replace(one, ()) is None
    assert cubes.improve(one, 11) is None, "it is none of them any more"
