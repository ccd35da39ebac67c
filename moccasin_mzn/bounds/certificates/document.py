"""A certificate, written: a schedule, and the cases, duals and flows that prove a bound on all schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from moccasin_mzn.bounds.certificates.cases import Case, Cases, in_order, proven
from moccasin_mzn.bounds.certificates.pool import Pool
from moccasin_mzn.bounds.flow_covers.cuts import FlowCut, Moments
from moccasin_mzn.bounds.flow_covers.network import MomentNetwork
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificates import (
    FORMAT,
    INFEASIBLE,
    SCOPE,
    VERSION,
    Trust,
    check_certificate,
    graph_digest,
)


def make_certificate(
    graph: ComputationGraph, budget: int, sequence: Sequence[int] | None, stop: Callable[[], bool],
    trusted: Iterable[Trust] = (),
) -> dict[str, Any]:  # fmt: skip
    """The document of what can be proven of a graph and a budget, as the judge has accepted it.

    Args:
        sequence: a schedule within the budget, positions in `graph.nodes`; None: none is known.
        stop: asked often; the bound is then what is proven so far.
        trusted: what solvers say; what is proven anyway, and what is below it, is left out.
    """
    duration = None if sequence is None else sum(graph.durations[v] for v in sequence)
    pool = Pool(Moments(MomentNetwork(graph)), budget)
    unit = pool.moments.unit
    top = Cases(pool, None if duration is None else (duration - graph.total_duration) // unit, stop).run()
    added = proven(top)
    bound = None if added is None else graph.total_duration + added * unit
    used, tree = _tree(pool.moments, top, added)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "scope": SCOPE,
        "graph": graph_digest(graph),
        "budget": budget,
        "schedule": None if sequence is None else [graph.nodes[v] for v in sequence],
        "duration": duration,
        "bound": INFEASIBLE if bound is None else bound,
        "inequalities": [_flow(pool.moments, pool.cuts[index]) for index in used],
        "tree": tree,
        "trusted": [
            {"by": one.by, "scope": one.scope, "bound": INFEASIBLE if one.bound is None else one.bound}
            for one in trusted
            if bound is not None and (one.bound is None or one.bound > bound)
        ],
    }
    check_certificate(graph, document)
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


def _tree(moments: Moments, top: Case, added: int | None) -> tuple[list[int], list[dict[str, Any]]]:
    """The inequalities that the cases use, by index, and the cases, in which they are numbered anew."""
    number: dict[int, int] = {}
    items: list[dict[str, Any]] = []
    for case in in_order(top) if added is None else in_order(top, added):
        if case.refuted is not None:
            items.append({"refuted": number.setdefault(case.refuted, len(number))})
        elif case.branch is None or (added is not None and case.bound >= added):
            factors = [[number.setdefault(k, len(number)), by * moments.unit] for k, by in case.multipliers.factors]
            items.append({"multipliers": factors, "denominator": 1 << case.multipliers.bits})
        else:
            items.append({"branch": moments.graph.nodes[case.branch]})
    return list(number), items


def _flow(moments: Moments, cut: FlowCut) -> dict[str, Any]:
    """The flow of an inequality again, with all its arcs."""
    graph, nodes, own = moments.graph, moments.graph.nodes, range(len(moments.graph.nodes))
    again, price = np.zeros(len(nodes), np.int64), cut.price
    for u, weight in cut.terms:
        again[u] = weight
    flow = moments.network.flow(cut.node, again, np.array([int(price * size // 1) for size in graph.sizes], np.int64))
    tails, heads = [u for u, _ in graph.edges], [w for _, w in graph.edges]
    arcs = (
        ("x>c", own, own, flow.again), ("c>f", own, own, flow.held), ("c>x", own, own, flow.dropped),
        ("f>c", own, own, flow.kept), ("f>c", tails, heads, flow.reads), ("x>x", heads, tails, flow.closes),
    )  # fmt: skip
    entries = [
        [kind, nodes[u], nodes[w], amount]
        for kind, ends, others, amounts in arcs
        for u, w, amount in zip(ends, others, amounts.tolist(), strict=True)
        if amount
    ]
    return {"node": nodes[cut.node], "price": [price.numerator, price.denominator], "flow": entries}
