"""Solvers in doubles prove nothing false of graphs with long durations."""

from __future__ import annotations

import double_proofs
import oracle
import pytest
from double_proofs import Question
from few import few
from linear_support import ENGINES

from moccasin_mzn.graphs.graph import ComputationGraph


def question(durations: list[int], sizes: list[int], edges: list[tuple[int, int]], budget: int) -> Question:
    """Nodes are numbered along the input order."""
    nodes = range(len(sizes))
    graph = ComputationGraph(nodes=nodes, durations=durations, sizes=sizes, edges=edges, order=nodes)
    return Question(0, graph, budget, oracle.best_fixed_order(graph, nodes, budget, None))


CALLED_INFEASIBLE = question(  # by HiGHS
    [5, 1, 1, 1, 3, 756968397, 59], [73, 40, 72, 98, 38, 69, 60],
    [(0, 1), (0, 6), (1, 2), (1, 5), (2, 3), (2, 4), (3, 4), (4, 5), (5, 6)], 298,
)  # fmt: skip
BOUNDED_TOO_HIGH = question(  # by SCIP
    [31, 3883079347, 21, 21, 726137067, 2872936081, 13, 29], [3, 7, 7, 8, 5, 6, 6, 8],
    [(0, 1), (0, 7), (1, 2), (1, 6), (2, 3), (2, 5), (3, 4), (4, 5), (5, 6), (6, 7)], 22,
)  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", double_proofs.CHECKMATE)
@pytest.mark.parametrize(
    ("asked", "least"), [(CALLED_INFEASIBLE, 756968468), (BOUNDED_TOO_HIGH, 11365231988)], ids=["first", "second"]
)
def test_earlier_false_claims_are_refuted(asked, least, name, engine, start):
    assert asked.least == least
    text, objective = double_proofs.flat(asked, name, start)
    ending, false = double_proofs.ask(engine, text, objective)
    assert not false and ending.startswith("optimal")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "seed", few([*range(6), 229, 278, *few(range(6, 200), keep=(), mark=pytest.mark.slow)], keep={0, 229, 278})
)  # the two that are named: SCIP bounds them too high, as their sizes differ in magnitude
def test_floating_point_proofs_are_true(seed):
    asked = double_proofs.draw(seed)
    for name in double_proofs.CHECKMATE:
        text, least = double_proofs.flat(asked, name, start=seed % 2 == 1)
        for engine in ENGINES:
            ending, false = double_proofs.ask(engine, text, least)
            assert not false, (name, engine, ending, false)


def test_sizes_that_kill_the_presolve_of_highs():
    sizes = [9872605, 9023725962, 893990129635, 816, 18, 654511816]
    asked = question([3, 5, 5, 7, 8, 8], sizes, [(0, 1), (0, 5), (1, 2), (1, 4), (2, 3), (3, 4), (4, 5)], 903018370949)
    text, least = double_proofs.flat(asked, "checkmate-milp")
    ending, false = double_proofs.ask("highs", text, least)
    assert not false and ending.startswith(("optimal", "infeasible"))
