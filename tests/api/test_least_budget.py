"""The least budget: as small as brute force goes on tiny graphs, and refused where it is no peak."""

from __future__ import annotations

import re
from collections import Counter

import oracle
import pytest
from cases import draw_case
from few import few
from least_oracle import FIRST, FREE, STAGED, draw_any, least_peak
from test_tiling import GRAPH as IMAGES
from test_tiling import WHOLE

import moccasin_mzn as mz
from moccasin_mzn.api.frontier.least import least_schedules
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.search.options import Options


def least_feasible(graph, most: int) -> int:
    """The smallest budget with a schedule in the order of the nodes, and the duration of the shortest one."""
    order = graph.input_order()
    budgets = range(simulate(graph, order).peak + 1)
    return next(b for b in budgets if oracle.best_fixed_order(graph, order, b, most) is not None)


@pytest.mark.parametrize("seed", range(3))
def test_the_least_budget_is_that_of_brute_force(seed):
    graph = draw_case(9100 + seed, 6).graph
    found = mz.solve(graph, "least", time_limit=5, threads=1, seed=0, if_none="stop", search="only")
    budget = least_feasible(graph, 2)
    assert found.valid and found.peak == found.budget == budget
    assert found.duration == oracle.best_fixed_order(graph, graph.input_order(), budget, 2)
    assert found.notes[0].startswith("budget: ")


OUTPUTS = ComputationGraph(
    ["n0", "n1", "n2", "n3"], [4, 3, 0, 0], [1, 0, 1, 2], [("n0", "n1"), ("n3", "n1")], order=[0, 3, 2, 1],
    output_of=[None, None, None, 0],
)  # fmt: skip
IN_PLACE = ComputationGraph(
    ["n0", "n1", "n2", "n3"], [1, 1, 1, 1], [1, 1, 0, 4], [("n0", "n3"), ("n3", "n1"), ("n3", "n2")],
    order=[0, 3, 1, 2], workspaces=[0, 4, 1, 0], in_place=[[], [3], [], []], runs_in_place=True,
)  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize(
    ("graph", "most", "least", "sequence"),
    [(OUTPUTS, 2, 3, "n0 n3 n2 n0 n3 n1"), (IN_PLACE, 8, 8, "n0 n3 n1 n0 n3 n2")],
)
def test_the_least_budget_with_further_outputs_or_in_place(graph, most, least, sequence):
    found = mz.solve(graph, "least", max_computations=most, time_limit=8, threads=1, seed=0, search="only")
    assert (found.budget, " ".join(found.sequence)) == (least, sequence)
    assert least == least_peak(graph, FIRST, min(most, 3))


def ranges_of(scope: str) -> tuple[str, int]:
    """The schedules that a scope is about; of any number of computations those with at most 4."""
    kinds = {"in any order": FREE, "with first computations in": FIRST, "in stages of the input order": STAGED}
    most = re.search(r"with at most (?:\d+ to )?(\d+) computations? per node|with any number of", scope)
    return next(kind for text, kind in kinds.items() if text in scope), int(most[1] or 4)


def test_a_least_budget_names_the_schedules_that_it_is_least_of():
    """In the input order with every node once it is 21; another order needs 12."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5)]
    graph = ComputationGraph([f"n{v}" for v in range(6)], [1] * 6, [1, 10, 10, 1, 1, 1], edges, order=range(6))
    texts = {
        "input": (21, "in stages of the input order with at most 1 computation per node"),
        "free": (12, "in any order with any number of computations"),
    }
    for order, (least, ranges) in texts.items():
        found = mz.solve(graph, "least", order=order, max_computations=1, time_limit=2, threads=1, if_none="stop")
        assert found.notes[0] == f"budget: {least}, the least that any schedule {ranges} needs"
        assert least_peak(graph, FREE if order == "free" else STAGED, 1) == least


@pytest.mark.parametrize("seed", few(few(range(3000), keep=300, mark=pytest.mark.slow), keep=8))
@pytest.mark.few(3)
def test_what_is_claimed_of_the_least_is_so(seed):
    graph, most, free = draw_any(seed), 1 + seed % 3, seed % 5 < 2
    instance = Instance.build(graph, "100%", order="free" if free else "input", max_computations=most)
    options = Options(threads=1, seed=seed, search="only", if_none="stop")
    found = least_schedules(instance, options, Deadline(0.5))
    least = least_peak(graph, FREE if free else FIRST, most)
    assert found.proven <= least <= simulate(graph, found.sequences[0]).peak
    kind, counts = ranges_of(found.scope)
    assert found.proven <= least_peak(graph, kind, counts) and ("run in place" in found.scope) == graph.runs_in_place
    for sequence in found.sequences:
        account = simulate(graph, sequence)
        assert account.feasible and max(Counter(sequence).values()) <= most


def test_the_least_budget_of_any_order_is_no_larger_than_that_of_one():
    graph = draw_case(9103, 6).graph
    found = mz.solve(graph, "least", order="free", max_computations=2, time_limit=3, threads=1, seed=0, search="only")
    assert found.valid and found.budget <= least_feasible(graph, 2)


@pytest.mark.parametrize("tile", few(["auto", 1], [1]))
@pytest.mark.full
def test_parts_need_less_than_layers(tile):
    found = mz.solve(IMAGES, "least", tile=tile, time_limit=8, threads=1, seed=0, search="only")
    assert found.valid and found.budget < WHOLE / 2 and found.graph.parts is not None
    assert found.notes[0].endswith(" by these parts") and found.notes[1].startswith("tiling: ")


@pytest.mark.full
def test_a_frontier_of_parts():
    found = mz.frontier(IMAGES, tile=2, points=3, time_limit=4, threads=1, seed=0, search="only")
    assert found.graph.parts is not None and found.least_peak < WHOLE
    assert all(point.duration is not None for point in found.points)
    with pytest.raises(mz.InputError, match="^tile auto is for searches in any order, within one budget: "):
        mz.frontier(IMAGES, tile="auto", points=2, time_limit=1)
