"""A certificate, written: a schedule, and the cases, duals and flows that prove a bound on all schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from moccasin_mzn.bounds.certificates.cases import Case, Cases, in_order, proven
from moccasin_mzn.bounds.certificates.covers import Cover, Covers
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
    covers = Covers(graph, budget)
    top = Cases(covers, None if duration is None else duration - graph.total_duration, stop).run()
    added = proven(top)
    bound = None if added is None else graph.total_duration + added
    used, tree = _tree(graph, top, added)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "scope": SCOPE,
        "graph": graph_digest(graph),
        "budget": budget,
        "schedule": None if sequence is None else [graph.nodes[v] for v in sequence],
        "duration": duration,
        "bound": INFEASIBLE if bound is None else bound,
        "inequalities": [_flow(graph, covers.known[index]) for index in used],
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


def _tree(graph: ComputationGraph, top: Case, added: int | None) -> tuple[list[int], list[dict[str, Any]]]:
    """The inequalities that the cases use, by index, and the cases, in which they are numbered anew."""
    number: dict[int, int] = {}
    items: list[dict[str, Any]] = []
    for case in in_order(top) if added is None else in_order(top, added):
        if case.refuted is not None:
            items.append({"refuted": number.setdefault(case.refuted, len(number))})
        elif case.branch is None or (added is not None and case.bound >= added):
            factors = [[number.setdefault(k, len(number)), by] for k, by in case.multipliers.factors]
            items.append({"multipliers": factors, "denominator": 1 << case.multipliers.bits})
        else:
            items.append({"branch": graph.nodes[case.branch]})
    return list(number), items


def _flow(graph: ComputationGraph, cover: Cover) -> dict[str, Any]:
    nodes, flow, own = graph.nodes, cover.flow, range(len(graph.nodes))
    tails, heads = [u for u, _ in graph.edges], [w for _, w in graph.edges]
    arcs = (
        ("x>c", own, own, flow.again), ("c>f", own, own, flow.held), ("c>x", own, own, flow.dropped),
        ("f>c", own, own, flow.kept), ("f>c", tails, heads, flow.reads), ("x>x", heads, tails, flow.closes),
    )  # fmt: skip

    def entries() -> Iterator[list[Any]]:
        for kind, ends, others, amounts in arcs:
            for u, w, amount in zip(ends, others, amounts.tolist(), strict=True):
                if amount:
                    yield [kind, nodes[u], nodes[w], amount]

    return {"node": nodes[flow.node], "flow": list(entries())}
