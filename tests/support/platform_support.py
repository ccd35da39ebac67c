"""A small platform of local and slow memory, and the plan that the judge's module draws."""

from __future__ import annotations

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.platform import Action, Link, Memory, Plan, Platform

LOCAL, SLOW = 0, 1
A, B, C, D = range(4)
DIAMOND = ComputationGraph(list("abcd"), [1, 2, 3, 4], [8, 4, 2, 1], [(A, B), (B, C), (A, D), (C, D)])


def platform(budget: int | None = 100, capacity: int | None = None) -> Platform:
    """The graph a -> b -> c -> d, a -> d; to write costs 10, 20, ..., to read back 100, 200."""
    local = Memory("local", budget, DIAMOND.durations, (5, 6, 7, 8))
    out = Link(LOCAL, SLOW, (10, 20, 30, 40), (1, 1, 1, 1))
    back = Link(SLOW, LOCAL, (100, 200, 300, 400), (2, 2, 2, 2))
    return Platform(DIAMOND, (local, Memory("slow", capacity)), (out, back))


def compute(node: int) -> Action:
    return Action(node, LOCAL)


def write(node: int) -> Action:
    return Action(node, SLOW, LOCAL)


def read(node: int) -> Action:
    return Action(node, LOCAL, SLOW)


PLAN: Plan = (compute(A), write(A), compute(B), compute(C), read(A), compute(D))
