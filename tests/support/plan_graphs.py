"""Small problems whose plans are known by heart."""

from __future__ import annotations

from fractions import Fraction

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action

QUARTER = Fraction(1, 4)
"""Time of writing and of reading back, per unit of size; that of an output is rounded up."""


WRITTEN = (*map(Action, (0, 1)), Action(0, 1, 0), *map(Action, (2, 3, 4)), Action(0, 0, 1), Action(5))
"""The best plan of `u_graph` within 6: the first output is written out and read back."""


def u_graph(size: int = 2, half: int = 3) -> ComputationGraph:
    """A chain whose second half reads the first half backwards; every node takes 7.

    With 6 nodes the input order needs 4 outputs at a time, and no schedule less than 3. In between, one output has to
    be computed again, which takes 7, or written out and read back.
    """
    n = 2 * half
    edges = [(v, v + 1) for v in range(n - 1)] + [(v, n - 1 - v) for v in range(half - 1)]
    return ComputationGraph([f"n{v}" for v in range(n)], [7] * n, [size] * n, edges, name="U")


def crossed_graph() -> ComputationGraph:
    """Two pairs of a large and a small output, in an order that computes both large ones first.

    The input order needs 22. To take one pair after the other needs 14, and nothing is computed twice.
    """
    edges = [(0, 2), (1, 3), (2, 4), (3, 4)]
    return ComputationGraph(["A", "B", "a", "b", "z"], [5, 5, 1, 1, 1], [10, 10, 2, 2, 1], edges, order=range(5))


def paging_problem(graph: ComputationGraph, budget: int, capacity: int | None = None, **build) -> PlanProblem:
    instance = Instance.build(graph, budget, **build)
    return PlanProblem(instance, paging_platform(graph, budget, PagingCosts(QUARTER, QUARTER), capacity))
