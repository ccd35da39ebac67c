"""The judge of proofs that no schedule within a budget is shorter, in any order, however often nodes are computed.

It knows only the graph, counts in integers, and shares no code with what makes certificates. It takes for true what is
so of every schedule (`_RULES`); the rest is arithmetic.

**Sights.** At the first computation of a node, sight j, let for any node u before(j, u) be "u was computed before";
held(j, u) "u is in memory", as the sight itself and its inputs are; later(j, u) "before, not in memory, and recomputed
later". Ancestors of the sight are before it, it and its descendants are not; in a given order all that is known. If u
is before, and w, which reads u, is not, or is recomputed later, then w reads a copy of u that is retained or computed
later. Sums of this with nothing left but what is recomputed are flows from what is before to what is not, through
what is retained, which the budget limits.

**Blocks.** In an order, sights may cut schedules: block j is between the first computations of sights j - 1 and j.
What is before it for the first time is old there. For an old u let again(j, u) be "computed in block j", through(j, u)
"in memory from sight j - 1 to sight j". What is read in a block or is retained at its end was in memory at its
beginning, or is computed in it. Without blocks again(0, u) is "computed more than once".

**Cases.** An inequality is a sum of weights of variables that are so, or are not so, which is >= d. A tree decides
variables. Where d is left then, larger weights may be lowered to it, as one of them is enough. Multipliers y >= 0 at a
leaf bound w, the duration of what is recomputed, by linear duality: the sum of y d, and of the lesser of w - P and
-N for each variable with y times weights P of its being so and N of not. If that is > 0 with w = 0, there is no case.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph

FORMAT, VERSION = "moccasin-certificate", 2
ANY_ORDER, IN_ORDER = "any order, any number of computations", "first computations in order, any number of computations"
INFEASIBLE, MOST_BITS = "infeasible", 256  # in place of a bound: there is no schedule
_KEYS = ("format", "version", "scope", "graph", "order", "sights", "blocks", "budget", "schedule", "duration", "bound",
         "inequalities", "tree", "trusted")  # fmt: skip
_KINDS = "again", "before", "held", "later", "through"
_RULES = {
    # [name, j, u], or [name, j, u, w] for w that reads u: where it is so; how many are so (+) or not so (-) at sight or
    # block j (<: j - 1), or with what, of old nodes, u, its inputs and its workspace fit, or else the last is so
    "closes": ("seen reader", 1, "+before.u -before.w"),
    "leaves": ("seen reader", 2, "+held.u +later.u -before.u +before.w -later.w"),
    "comes": ("seen alone", 1, "-later.u"),  # or again in a later block
    "sight": ("seen alone is-sight", "held", ""),
    "reads": ("old reader new-reader", 1, "+again.u +held<.u"),
    "rereads": ("old reader old-reader", 1, "+again.u +held<.u -again.w"),
    "keeps": ("old alone seen", 1, "+again.u +held<.u -held.u"),
    "spans": ("old alone seen", 1, "+again.u +through.u -held<.u -held.u"),
    "during": ("old alone seen", "through", "-again.u"),
}
Json = Any  # a JSON value that has not been checked yet
Variable = tuple[str, int, int]  # kind, sight or block, node
Inequality = tuple[dict[tuple[Variable, bool], int], int]  # weights of what is so or is not so, and d


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
    duration: int | None  # of its schedule; None: it has none
    bound: int | None
    inequalities: int
    leaves: int
    trusted: tuple[Trust, ...]


def graph_digest(graph: ComputationGraph) -> str:
    """A digest of all that a bound is about, in any order: ids, durations, sizes, workspaces, edges, outputs."""
    ids = [str(node) for node in graph.nodes]
    inputs = [sorted(ids[u] for u in inputs) for inputs in graph.predecessors]
    first = [] if graph.output_of is None else [[of if of is None else ids[of] for of in graph.output_of]]
    rows = sorted(zip(ids, graph.durations, graph.sizes, graph.workspace_of, inputs, *first, strict=True))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def check_certificate(graph: ComputationGraph, document: Json) -> Proven:
    """Return what a certificate, a JSON value, proves of a graph; `CertificateError` if anything in it is not so."""
    _read("the certificate", document, dict.fromkeys(_KEYS))
    scope = ANY_ORDER if document["order"] is None else IN_ORDER
    for key, expected in (("format", FORMAT), ("version", VERSION), ("scope", scope), ("graph", graph_digest(graph))):
        text = f"{key} is {_shown(document[key])}{' of another graph' * (key == 'graph')}, expected {expected!r}"
        _require(type(document[key]) is type(expected) and document[key] == expected, text)
    order = None if document["order"] is None else _read("order", document["order"], [graph])
    _require(order is None or sorted(order) == [*range(len(graph.nodes))], "order: it does not have every node once")
    bound, given = document["bound"], [document["schedule"], document["duration"]] != [None, None]
    budget, claimed = _read("budget", document["budget"], 0), None if bound == INFEASIBLE else _read("bound", bound, 0)
    duration = _schedule(graph, document, order, budget) if given else None
    rules = _Rules(graph, budget, order, _read("sights", document["sights"], [graph]), document["blocks"])
    entries = _read("inequalities", document["inequalities"], [None])
    known = [rules.inequality(f"inequalities[{k}]", entry) for k, entry in enumerate(entries)]
    leaves = _tree(graph, _read("tree", document["tree"], [None]), known, claimed)
    trusted, bounds = _read("trusted", document["trusted"], [{"by": str, "scope": str, "bound": None}]), []
    for what, one in [("bound", bound), *((f"trusted[{k}].bound", one["bound"]) for k, one in enumerate(trusted))]:
        least = None if one == INFEASIBLE else _read(what, one, 0)
        less = duration is None or (least is not None and least <= duration)
        _require(less, f"{what} is {one}, but the schedule takes {duration}")
        bounds.append(least)
    trust = tuple(Trust(one["by"], one["scope"], least) for one, least in zip(trusted, bounds[1:], strict=True))
    return Proven(scope, budget, duration, claimed, len(known), leaves, trust)


def _schedule(graph: ComputationGraph, document: dict[str, Json], order: list[int] | None, budget: int) -> int:
    """The duration of the schedule, from the definition of retention intervals."""
    sequence, nodes = _read("schedule", document["schedule"], [graph]), graph.nodes
    latest, last_read = dict[int, int](), list(range(len(sequence)))  # where each was computed last, and where read
    for t, v in enumerate(sequence):
        _require(v not in latest or v not in graph.computed_once, f"schedule[{t}]: {nodes[v]} is computed once only")
        for u in graph.predecessors[v]:
            _require(u in latest, f"schedule[{t}]: {nodes[v]} reads {nodes[u]}, not computed before")
            last_read[latest[u]] = t
        latest[v] = t
    for t in graph.outputs_apart(sequence):
        _require(False, f"schedule[{t}]: {nodes[sequence[t]]} does not come directly after its first output")
    for v, node in enumerate(nodes):
        _require(v in latest, f"schedule: {node} is never computed")
    _require(order in (None, [*dict.fromkeys(sequence)]), "schedule: first computations are not in the given order")
    change = [graph.sizes[v] for v in sequence] + [0]
    for t, v in enumerate(sequence):
        change[last_read[t] + 1] -= graph.sizes[v]
    for t, (retained, v) in enumerate(zip(accumulate(change), sequence, strict=False)):
        memory = retained + graph.workspace_of[v]
        _require(memory <= budget, f"schedule[{t}]: memory {memory} is over the budget {budget}")
    duration, claimed = sum(graph.durations[v] for v in sequence), _read("duration", document["duration"], 0)
    _require(claimed == duration, f"duration is {claimed}, but that of the schedule is {duration}")
    return duration


class _Rules:
    """The inequalities that hold for every schedule."""

    def __init__(self, graph: ComputationGraph, budget: int, order: Json, sights: list[int], blocks: Json) -> None:
        self.graph, self.budget, self.sights, self.blocks = graph, budget, sights, blocks
        places = [order.index(v) for v in sights if order]
        along = type(blocks) is bool and (not blocks or (order is not None and places == sorted(set(places))))
        _require(along, f"blocks is {_shown(blocks)}, but the sights are not along an order")
        self.sides = [(_reached(graph.predecessors, v), _reached(graph.successors, v)) for v in sights if order is None]
        self.sides += [(set(order[:k]), set(order[k + 1 :])) for k in places]

    def inequality(self, where: str, entry: Json) -> Inequality:
        """Return an inequality by a rule; or by a sum of rules, divided and rounded up, in what is recomputed."""
        if type(entry) is list:
            return self._rule(where, entry)
        entry, demand = _read(where, entry, {"sum": [[None]], "divisor": 1}), 0
        by, total = entry["divisor"], dict[tuple[Variable, bool], int]()
        for k, (*rule, factor) in enumerate(term or [None] for term in entry["sum"]):
            weights, least = self._rule(f"{where}.sum[{k}]", rule)
            demand += _read(f"{where}.sum[{k}]", factor, 0) * least
            for one, weight in weights.items():
                total[one] = total.get(one, 0) + factor * weight
        for of in {of for of, _ in total}:  # it is so or not so; if it is not kept, it may be what is worth more
            pair = total.get((of, True), 0), total.get((of, False), 0)
            least = min(pair) if of[0] == "again" else max(pair)
            demand -= least
            total[of, True], total[of, False] = (max(0, weight - least) for weight in pair)
        return {one: -(-weight // by) for one, weight in total.items()}, -(-demand // by)

    def _rule(self, where: str, entry: list[Json]) -> Inequality:
        """A rule for a sight or block and nodes, in what is not known."""
        name, j, *ends = entry if len(entry) in (3, 4) and type(entry[0]) is str else ("", 0)
        j, (u, w) = _read(where, j, 0), (*_read(where, ends, [self.graph]), None, None)[:2]
        needs, least, text = _RULES.get(name, ("a name", 1, ""))
        seen, blocks = j < len(self.sights), range(1, len(self.sights) + 1) if self.blocks else range(1)
        old = {*self.sides[j - 1][0], self.sights[j - 1]} if j and j in blocks else set()
        holds = {
            "seen": seen, "is-sight": seen and u == self.sights[j], "old": u in old, "old-reader": w in old,
            "new-reader": w not in old and not (seen and w in self.sides[j][1]),
            "alone": w is None, "reader": u is not None and w in self.graph.successors[u],
        }  # fmt: skip
        _require(all(holds.get(need) for need in needs.split()), f"{where}: there is no such rule")
        terms = [word.partition(".") for word in text.split()]
        ones = [((one.strip("+-<"), j - ("<" in one), u if of == "u" else w), one[0] == "+") for one, _, of in terms]
        ones += [(("again", i, u), True) for i in blocks if name == "comes" and (i > j or not self.blocks)]
        if type(least) is int:
            return _left(dict.fromkeys(ones, 1), least, self._known)
        own, size = {u, *self.graph.predecessors[u]}, self.graph.sizes
        rest = {((least, j, v), False): size[v] for v in (old if "old" in needs else range(len(size))) if v not in own}
        demand = sum(rest.values()) + sum(size[v] for v in own) + self.graph.workspace_of[u] - self.budget
        return _left({**rest, **dict.fromkeys(ones, max(0, demand))}, demand, self._known)

    def _known(self, variable: Variable) -> bool | None:
        """Return the value of a variable at a sight, where it is the same in all schedules; None: it depends."""
        kind, j, u = variable
        if kind not in ("before", "held", "later"):
            return None
        v, (before, after) = self.sights[j], self.sides[j]
        at_hand = u == v or u in self.graph.predecessors[v]
        if (kind == "held" and at_hand) or (kind == "before" and u in before):
            return True
        return False if u == v or u in after or (kind == "later" and at_hand) else None


def _left(weights: dict[Json, int], demand: int, value: Callable[[Variable], bool | None]) -> Inequality:
    """Return what is left of an inequality where some variables have a value."""
    left = {(of, is_so): weight for (of, is_so), weight in weights.items() if value(of) is None}
    return left, demand - sum(weight for (of, is_so), weight in weights.items() if value(of) is is_so)


def _reached(near: tuple[tuple[int, ...], ...], v: int) -> set[int]:
    """All that is reached from v, without v."""
    found, new = set[int](), set(near[v])
    while new:
        found |= new
        new = {w for u in new for w in near[u]} - found
    return found


def _tree(graph: ComputationGraph, items: list[Json], known: list[Inequality], claimed: int | None) -> int:
    """The number of leaves of a tree, in which a branch is followed by what is below "not so", then by that of "so"."""
    waiting: list[dict[Variable, bool]] = [{}]  # what is decided in each case that is still to come, the next one last
    for k, item in enumerate(items):
        where = f"tree[{k}]"
        _require(bool(waiting), f"{where}: all cases are covered before it")
        decided = waiting.pop()
        if type(item) is dict and "branch" in item:
            kind, j, node = (*_read(where, item, {"branch": [None]})["branch"], None, None, None)[:3]
            _require(kind in _KINDS, f"{where}: {_shown(kind)} is none of {', '.join(_KINDS)}")
            variable = kind, _read(where, j, 0), _read(where, node, graph)
            _require(variable not in decided, f"{where}: {kind} {j} {node} is decided already")
            waiting += [{**decided, variable: True}, {**decided, variable: False}]
            continue
        proven, goal = _leaf(graph, where, item, known, decided), INFEASIBLE if claimed is None else claimed
        _require(proven is None or (claimed is not None and proven >= claimed), f"{where}: proves {proven}, not {goal}")
    for decided in waiting[-1:]:
        case = ", ".join(f"{kind} {j} {graph.nodes[u]}={+so}" for (kind, j, u), so in list(decided.items())[:5])
        raise CertificateError(f"tree: it ends before the case {case or 'of all schedules'}")
    return (len(items) + 1) // 2


def _leaf(graph: ComputationGraph, where: str, item: Json, known: list[Inequality], decided: dict[Json, bool]) -> Json:
    """The least duration, by linear duality, of schedules that do what is decided; None: there are none."""
    item, value = _read(where, item, {"multipliers": [[0]], "denominator": 0}), 0
    unit, priced = item["denominator"], dict[tuple[Variable, bool], int]()
    for j, pair in enumerate(item["multipliers"]):
        is_known = len(pair) == 2 and pair[0] < len(known)
        _require(is_known, f"{where}.multipliers[{j}]: there is no inequality {(*pair, '')[0]}")
        weights, demand = _left(known[pair[0]][0], known[pair[0]][1], decided.get)
        value += pair[1] * max(0, demand)
        for one, weight in weights.items():
            priced[one] = priced.get(one, 0) + pair[1] * max(0, min(weight, demand))
    cost = {of: unit * graph.durations[of[2]] * (of[0] == "again") for of in [*decided, *(of for of, _ in priced)]}
    value += sum(min(cost[of] - priced.get((of, True), 0), -priced.get((of, False), 0)) for of in cost)
    if unit == 0:
        return None if value > 0 else graph.total_duration
    value += sum(cost[of] for of, is_so in decided.items() if is_so)
    step = math.gcd(*graph.durations) or 1  # of all sums of durations
    return graph.total_duration - step * (-value // (unit * step))


def _require(is_so: bool, text: str) -> None:
    if not is_so:
        raise CertificateError(text)


def _read(where: str, value: Json, form: Json) -> Json:
    """A value of a form: an integer for one that is no less, a graph for its nodes, which become positions, str for a
    line of text, [form] for a list, forms by key for an object, None for anything."""
    expected: Json = {list: "a list", dict: "an object", type: "a text of one line"}.get(type(form))
    if type(form) is list and type(value) is list:
        return [_read(f"{where}[{k}]", one, form[0]) for k, one in enumerate(value)]
    if type(form) is dict and type(value) is dict:
        for key in (*form, *value):
            wrong = "unknown key" if key in value else "there is no key"
            _require(key in value and key in form, f"{where}: {wrong} {_shown(key)}")
        return {key: _read(f"{where}.{key}", value[key], one) for key, one in form.items()}
    elif type(form) is int:
        fits = type(value) is int and form <= value < 1 << MOST_BITS
        _require(fits, f"{where} is {_shown(value)}, expected an integer in {form}..2^{MOST_BITS}-1")
    elif isinstance(form, ComputationGraph):
        try:
            return form.position_of(value)
        except ValueError:
            raise CertificateError(f"{where}: node {_shown(value)} is not in the graph") from None
    elif form is not None and not (form is str and type(value) is str and value.isprintable() and value):
        raise CertificateError(f"{where} is {_shown(value)}, expected {expected}")
    return value


def _shown(value: Json) -> str:
    if type(value) in (list, dict) or (type(value) is int and value.bit_length() > MOST_BITS):
        return {list: "a list", dict: "an object", int: "a huge integer"}[type(value)]
    return text if len(text := json.dumps(value)) <= 60 else f"{text[:56]} ..."
