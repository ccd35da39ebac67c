"""Small tiled graphs: what `solve --order free` answers is what brute force finds among all sequences."""

from __future__ import annotations

import random

import pytest
from cases import Case, least_duration
from few import few
from solving import solve

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import cut, steps
from moccasin_mzn.problem.judges.schedules import judge, simulate

MOST_PARTS = 6


def tiled_case(seed: int) -> Case:
    """Two or three layers of a few rows, some of them read by two others, in parts of one or two rows."""
    rng = random.Random(seed)
    operators: list[Operator] = []
    while len(operators) < rng.choice([2, 3, 3]):
        sources = rng.sample(range(len(operators)), min(len(operators), rng.choice([1, 1, 2])))
        reads = []
        for source in sources:
            window, stride = rng.randint(1, 3), rng.randint(1, 2)
            axes = Reach(0, stride, window, before=rng.randint(0, 1)), None
            reads.append(Read(source, operators[source].shape, axes))
        operators.append(Operator("conv", (rng.randint(1, 3), rng.randint(1, 3)), tuple(reads), rng.choice([0, 0, 1])))
    sizes = [rng.randint(1, 3) * each.elements for each in operators]
    pairs = [(read.source, v) for v, each in enumerate(operators) for read in each.reads]
    graph = ComputationGraph(
        nodes=range(len(operators)), durations=[rng.randint(0, 9) for _ in operators], sizes=sizes, edges=pairs,
        operators=operators,
    )  # fmt: skip
    cuts = {v: {0: steps(each.shape[0], rng.choice([1, 1, 2]))} for v, each in enumerate(operators)}
    tiled = cut(graph, cuts)
    least, most = tiled.largest_working_set().memory - 1, simulate(tiled, tiled.input_order()).peak
    if len(tiled.nodes) > MOST_PARTS or tiled.parts is None or most <= least + 1:
        return tiled_case(seed + 1_000_000)
    return Case(tiled, max(1, rng.randint(least, most)), rng.choice([1, 2, 2, 3]))


@pytest.mark.parametrize("seed", few(range(200), 12))
def test_tiled_graphs_are_solved_as_brute_force_does(seed):
    case = tiled_case(seed)
    found = solve(
        case.graph, case.budget, order="free", max_computations=case.max_computations, if_none="stop", seed=seed
    )
    least = least_duration(case, "general")
    assert found.status == ("infeasible" if least is None else "optimal")
    if least is not None:
        judged = judge(case.graph, found.sequence, case.budget)
        assert judged.feasible and judged.duration == least
