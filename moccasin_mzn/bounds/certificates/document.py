"""A certificate, written: a schedule, and the cases, duals and flows that prove a bound on all schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from moccasin_mzn.bounds.certificates.cases import NEVER, Case, Cases, in_order, proven
from moccasin_mzn.bounds.certificates.pool import Cover, Pool
from moccasin_mzn.bounds.flow_covers.cuts import Moments
from moccasin_mzn.bounds.flow_covers.network import MomentNetwork
from moccasin_mzn.errors import JudgeError
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificates import (
    ANY_ORDER,
    FORMAT,
    IN_ORDER,
    INFEASIBLE,
    VERSION,
    CertificateError,
    Trust,
    check_certificate,
    graph_digest,
)


class OrderedNetwork(MomentNetwork):
    """The network where the order of first computations is given: what is before and after each is known."""

    def __init__(self, graph: ComputationGraph, order: Sequence[int]) -> None:
        super().__init__(graph)
        self._place = np.empty(len(order), np.int64)
        self._place[list(order)] = np.arange(len(order))

    def reach(self, node: int) -> tuple[Array, Array]:
        """bool[n] each: nodes before and after this one."""
        return self._place < self._place[node], self._place > self._place[node]


@dataclass(frozen=True)
class Proof:
    """What is proven of a graph and a budget."""

    pool: Pool
    top: Case
    order: Sequence[int] | None
    """Of first computations, in the schedules that it ranges over; None: all schedules."""
    bound: int | None
    """No such schedule is shorter; None: there is none."""


def prove(
    graph: ComputationGraph, budget: int, duration: int | None, stop: Callable[[], bool],
    order: Sequence[int] | None = None,
) -> Proof:  # fmt: skip
    """The best bound by cases.

    Args:
        duration: of a schedule; a bound that meets it is enough.
        stop: asked often; the bound is then what is proven so far.
        order: of first computations; None: any.
    """
    moments = Moments(MomentNetwork(graph) if order is None else OrderedNetwork(graph, order))
    pool, least = Pool(moments, budget), graph.total_duration
    top = Cases(pool, None if duration is None else (duration - least) // moments.unit, stop).run()
    added = proven(top)
    return Proof(pool, top, order, None if added is None else least + added * moments.unit)


def certificate(proof: Proof, sequence: Sequence[int] | None, trusted: Iterable[Trust] = ()) -> dict[str, Any]:
    """The document of a proof, as the judge has accepted it.

    Args:
        sequence: a schedule within the budget, positions in `graph.nodes`; None: none is known.
        trusted: what solvers say; no more of it is left than what is not proven.

    Raises:
        JudgeError: the judge refuses it.
    """
    graph, order, bound = proof.pool.graph, proof.order, proof.bound
    used, tree = _tree(proof)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "scope": ANY_ORDER if order is None else IN_ORDER,
        "graph": graph_digest(graph),
        "order": None if order is None else [graph.nodes[v] for v in order],
        "budget": proof.pool.budget,
        "schedule": None if sequence is None else [graph.nodes[v] for v in sequence],
        "duration": None if sequence is None else sum(graph.durations[v] for v in sequence),
        "bound": INFEASIBLE if bound is None else bound,
        "inequalities": [_flow(graph, proof.pool.covers[index]) for index in used],
        "tree": tree,
        "trusted": [
            {"by": one.by, "scope": one.scope, "bound": INFEASIBLE if one.bound is None else one.bound}
            for one in trusted
            if bound is not None and (one.bound is None or one.bound > bound)
        ],
    }
    try:
        check_certificate(graph, document)
    except CertificateError as error:
        raise JudgeError(f"the certificate is wrong: {error}") from None
    return document


def certificate_text(document: dict[str, Any]) -> str:
    """As it stands in a file: a line for each inequality and each case."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value, separators=(",", ":"))
        if key in ("inequalities", "tree") and value:
            text = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in value) + "\n]"
        lines.append(f"{json.dumps(key)}: {text}")
    return "{" + ",\n".join(lines) + "}\n"


def _tree(proof: Proof) -> tuple[list[int], list[dict[str, Any]]]:
    """The inequalities that the cases use, by index, and the cases, in which they are numbered anew."""
    graph, unit = proof.pool.graph, proof.pool.moments.unit
    enough = NEVER if proof.bound is None else (proof.bound - graph.total_duration) // unit
    number: dict[int, int] = {}
    items: list[dict[str, Any]] = []
    for case in in_order(proof.top, enough):
        if case.refuted is not None:
            items.append({"refuted": number.setdefault(case.refuted, len(number))})
        elif case.branch is None or case.bound >= enough:
            factors = [[number.setdefault(k, len(number)), by * unit] for k, by in case.multipliers.factors]
            items.append({"multipliers": factors, "denominator": 1 << case.multipliers.bits})
        else:
            items.append({"branch": graph.nodes[case.branch]})
    return list(number), items


def _flow(graph: ComputationGraph, cover: Cover) -> dict[str, Any]:
    """The flow of an inequality, arc by arc."""
    nodes, own = graph.nodes, [(u, u) for u in range(len(graph.nodes))]
    reverse = [(w, u) for u, w in graph.edges]
    ends = {"again": ("x>c", own), "held": ("c>f", own), "dropped": ("c>x", own), "kept": ("f>c", own),
            "reads": ("f>c", graph.edges), "closes": ("x>x", reverse)}  # fmt: skip
    entries = []
    for name, (kind, arcs) in ends.items():
        at, amounts = cover.arcs[name]
        pairs = [arcs[k] for k in at.tolist()]
        entries += [[kind, nodes[u], nodes[w], n] for (u, w), n in zip(pairs, amounts.tolist(), strict=True)]
    return {"node": nodes[cover.node], "price": [cover.price.numerator, cover.price.denominator], "flow": entries}
