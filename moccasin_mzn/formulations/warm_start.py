"""Schedules to start a search from: only what the formulation has as a solution is of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations.formulation import Formulation
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.pruning import without_tail
from moccasin_mzn.words import count_text


def check_warm_start(instance: Instance, formulation: Formulation, sequence: Sequence[int]) -> None:
    """Check that a sequence is a schedule within the budget, and a solution of the formulation, but for computations at
    its end that are of no use.

    Raises:
        InputError: it is not; the message names the position and the node.
    """
    violations = judge(instance.graph, sequence, instance.budget).violations
    if violations:
        raise InputError(f"warm start: {violations[0].message}")
    graph = instance.graph
    if formulation.limited:
        for v, count in Counter(sequence).items():
            if count > instance.max_computations[v]:
                most = instance.max_computations[v]
                times = count_text(count, "time")
                raise InputError(f"warm start: node {node_text(graph, v)} is computed {times}, at most {most} allowed")
    position = first_out_of_stage(instance.order, without_tail(sequence)) if formulation.staged else None
    if position is not None:
        node = node_text(graph, sequence[position - 1])
        raise InputError(f"warm start: position {position}: node {node} is out of place in stages of the input order")


def first_out_of_stage(order: Sequence[int], sequence: Sequence[int]) -> int | None:
    """The first position, from 1, at which a sequence leaves the stages of an order (paper, 2.3); None: it never does.

    A stage is any of the nodes before, each once and in the order, and then its own node for the first time. After the
    last stage there is nothing.
    """
    number = {v: k for k, v in enumerate(order)}
    stage, latest = 0, -1
    for position, v in enumerate(sequence, start=1):
        if stage == len(order) or not latest < number[v] <= stage:
            return position
        latest = number[v]
        if number[v] == stage:
            stage, latest = stage + 1, -1
    return None
