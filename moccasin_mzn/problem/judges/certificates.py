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

"leaves" takes for granted that what is in memory again is computed, "waits" does not, see `certified_memories`.

**In place** a computation that may overwrite an input takes less by no more than its own size: rules take that off.
What it is about may be made of the graph in the file, see `certified_graphs`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import CertificateError, Json, read, require, shown
from moccasin_mzn.problem.judges.certified_graphs import CHANGES, certified_graph
from moccasin_mzn.problem.judges.certified_plans import certified_plans
from moccasin_mzn.problem.judges.certified_schedules import schedule_duration

FORMAT, VERSION = "moccasin-certificate", 2
ANY_ORDER, IN_ORDER = "any order, any number of computations", "first computations in order, any number of computations"
INFEASIBLE = "infeasible"  # in place of a bound: there is no schedule
_KEYS = ("format", "version", "scope", "graph", "order", "sights", "blocks", "budget", "schedule", "duration", "bound",
         "inequalities", "tree", "trusted")  # fmt: skip
ABOUT, MEMORIES = "about", "memories"  # further keys: about another graph than that in the file; about plans
_KINDS = "again", "before", "held", "later", "through"
_RULES = {
    # [name, j, u], or [name, j, u, w] for w that reads u: where it is so; how many are so (+) or not so (-) at sight or
    # block j (<: j - 1), or with what, of old nodes, u, its inputs and its workspace fit, or else the last is so
    "closes": ("seen reader", 1, "+before.u -before.w"),
    "waits": ("seen reader", 1, "+held.u +later.u -before.u +before.w"),
    "leaves": ("seen reader", 2, "+held.u +later.u -before.u +before.w -later.w"),
    "lies": ("seen alone at-hand whole", 1, "+held.u"),  # or again
    "comes": ("seen alone", 1, "-later.u"),  # or again in a later block
    "sight": ("seen alone is-sight", "held", ""),
    "reads": ("old reader new-reader", 1, "+again.u +held<.u"),
    "rereads": ("old reader old-reader", 1, "+again.u +held<.u -again.w"),
    "keeps": ("old alone seen", 1, "+again.u +held<.u -held.u"),
    "spans": ("old alone seen", 1, "+again.u +through.u -held<.u -held.u"),
    "during": ("old alone seen", "through", "-again.u"),
}
_OF_COMPUTED = "leaves", "rereads", "during"  # they hold if what is in memory again was computed, not copied
Variable = tuple[str, int, int]  # kind, sight or block, node
Inequality = tuple[dict[tuple[Variable, bool], int], int]  # weights of what is so or is not so, and d


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
    once: int  # what every node once takes
    about: str = ""  # how the graph was made of that in the file, and what it runs on; empty: it is that
    goal: str = "duration"  # of plans of several memories what it bounds, else their duration
    of_plans: bool = False  # True: no plan of several memories has less


def graph_digest(graph: ComputationGraph) -> str:
    """A digest of all that a bound is about, in any order: ids, durations, sizes, workspaces, edges, outputs."""
    ids = [str(node) for node in graph.nodes]
    inputs = [sorted(ids[u] for u in inputs) for inputs in graph.predecessors]
    first = [] if graph.output_of is None else [[of if of is None else ids[of] for of in graph.output_of]]
    rows = sorted(zip(ids, graph.durations, graph.sizes, graph.workspace_of, inputs, *first, strict=True))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def made_digest(graph: ComputationGraph) -> str:
    """A digest of a graph that a certificate is about, with what it overwrites in place."""
    rows = graph.overwritable or ()
    overwrites = sorted((str(graph.nodes[v]), sorted(str(graph.nodes[u]) for u in row)) for v, row in enumerate(rows))
    return hashlib.sha256(json.dumps([graph_digest(graph), overwrites]).encode()).hexdigest()


def check_certificate(graph: ComputationGraph, document: Json) -> Proven:
    """Return what a certificate, a JSON value, proves of a graph; `CertificateError` if anything in it is not so."""
    more = [key for key in (ABOUT, MEMORIES) if type(document) is dict and key in document]
    read("the certificate", document, dict.fromkeys([*_KEYS, *more]))
    scope = ANY_ORDER if document["order"] is None else IN_ORDER
    for key, value in (("format", FORMAT), ("version", VERSION), ("scope", scope)):
        _same(key, document[key], value)
    graph, about = _about(graph, document) if ABOUT in more else (_in_file(graph, document), "")
    order = None if document["order"] is None else read("order", document["order"], [graph])
    require(order is None or sorted(order) == [*range(len(graph.nodes))], "order: it does not have every node once")
    bound, given = document["bound"], [document["schedule"], document["duration"]] != [None, None]
    budget, claimed = read("budget", document["budget"], 0), None if bound == INFEASIBLE else read("bound", bound, 0)
    duration = schedule_duration(graph, document, order, budget) if given and MEMORIES not in more else None
    rules = _Rules(graph, budget, order, read("sights", document["sights"], [graph]), document["blocks"])
    once, goal = graph.total_duration, "duration"
    if MEMORIES in more:
        one, duration = certified_plans(graph, document[MEMORIES], order, rules.blocks)
        _same("schedule", document["schedule"], None)
        _same("duration", document["duration"], duration)
        require(budget == one.budget, f"budget is {budget}, but that of the memories is {one.budget}")
        graph, once, goal, about = one.graph, one.once, one.goal, ", ".join(filter(None, (about, one.text)))
        rules.graph, rules.is_computed, rules.at_hand = graph, one.is_computed, one.at_hand
    entries = read("inequalities", document["inequalities"], [None])
    known = [rules.inequality(f"inequalities[{k}]", entry) for k, entry in enumerate(entries)]
    leaves = _tree(graph, read("tree", document["tree"], [None]), known, claimed, once)
    trusted, bounds = read("trusted", document["trusted"], [{"by": str, "scope": str, "bound": None}]), []
    for what, one in [("bound", bound), *((f"trusted[{k}].bound", one["bound"]) for k, one in enumerate(trusted))]:
        least = None if one == INFEASIBLE else read(what, one, 0)
        less = duration is None or (least is not None and least <= duration)
        require(less, f"{what} is {one}, but the schedule takes {duration}")
        bounds.append(least)
    trust = tuple(Trust(one["by"], one["scope"], least) for one, least in zip(trusted, bounds[1:], strict=True))
    return Proven(scope, budget, duration, claimed, len(known), leaves, trust, once, about, goal, MEMORIES in more)


def _same(key: str, given: Json, value: Json) -> None:
    text = f"{key} is {shown(given)}{' of another graph' * key.endswith('graph')}, expected {value!r}"
    require(type(given) is type(value) and given == value, text)


def _in_file(graph: ComputationGraph, document: dict[str, Json]) -> ComputationGraph:
    _same("graph", document["graph"], graph_digest(graph))
    return graph.run_in_place(False)


def _about(graph: ComputationGraph, document: dict[str, Json]) -> tuple[ComputationGraph, str]:
    """The graph that it is about, and how it is made of that in the file, with the digest "graph"; but in the file may
    be what was made already, as `solve --tiled` and `zero-copy` write it."""
    changes = read(ABOUT, document[ABOUT], CHANGES)
    require(changes["cut"] is None or type(changes["cut"]) is list, f"{ABOUT}.cut is no list, and not null")
    there = graph.run_in_place(changes["in_place"])
    if made_digest(there) == changes["graph"] and (changes["taken_out"] or changes["cut"] is not None):
        read("graph", document["graph"], str)
        return there, "in place" * changes["in_place"]
    made = certified_graph(_in_file(graph, document), changes)
    _same(f"{ABOUT}.graph", changes["graph"], made_digest(made.graph))
    any_parts = ", so in any larger parts along the same axes too" * (made.is_single and document["order"] is None)
    return made.graph, made.text + any_parts


class _Rules:
    """The inequalities that hold for every schedule."""

    def __init__(self, graph: ComputationGraph, budget: int, order: Json, sights: list[int], blocks: Json) -> None:
        self.graph, self.budget, self.sights, self.blocks = graph, budget, sights, blocks
        self.is_computed = self.at_hand = True  # what is in memory again; is in memory what a computation needs?
        places = [order.index(v) for v in sights if order]
        along = type(blocks) is bool and (not blocks or (order is not None and places == sorted(set(places))))
        require(along, f"blocks is {shown(blocks)}, but the sights are not along an order")
        self.sides = [(_reached(graph.predecessors, v), _reached(graph.successors, v)) for v in sights if order is None]
        self.sides += [(set(order[:k]), set(order[k + 1 :])) for k in places]

    def inequality(self, where: str, entry: Json) -> Inequality:
        """Return an inequality by a rule; or by a sum of rules, divided and rounded up, in what is recomputed."""
        if type(entry) is list:
            return self._rule(where, entry)
        entry, demand = read(where, entry, {"sum": [[None]], "divisor": 1}), 0
        by, total = entry["divisor"], dict[tuple[Variable, bool], int]()
        for k, (*rule, factor) in enumerate(term or [None] for term in entry["sum"]):
            weights, least = self._rule(f"{where}.sum[{k}]", rule)
            demand += read(f"{where}.sum[{k}]", factor, 0) * least
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
        j, (u, w) = read(where, j, 0), (*read(where, ends, [self.graph]), None, None)[:2]
        needs, least, text = _RULES.get(name, ("a name", 1, ""))
        seen, blocks = j < len(self.sights), range(1, len(self.sights) + 1) if self.blocks else range(1)
        old = {*self.sides[j - 1][0], self.sights[j - 1]} if j and j in blocks else set()
        holds = {
            "seen": seen, "is-sight": seen and u == self.sights[j], "old": u in old, "old-reader": w in old,
            "new-reader": w not in old and not (seen and w in self.sides[j][1]),
            "whole": not self.blocks, "at-hand": seen and u in (v := self.sights[j], *self.graph.predecessors[v]),
            "alone": w is None, "reader": u is not None and w in self.graph.successors[u],
        }  # fmt: skip
        there_is = all(holds.get(need) for need in needs.split()) and (self.is_computed or name not in _OF_COMPUTED)
        require(there_is, f"{where}: there is no such rule")
        terms = [word.partition(".") for word in text.split()]
        ones = [((one.strip("+-<"), j - ("<" in one), u if of == "u" else w), one[0] == "+") for one, _, of in terms]
        ones += [(("again", i, u), True) for i in blocks if name == "comes" and (i > j or not self.blocks)]
        ones += [(("again", 0, u), True)] * (name == "lies")
        if type(least) is int:
            return _left(dict.fromkeys(ones, 1), least, self._known)
        own, size = {u, *self.graph.predecessors[u]} if self.at_hand else set(), self.graph.sizes
        rest = {((least, j, v), False): size[v] for v in (old if "old" in needs else range(len(size))) if v not in own}
        spared = size[u] if (self.graph.overwritable or {u: ()})[u] else 0
        demand = sum(rest.values()) + sum(size[v] for v in own) + self.graph.workspace_of[u] - spared - self.budget
        if not self.at_hand:
            rest[(least, j, u), False] += self.graph.workspace_of[u] - spared
        return _left({**rest, **dict.fromkeys(ones, max(0, demand))}, demand, self._known)

    def _known(self, variable: Variable) -> bool | None:
        """Return the value of a variable at a sight, where it is the same in all schedules; None: it depends."""
        kind, j, u = variable
        if kind not in ("before", "held", "later"):
            return None
        v, (before, after) = self.sights[j], self.sides[j]
        at_hand = u == v or u in self.graph.predecessors[v]
        if (kind == "held" and at_hand) or (kind == "before" and u in before):
            return True if self.at_hand or kind == "before" else None
        return False if u == v or u in after or (kind == "later" and at_hand and self.at_hand) else None


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


def _tree(graph: ComputationGraph, items: list[Json], known: list[Inequality], claimed: int | None, once: int) -> int:
    """The number of leaves of a tree, in which a branch is followed by what is below "not so", then by that of "so"."""
    waiting: list[dict[Variable, bool]] = [{}]  # what is decided in each case that is still to come, the next one last
    for k, item in enumerate(items):
        where = f"tree[{k}]"
        require(bool(waiting), f"{where}: all cases are covered before it")
        decided = waiting.pop()
        if type(item) is dict and "branch" in item:
            kind, j, node = (*read(where, item, {"branch": [None]})["branch"], None, None, None)[:3]
            require(kind in _KINDS, f"{where}: {shown(kind)} is none of {', '.join(_KINDS)}")
            variable = kind, read(where, j, 0), read(where, node, graph)
            require(variable not in decided, f"{where}: {kind} {j} {node} is decided already")
            waiting += [{**decided, variable: True}, {**decided, variable: False}]
            continue
        proven, goal = _leaf(graph, where, item, known, decided, once), INFEASIBLE if claimed is None else claimed
        require(proven is None or (claimed is not None and proven >= claimed), f"{where}: proves {proven}, not {goal}")
    for decided in waiting[-1:]:
        case = ", ".join(f"{kind} {j} {graph.nodes[u]}={+so}" for (kind, j, u), so in list(decided.items())[:5])
        raise CertificateError(f"tree: it ends before the case {case or 'of all schedules'}")
    return (len(items) + 1) // 2


def _leaf(
    graph: ComputationGraph, where: str, item: Json, known: list[Inequality], decided: dict[Json, bool], once: int
) -> Json:
    """The least duration, by linear duality, of schedules that do what is decided; None: there are none."""
    item, value = read(where, item, {"multipliers": [[0]], "denominator": 0}), 0
    unit, priced = item["denominator"], dict[tuple[Variable, bool], int]()
    for j, pair in enumerate(item["multipliers"]):
        is_known = len(pair) == 2 and pair[0] < len(known)
        require(is_known, f"{where}.multipliers[{j}]: there is no inequality {(*pair, '')[0]}")
        weights, demand = _left(known[pair[0]][0], known[pair[0]][1], decided.get)
        value += pair[1] * max(0, demand)
        for one, weight in weights.items():
            priced[one] = priced.get(one, 0) + pair[1] * max(0, min(weight, demand))
    cost = {of: unit * graph.durations[of[2]] * (of[0] == "again") for of in [*decided, *(of for of, _ in priced)]}
    value += sum(min(cost[of] - priced.get((of, True), 0), -priced.get((of, False), 0)) for of in cost)
    if unit == 0:
        return None if value > 0 else once
    value += sum(cost[of] for of, is_so in decided.items() if is_so)
    step = math.gcd(*graph.durations) or 1  # of all sums of durations
    return once - step * (-value // (unit * step))
