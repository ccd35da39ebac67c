"""The judge of proofs that no schedule within a budget is shorter, in any order, however often nodes are computed.

It knows only the graph, counts in integers, and shares no code with what makes certificates.

**Cuts.** Let D be the nodes computed before v is computed for the first time. It is closed under inputs, holds the
ancestors of v, and neither v nor its descendants. For each node u let x be "in D", h "in D, resident when v is
computed", a "in D, not resident then, and computed again later". If u is in D, and a reader of u is not in D or is
computed again later, then h or a holds for u. With c = x - a and f = c - h these are cuts of a network::

    x>c   from x of u to c of u                 cut if u is computed again: any capacity
    c>f   from c of u to f of u                 cut if u is resident: a price times the size of u
    c>x, f>c, x>x                               never cut: c of u to x of u; f of u to c of u and to c of readers of u;
                                                x of u to x of inputs of u
    sources: x of the ancestors of v, c of the inputs of v;     sinks: x of v and of its descendants

If first computations are in a given order, D is known: sources are x of all before v, sinks x of v and of all after it.

**Flows.** A flow of F, p(u) of it on the arc x>c of u, is at most what is cut: a price times what is resident, which is
at most budget - size(v) - workspace(v), and p(u) of what is computed again. With r(u) = 1 if u is computed more than
once, else 0: sum of p(u) r(u) >= d = F - price (budget - size(v) - workspace(v)), rounded up. If d > 0, each p(u) may
be lowered to d, as one such r(u) = 1 satisfies the inequality alone.

**Cases.** A tree decides some r(u). In each leaf an inequality cannot be met, or multipliers y >= 0 of what is left of
the inequalities, so lowered, bound the duration w that recomputations add, by linear duality::

    sum of w(u) r(u)  >=  sum of y d  +  sum over u of the least of (w(u) - sum of y p(u)) r(u)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph

FORMAT, VERSION = "moccasin-certificate", 1
ANY_ORDER, IN_ORDER = "any order, any number of computations", "first computations in order, any number of computations"
INFEASIBLE = "infeasible"
"""In place of a bound: there is no schedule."""
MOST_BITS = 256
_KEYS = ("format", "version", "scope", "graph", "order", "budget", "schedule", "duration", "bound", "inequalities",
         "tree", "trusted")  # fmt: skip
Inequality = tuple[dict[int, int], int]
"""The p(u) that are there, and d."""


class CertificateError(ValueError):
    """What is wrong with a certificate and where, in one line."""


@dataclass(frozen=True)
class Trust:
    """A bound that the certificate takes from a solver, without a proof that could be checked. None: no schedule."""

    by: str
    scope: str
    bound: int | None


@dataclass(frozen=True)
class Proven:
    """What a certificate proves: no schedule is shorter than `bound`, or, with None, there is none."""

    scope: str
    budget: int
    duration: int | None
    """Of its schedule; None: it has none."""
    bound: int | None
    inequalities: int
    leaves: int
    trusted: tuple[Trust, ...]


def graph_digest(graph: ComputationGraph) -> str:
    """Of all that a certificate is about: ids, durations, sizes, workspaces, edges, in whatever order they come."""
    ids = [str(node) for node in graph.nodes]
    inputs = [sorted(ids[u] for u in inputs) for inputs in graph.predecessors]
    rows = sorted(zip(ids, graph.durations, graph.sizes, graph.workspace_of, inputs, strict=True))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def check_certificate(graph: ComputationGraph, document: Any) -> Proven:
    """What a certificate, as JSON gives it, proves of a graph; `CertificateError` if anything in it is not so."""
    _keys("the certificate", document, _KEYS)
    scope = ANY_ORDER if document["order"] is None else IN_ORDER
    for key, expected in (("format", FORMAT), ("version", VERSION), ("scope", scope), ("graph", graph_digest(graph))):
        if type(document[key]) is not type(expected) or document[key] != expected:
            another = " of another graph" * (key == "graph")
            raise CertificateError(f"{key} is {_shown(document[key])}{another}, expected {expected!r}")
    order = None if document["order"] is None else _nodes(graph, "order", document["order"])
    if order is not None and sorted(order) != list(range(len(graph.nodes))):
        raise CertificateError("order: it does not have every node once")
    budget, bound = _integer("budget", document["budget"]), document["bound"]
    claimed = None if bound == INFEASIBLE else _integer("bound", bound)
    duration = _schedule(graph, document, order, budget)
    entries = _list("inequalities", document["inequalities"])
    inequalities = [_inequality(graph, f"inequalities[{k}]", one, order, budget) for k, one in enumerate(entries)]
    leaves = _tree(graph, _list("tree", document["tree"]), inequalities, claimed)
    if duration is not None and (claimed is None or claimed > duration):
        raise CertificateError(f"bound is {bound}, but the schedule takes {duration}")
    trusted = tuple(
        _trust(f"trusted[{k}]", one, duration) for k, one in enumerate(_list("trusted", document["trusted"]))
    )
    return Proven(scope, budget, duration, claimed, len(inequalities), leaves, trusted)


def _schedule(graph: ComputationGraph, document: dict[str, Any], order: list[int] | None, budget: int) -> int | None:
    """The duration of the schedule, if there is one: from the definition of retention intervals."""
    if document["schedule"] is None and document["duration"] is None:
        return None
    sequence = _nodes(graph, "schedule", document["schedule"])
    latest: dict[int, int] = {}  # where each node was computed last
    last_read = list(range(len(sequence)))
    for t, v in enumerate(sequence):
        for u in graph.predecessors[v]:
            if u not in latest:
                raise CertificateError(f"schedule[{t}]: {graph.nodes[v]} reads {graph.nodes[u]}, not computed before")
            last_read[latest[u]] = t
        latest[v] = t
    for v, node in enumerate(graph.nodes):
        if v not in latest:
            raise CertificateError(f"schedule: {node} is never computed")
    if order is not None and list(dict.fromkeys(sequence)) != order:
        raise CertificateError("schedule: first computations are not in the order of the certificate")
    change = [0] * (len(sequence) + 1)
    for t, v in enumerate(sequence):
        change[t] += graph.sizes[v]
        change[last_read[t] + 1] -= graph.sizes[v]
    for t, (held, v) in enumerate(zip(accumulate(change), sequence, strict=False)):
        if held + graph.workspace_of[v] > budget:
            raise CertificateError(f"schedule[{t}]: memory {held + graph.workspace_of[v]} is over the budget {budget}")
    duration = sum(graph.durations[v] for v in sequence)
    if _integer("duration", document["duration"]) != duration:
        raise CertificateError(f"duration is {document['duration']}, but that of the schedule is {duration}")
    return duration


def _inequality(graph: ComputationGraph, where: str, entry: Any, order: list[int] | None, budget: int) -> Inequality:
    """What a flow proves, before rounding."""
    _keys(where, entry, ("node", "price", "flow"))
    v, price = _node(graph, f"{where}.node", entry["node"]), _list(f"{where}.price", entry["price"], 2)
    above, below = (_integer(f"{where}.price[{k}]", one, least=k) for k, one in enumerate(price))
    if order is None:
        before, after = _reached(graph.predecessors, v), _reached(graph.successors, v)
    else:
        before, after = set(order[: order.index(v)]), set(order[order.index(v) + 1 :])
    again, held = dict[int, int](), dict[int, int]()  # by node: the flow on its arcs x>c and c>f
    balance: dict[tuple[str, int], int] = {}  # by vertex of the network: what leaves it, less what enters it
    for k, arc in enumerate(_list(f"{where}.flow", entry["flow"])):
        at = f"{where}.flow[{k}]"
        kind, *ends, amount = _list(at, arc, 4)
        (tail, head), amount = (_node(graph, at, node) for node in ends), _integer(at, amount)
        if not _is_arc(graph, kind, tail, head):
            raise CertificateError(f"{at}: no arc {_shown(kind)} from {graph.nodes[tail]} to {graph.nodes[head]}")
        amounts = again if kind == "x>c" else held if kind == "c>f" else {}
        amounts[tail] = amounts.get(tail, 0) + amount
        if amounts is held and held[tail] * below > graph.sizes[tail] * above:
            raise CertificateError(f"{at}: {held[tail]} is over the capacity {graph.sizes[tail] * above // below}")
        for vertex, change in (((kind[0], tail), amount), ((kind[2], head), -amount)):
            balance[vertex] = balance.get(vertex, 0) + change
    total = 0
    for (letter, u), excess in balance.items():
        if (letter == "x" and u in before) or (letter == "c" and u in graph.predecessors[v]):
            total += excess
        elif excess and not (letter == "x" and (u == v or u in after)):
            raise CertificateError(f"{where}: what leaves {letter} of {graph.nodes[u]} less what enters it is {excess}")
    demand = total - (budget - graph.sizes[v] - graph.workspace_of[v]) * above // below
    if demand <= 0:
        raise CertificateError(f"{where}: a flow of {total} does not exceed what the budget allows")
    return again, demand


def _is_arc(graph: ComputationGraph, kind: str, tail: int, head: int) -> bool:
    if tail == head:
        return kind in ("x>c", "c>f", "c>x", "f>c")
    return (kind == "f>c" and head in graph.successors[tail]) or (kind == "x>x" and head in graph.predecessors[tail])


def _reached(near: tuple[tuple[int, ...], ...], v: int) -> set[int]:
    """All that is reached from v, without v."""
    found, waiting = set[int](), list(near[v])
    while waiting:
        u = waiting.pop()
        if u not in found:
            found.add(u)
            waiting += near[u]
    return found


def _tree(graph: ComputationGraph, items: list[Any], inequalities: list[Inequality], claimed: int | None) -> int:
    """The number of leaves of a tree, in which a branch is followed by what is below r = 0, then by that of r = 1."""
    waiting: list[dict[int, int]] = [{}]  # what is decided in each case that is still to come, the next one last
    for k, item in enumerate(items):
        where = f"tree[{k}]"
        if not waiting:
            raise CertificateError(f"{where}: all cases are covered before it")
        decided = waiting.pop()
        if type(item) is dict and "branch" in item:
            _keys(where, item, ("branch",))
            u = _node(graph, where, item["branch"])
            if u in decided:
                raise CertificateError(f"{where}: {graph.nodes[u]} is decided already")
            waiting += [{**decided, u: 1}, {**decided, u: 0}]
        elif type(item) is dict and "refuted" in item:
            _keys(where, item, ("refuted",))
            weights, demand = _remaining(where, item["refuted"], inequalities, decided)
            if demand <= sum(weights.values()):
                raise CertificateError(f"{where}: inequality {item['refuted']} can be met")
        else:
            proven = _leaf(graph, where, item, inequalities, decided)
            if claimed is None or proven < claimed:
                raise CertificateError(f"{where}: proves {proven}, not {INFEASIBLE if claimed is None else claimed}")
    if waiting:
        case = ", ".join(f"{graph.nodes[u]}={value}" for u, value in list(waiting[-1].items())[:5])
        raise CertificateError(f"tree: it ends before the case {case or 'of all schedules'}")
    return (len(items) + 1) // 2


def _leaf(graph: ComputationGraph, where: str, item: Any, known: list[Inequality], decided: dict[int, int]) -> int:
    """The least duration, by linear duality, of schedules that do what is decided."""
    _keys(where, item, ("multipliers", "denominator"))
    unit = _integer(f"{where}.denominator", item["denominator"], 1)
    value, priced = 0, dict[int, int]()
    for j, pair in enumerate(_list(f"{where}.multipliers", item["multipliers"])):
        at = f"{where}.multipliers[{j}]"
        index, factor = _list(at, pair, 2)
        weights, demand = _remaining(at, index, known, decided)
        value += _integer(at, factor) * max(0, demand)
        for u, weight in weights.items():
            priced[u] = priced.get(u, 0) + factor * max(0, min(weight, demand))
    for u, price in priced.items():
        value += min(0, unit * graph.durations[u] - price)
    value += sum(unit * graph.durations[u] for u, again in decided.items() if again)
    step = math.gcd(*graph.durations) or 1  # of all sums of durations
    return graph.total_duration - step * (-value // (unit * step))


def _remaining(where: str, index: Any, inequalities: list[Inequality], decided: dict[int, int]) -> Inequality:
    """An inequality in the r that are not decided."""
    if type(index) is not int or not 0 <= index < len(inequalities):
        raise CertificateError(f"{where}: there is no inequality {_shown(index)}")
    weights, demand = inequalities[index]
    left = {u: weight for u, weight in weights.items() if u not in decided}
    return left, demand - sum(weights.get(u, 0) for u, again in decided.items() if again)


def _trust(where: str, entry: Any, duration: int | None) -> Trust:
    _keys(where, entry, ("by", "scope", "bound"))
    for key in ("by", "scope"):
        if type(entry[key]) is not str or not entry[key].isprintable() or not entry[key]:
            raise CertificateError(f"{where}.{key} is {_shown(entry[key])}, expected a text of one line")
    bound = None if entry["bound"] == INFEASIBLE else _integer(f"{where}.bound", entry["bound"])
    if duration is not None and (bound is None or bound > duration):
        raise CertificateError(f"{where}.bound is {entry['bound']}, but the schedule takes {duration}")
    return Trust(entry["by"], entry["scope"], bound)


def _keys(where: str, value: Any, keys: Sequence[str]) -> None:
    """Check an object with exactly these keys."""
    if type(value) is not dict:
        raise CertificateError(f"{where} is {_shown(value)}, expected an object")
    for key in (*keys, *value):
        if key not in value or key not in keys:
            raise CertificateError(f"{where}: {'unknown key' if key in value else 'there is no key'} {_shown(key)}")


def _list(where: str, value: Any, length: int | None = None) -> list[Any]:
    if type(value) is not list or length not in (None, len(value)):
        raise CertificateError(f"{where} is {_shown(value)}, expected a list{f' of {length}' if length else ''}")
    return value


def _integer(where: str, value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << MOST_BITS:
        raise CertificateError(f"{where} is {_shown(value)}, expected an integer in {least}..2^{MOST_BITS}-1")
    return value


def _node(graph: ComputationGraph, where: str, node: Any) -> int:
    try:
        return graph.position_of(node)
    except ValueError:
        raise CertificateError(f"{where}: node {_shown(node)} is not in the graph") from None


def _nodes(graph: ComputationGraph, where: str, nodes: Any) -> list[int]:
    return [_node(graph, f"{where}[{k}]", node) for k, node in enumerate(_list(where, nodes))]


def _shown(value: Any) -> str:
    if type(value) in (list, dict) or (type(value) is int and value.bit_length() > MOST_BITS):
        return {list: "a list", dict: "an object", int: "a huge integer"}[type(value)]
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."
