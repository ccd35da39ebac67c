"""Other orders of the backward pass, in which gradients are computed earlier or later than in the trace. ::

    trace     A2  A1  A0  cut  dA2  dW2  dA1  dW1  dA0  dW0      dW2 and dW1 are in memory while dW0 is computed,
    moved     A2  A1  A0  cut  dA2  dA1  dW1  dA0  dW0  dW2      dA2 instead of dW2, where that is smaller

Any computation without an effect may be moved within the backward pass: of what it reads each version stays as it is.
What has an effect, all of the forward pass, and what several gradients are added to keep the order of the trace.

Orders are sought in which each node is computed once: with outputs of the forward pass at their sizes, for budgets that
ask for little recomputation, and with sizes of 0, as if they were always recomputed, for small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import ORDERS, can_keep, join
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order
from moccasin_mzn.problem.construction import judged
from moccasin_mzn.pytorch.problem import Cut, StepProblem

MOVED = "moved gradients"
"""Name of what makes orders here."""
_TURNS = 20
"""Turns of the methods that search for an order."""
_MOST_NODES = 5000
"""Larger graphs keep the order of the trace: a search takes too long."""


def moved(
    problem: StepProblem, stop: Callable[[], bool], remaining: Callable[[], float], recomputed: bool = True
) -> Iterator[StepProblem]:
    """The problem with its backward pass in other orders.

    Args:
        stop: ends it by returning true.
        remaining: the seconds that are left.
        recomputed: that for small budgets as well, which is the first.
    """
    graph, seen = problem.graph, {problem.graph.input_order()}
    if not any(problem.movable) or len(graph.nodes) > _MOST_NODES:
        return

    def over() -> bool:
        return stop() or remaining() <= 0

    if can_keep() and not join(over, remaining, ORDERS):
        return
    for weightless in (True, False) if recomputed else (False,):
        if over():
            return
        order = _order(problem, weightless, over)
        judged(graph, order, MOVED)
        if order not in seen:
            seen.add(order)
            yield replace(problem, graph=replace(graph, order=order), reordered=True)


def _order(problem: StepProblem, weightless: bool, stop: Callable[[], bool]) -> tuple[int, ...]:
    """An order of small peak, outputs of the forward pass without size or with it."""
    count = len(problem.graph.nodes)
    found = least_peak_order(_constrained(problem, weightless), turns=_TURNS, stop=stop)
    return tuple(v for v in found.order if v < count)


def _constrained(problem: StepProblem, weightless: bool) -> ComputationGraph:
    """The graph with a further node between any two neighbours of those that keep their order, which takes nothing; the
    backward pass is behind the cut."""
    graph, sizes = problem.graph, list(problem.graph.sizes)
    workspaces, edges, order = list(graph.workspace_of), list(graph.edges), list[int]()
    if weightless:
        sizes, workspaces = ([x * problem.is_backward(v) for v, x in enumerate(row)] for row in (sizes, workspaces))
    firm = [v for v in graph.input_order() if not problem.movable[v]]
    cut = next(v for v in firm if isinstance(problem.meanings[v], Cut))
    after = dict(pairwise(firm))
    begins = [
        v
        for v in graph.input_order()
        if problem.movable[v] and not any(problem.is_backward(u) for u in graph.predecessors[v])
    ]
    for v in graph.input_order():
        order.append(v)
        followers = [after[v]] if v in after else []
        for follower in (*followers, *(begins if v == cut else ())):
            edges += [(v, len(sizes)), (len(sizes), follower)]
            order.append(len(sizes))
            sizes.append(0)
            workspaces.append(0)
    return ComputationGraph(range(len(sizes)), [1] * len(sizes), sizes, edges, order, workspaces=workspaces)
