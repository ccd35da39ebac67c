"""The judge of certificates: what it accepts, written by hand, and that it refuses every damage, in one line."""

from __future__ import annotations

import copy
import json
import random
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from few import few
from outputs_oracle import draw_operations, draw_sequence
from overwriting import overwriting

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges import certificates
from moccasin_mzn.problem.judges.certificates import CertificateError, _Rules, check_certificate, graph_digest
from moccasin_mzn.problem.judges.schedules import judge, simulate

NODES = ("x", "y", "a", "b", "c", "z")
EDGES = tuple((NODES.index(u), NODES.index(v)) for u, v in ("xa", "ya", "ab", "bc", "cz", "xz", "yz"))
GRAPH = ComputationGraph(NODES, (5, 3, 1, 1, 1, 1), (2, 2, 1, 7, 1, 1), EDGES)
"""While b is computed, beside b and a the outputs x and y are in memory, or are computed again for z."""
ONCE = 12
FLOW = [
    ["sight", 0, "b", 1], ["leaves", 0, "x", "z", 2], ["leaves", 0, "y", "z", 2], ["comes", 0, "x", 2],
    ["comes", 0, "y", 2],
]  # fmt: skip
"""What is computed before the first computation of b, and is read by z after it."""


def certificate(budget, schedule, bound, tree, **others):
    return {
        "format": "moccasin-certificate", "version": 2, "scope": "any order, any number of computations",
        "graph": graph_digest(GRAPH), "order": None, "sights": ["b"], "blocks": False, "budget": budget,
        "schedule": list(schedule), "duration": sum(GRAPH.durations[NODES.index(v)] for v in schedule), "bound": bound,
        "inequalities": [{"sum": FLOW, "divisor": 1}], "tree": tree,
        "trusted": [{"by": "CP-SAT", "scope": "with at most 2 computations per node", "bound": bound}], **others,
    }  # fmt: skip


ONE = certificate(10, "xyabcyz", 15, [{"multipliers": [[0, 3]], "denominator": 2}])
"""One of x and y is computed again."""
IN_ORDER = {"order": list("xyabcz"), "scope": "first computations in order, any number of computations"}
ORDERED = {**ONE, **IN_ORDER}
CANNOT = {"multipliers": [[0, 1]], "denominator": 0}
BRANCH = {"branch": ["again", 0, "x"]}
BOTH = certificate(8, "xyabcxyz", 20, [BRANCH, CANNOT, {"multipliers": [[0, 3]], "denominator": 2}])
RULES = [["sight", 0, "b"], ["reads", 1, "x", "z"], ["reads", 1, "y", "z"]]
BLOCKS = {
    **ORDERED, "blocks": True, "inequalities": RULES,
    "tree": [{"multipliers": [[0, 3], [1, 6], [2, 6]], "denominator": 2}],
}  # fmt: skip
"""What z reads after b is held when b is computed, or computed after it."""


def damaged(document, *path, value=None, remove=False):
    """A copy, with something else, or nothing, in one place."""
    document = copy.deepcopy(document)
    at = document
    for key in path[:-1]:
        at = at[key]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return document


def refusal(document, graph=GRAPH):
    with pytest.raises(CertificateError) as error:
        check_certificate(graph, document)
    text = str(error.value)
    assert text.isprintable() and 10 < len(text) < 250
    return text


ALL = {"one": ONE, "both": BOTH, "ordered": ORDERED, "blocks": BLOCKS}


@pytest.mark.parametrize("kind", ALL)
def test_true_certificates_are_accepted(kind):
    document = ALL[kind]
    proven = check_certificate(GRAPH, json.loads(json.dumps(document)))
    assert (proven.bound, proven.duration) == (document["bound"], document["duration"])
    assert proven.inequalities == len(document["inequalities"])
    assert proven.leaves == 1 + (document is BOTH) and proven.trusted[0].bound == document["bound"]


@pytest.mark.parametrize("kind", ALL)
def test_schedules_that_repeat_what_is_computed_once_are_refused(kind):
    """A bound holds for what keeps to the list too; the digest of a graph is the same with a list and without."""
    document = ALL[kind]
    for chosen in product([False, True], repeat=len(NODES)):
        graph = replace(GRAPH, computed_once=[v for v in range(len(NODES)) if chosen[v]])
        assert graph_digest(graph) == graph_digest(GRAPH)
        listed = document["schedule"]
        again = [(t, v) for t, v in enumerate(listed) if v in listed[:t] and NODES.index(v) in graph.computed_once]
        if again:
            assert refusal(document, graph) == f"schedule[{again[0][0]}]: {again[0][1]} is computed once only"
        else:
            assert check_certificate(graph, document).bound == document["bound"]
        bare = {**document, "schedule": None, "duration": None}
        assert check_certificate(graph, bare).bound == document["bound"]


def test_a_bound_needs_no_schedule():
    document = damaged(ONE, "schedule")
    document["duration"] = None
    assert check_certificate(GRAPH, document).duration is None


def test_every_node_once_needs_no_inequality():
    document = certificate(12, "xyabcz", ONCE, [{"multipliers": [], "denominator": 1}])
    document["inequalities"], document["trusted"] = [], []
    assert check_certificate(GRAPH, document).bound == document["duration"] == ONCE


@pytest.mark.parametrize("inequality", [{"sum": FLOW[:1], "divisor": 1}, {"sum": FLOW[:1], "divisor": 3}])
def test_a_working_set_over_the_budget(inequality):
    document = certificate(7, "", "infeasible", [CANNOT])
    document["inequalities"] = [inequality]
    assert check_certificate(GRAPH, {**document, "schedule": None, "duration": None, "trusted": []}).bound is None


def rules(graph, budget, order=None, sights=(), blocks=False):
    return _Rules(graph, budget, order, list(sights), blocks)


def kept(found):
    """What is in an inequality."""
    return {one: weight for one, weight in found[0].items() if weight}, found[1]


def test_an_inequality_by_hand():
    again = {("again", 0, 0), ("again", 0, 1)}
    entry = {"sum": FLOW, "divisor": 1}
    assert kept(rules(GRAPH, 10, None, [3]).inequality("", entry)) == ({(one, True): 2 for one in again}, 2)
    twice = {"sum": [[*rule, 3 * factor] for *rule, factor in FLOW], "divisor": 2}
    assert kept(rules(GRAPH, 10, None, [3]).inequality("", twice)) == ({(one, True): 3 for one in again}, 3)
    odd = rules(GRAPH, 11, None, [3]).inequality("", twice)
    assert kept(odd) == ({(one, True): 3 for one in again}, 2)  # 3/2, rounded up
    ready = ComputationGraph(NODES, GRAPH.durations, GRAPH.sizes, EDGES, workspaces=(0, 0, 0, 3, 0, 0))
    assert rules(ready, 10, None, [3]).inequality("", entry)[1] == 5
    assert rules(GRAPH, 10, [0, 1, 2, 3, 4, 5], [3], True).inequality("", entry)[0].keys() >= {(("again", 1, 0), True)}


def test_bounds_are_rounded_up_to_what_durations_sum_to():
    graph = ComputationGraph(NODES, tuple(10 * d for d in GRAPH.durations), GRAPH.sizes, EDGES)
    weak = {**ONE, "graph": graph_digest(graph), "duration": 150, "trusted": [], "bound": 150}
    assert check_certificate(graph, {**weak, "tree": [{"multipliers": [[0, 21]], "denominator": 2}]}).bound == 150
    assert refusal({**weak, "tree": [{"multipliers": [[0, 20]], "denominator": 2}]}, graph).startswith(
        "tree[0]: proves 140"
    )


HUGE = 10**400
TERM = ("inequalities", 0, "sum")
DAMAGES = {
    "an order of some nodes": (damaged(ORDERED, "order", value=list("xyabc")), "order: it does not have every node"),
    "an order that is not kept": (damaged(ORDERED, "order", value=list("yxabcz")), "schedule: first computations"),
    "a scope without order": (damaged(ORDERED, "order", value=None), "scope is"),
    "no scope for an order": (damaged(ONE, "order", value=list("xyabcz")), "scope is"),
    "blocks without order": (damaged(ONE, "blocks", value=True), "blocks is true, but the sights are not along"),
    "blocks that are no truth": (damaged(BLOCKS, "blocks", value=1), "blocks is 1"),
    "sights against the order": (damaged(BLOCKS, "sights", value=["c", "b"]), "blocks is true, but the sights"),
    "a sight twice": (damaged(BLOCKS, "sights", value=["b", "b"]), "blocks is true, but the sights"),
    "a sight that is not there": (damaged(BLOCKS, "sights", value=["w"]), 'sights[0]: node "w"'),
    "no sights": (damaged(ONE, "sights", value=[]), "inequalities[0].sum[0]: there is no such rule"),
    "another sight": (damaged(ONE, "sights", value=["c"]), "inequalities[0].sum[0]: there is no such rule"),
    "rules of blocks without blocks": (
        damaged(BLOCKS, "blocks", value=False),
        "inequalities[1]: there is no such rule",
    ),
    "no object": ([], "the certificate is a list"),
    "another format": (damaged(ONE, "format", value="moccasin-graph"), "format is"),
    "another version": (damaged(ONE, "version", value=1), "version is 1"),
    "a version that is true": (damaged(ONE, "version", value=True), "version is true"),
    "a larger scope": (damaged(ONE, "scope", value="everything"), "scope is"),
    "another graph": (damaged(ONE, "graph", value="0" * 64), "another graph"),
    "a larger budget": (damaged(ONE, "budget", value=12), "tree[0]: proves 12, not 15"),
    "a smaller budget": (damaged(ONE, "budget", value=9), "schedule[3]: memory 10 is over the budget 9"),
    "no budget": (damaged(ONE, "budget", remove=True), 'there is no key "budget"'),
    "a budget in doubles": (damaged(ONE, "budget", value=10.0), "budget is 10.0"),
    "a negative budget": (damaged(ONE, "budget", value=-1), "budget is -1"),
    "a huge budget": (damaged(ONE, "budget", value=HUGE), "budget is a huge integer"),
    "an unknown key": ({**ONE, "note": 1}, 'unknown key "note"'),
    "a larger bound": (damaged(ONE, "bound", value=16), "tree[0]: proves 15, not 16"),
    "a bound above all": (damaged(ONE, "bound", value="infeasible"), "tree[0]: proves 15, not infeasible"),
    "a bound of true": (damaged(ONE, "bound", value=True), "bound is true"),
    "another duration": (damaged(ONE, "duration", value=14), "duration is 14, but"),
    "a schedule cut short": (damaged(ONE, "schedule", 6, remove=True), "schedule: z is never computed"),
    "a schedule out of order": (damaged(ONE, "schedule", value=list("xaybcyz")), "schedule[1]: a reads y"),
    "a schedule without its recomputation": (damaged(ONE, "schedule", 5, remove=True), "schedule[3]: memory 12"),
    "a node that is not there": (damaged(ONE, "schedule", 0, value="w"), 'schedule[0]: node "w"'),
    "a node that is no id": (damaged(ONE, "schedule", 0, value=[]), "schedule[0]: node a list"),
    "no schedule but a duration": (damaged(ONE, "schedule", value=None), "schedule is null"),
    "more of a rule": (damaged(ONE, *TERM, 0, 3, value=2), "tree[0]: proves"),
    "less of a rule": (damaged(ONE, *TERM, 1, 4, value=1), "tree[0]: proves 14, not 15"),
    "a negative factor": (damaged(ONE, *TERM, 1, 4, value=-2), "sum[1] is -2"),
    "a huge factor": (damaged(ONE, *TERM, 1, 4, value=HUGE), "sum[1] is a huge integer"),
    "a rule left out": (damaged(ONE, *TERM, 3, remove=True), "tree[0]: proves"),
    "the budget left out": (damaged(ONE, *TERM, 0, remove=True), "tree[0]: proves 12, not 15"),
    "a reader that is none": (damaged(ONE, *TERM, 1, 3, value="b"), "sum[1]: there is no such rule"),
    "an unknown rule": (damaged(ONE, *TERM, 1, 0, value="stays"), "sum[1]: there is no such rule"),
    "a rule that is no text": (damaged(ONE, *TERM, 1, 0, value=[]), "sum[1]: there is no such rule"),
    "a rule of another sight": (damaged(ONE, *TERM, 1, 1, value=1), "sum[1]: there is no such rule"),
    "a budget of another node": (damaged(ONE, *TERM, 0, 2, value="c"), "sum[0]: there is no such rule"),
    "a rule without a reader": (damaged(ONE, *TERM, 1, value=["leaves", 0, "x", 2]), "sum[1]: there is no such rule"),
    "a rule with too many nodes": (damaged(ONE, *TERM, 3, value=["comes", 0, "x", "z", 2]), "sum[3]: there is no such"),
    "a rule of nothing": (damaged(ONE, *TERM, 3, value=[]), "sum[3]: there is no such rule"),
    "a larger divisor": (damaged(ONE, "inequalities", 0, "divisor", value=2), "tree[0]: proves 14, not 15"),
    "a divisor of 0": (damaged(ONE, "inequalities", 0, "divisor", value=0), "divisor is 0"),
    "a new node as an old one": (damaged(BLOCKS, "inequalities", 1, value=["keeps", 1, "z"]), "there is no such rule"),
    "an old reader as a new one": (
        damaged(BLOCKS, "inequalities", 1, value=["reads", 1, "x", "a"]),
        "inequalities[1]: there is no such rule",
    ),
    "a new reader as an old one": (
        damaged(BLOCKS, "inequalities", 1, value=["rereads", 1, "x", "z"]),
        "inequalities[1]: there is no such rule",
    ),
    "a block before all sights": (damaged(BLOCKS, "inequalities", 1, 1, value=0), "there is no such rule"),
    "a block after all": (damaged(BLOCKS, "inequalities", 1, 1, value=2), "there is no such rule"),
    "a block without end": (damaged(BLOCKS, "inequalities", 1, value=["keeps", 1, "x"]), "there is no such rule"),
    "what a block does not read": (damaged(BLOCKS, "inequalities", 1, remove=True), "there is no inequality 2"),
    "no inequality": (damaged(ONE, "inequalities", value=[]), "there is no inequality 0"),
    "an inequality of no kind": (damaged(ONE, "inequalities", 0, value=7), "inequalities[0] is 7"),
    "an inequality that is not there": (damaged(ONE, "tree", 0, "multipliers", 0, 0, value=1), "no inequality 1"),
    "a negative index": (damaged(ONE, "tree", 0, "multipliers", 0, 0, value=-1), "multipliers[0][0] is -1"),
    "a negative multiplier": (damaged(ONE, "tree", 0, "multipliers", 0, 1, value=-3), "multipliers[0][1] is -3"),
    "a multiplier of nothing": (damaged(ONE, "tree", 0, "multipliers", 0, value=[]), "there is no inequality"),
    "an inequality without multiplier": (
        damaged(ONE, "tree", 0, "multipliers", 0, value=[0]),
        "there is no inequality",
    ),
    "a smaller multiplier": (damaged(ONE, "tree", 0, "multipliers", 0, 1, value=2), "tree[0]: proves 14, not 15"),
    "too large a multiplier": (damaged(ONE, "tree", 0, "multipliers", 0, 1, value=9), "tree[0]: proves 11, not 15"),
    "a larger denominator": (damaged(ONE, "tree", 0, "denominator", value=4), "tree[0]: proves 14, not 15"),
    "a denominator of 0": (damaged(ONE, "tree", 0, "denominator", value=0), "tree[0]: proves 12, not 15"),
    "a negative denominator": (damaged(ONE, "tree", 0, "denominator", value=-2), "denominator is -2"),
    "no tree": (damaged(ONE, "tree", value=[]), "tree: it ends before the case of all schedules"),
    "a leaf left out": (damaged(BOTH, "tree", 2, remove=True), "tree: it ends before the case again 0 x=1"),
    "a leaf too many": (damaged(BOTH, "tree", value=[*BOTH["tree"], CANNOT]), "tree[3]: all cases are covered"),
    "leaves exchanged": (damaged(BOTH, "tree", value=[BOTH["tree"][k] for k in (0, 2, 1)]), "tree[1]: proves"),
    "another branch": (damaged(BOTH, "tree", 0, "branch", 2, value="y"), "tree[2]: proves 18, not 20"),
    "a branch twice": (damaged(BOTH, "tree", 1, value=BRANCH), "tree[1]: again 0 x is decided already"),
    "a branch of no kind": (damaged(BOTH, "tree", 0, "branch", 0, value="size"), 'tree[0]: "size" is none of again,'),
    "a branch on nothing": (damaged(BOTH, "tree", 0, "branch", value=[]), "tree[0]: null is none of again,"),
    "a branch on a block that is not there": (damaged(BOTH, "tree", 0, "branch", 1, value=-1), "tree[0] is -1"),
    "a refutation that is none": (damaged(ONE, "tree", value=[CANNOT]), "tree[0]: proves 12, not 15"),
    "a leaf of both kinds": (damaged(ONE, "tree", 0, "branch", value=0), 'tree[0]: unknown key "multipliers"'),
    "a leaf of no kind": (damaged(ONE, "tree", 0, value=7), "tree[0] is 7"),
    "trust above the schedule": (damaged(ONE, "trusted", 0, "bound", value=16), "trusted[0].bound is 16"),
    "trust in nobody": (damaged(ONE, "trusted", 0, "by", value=""), 'trusted[0].by is ""'),
    "trust over two lines": (damaged(ONE, "trusted", 0, "scope", value="any\norder"), "trusted[0].scope is"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_certificates_are_refused(kind):
    document, message = DAMAGES[kind]
    assert message in refusal(document)


def test_certificates_of_another_graph_are_refused():
    for name, values in {"durations": (5, 3, 1, 1, 1, 2), "sizes": (2, 2, 1, 7, 1, 2), "workspaces": (1,) * 6}.items():
        of = {"durations": GRAPH.durations, "sizes": GRAPH.sizes, name: values}
        assert "another graph" in refusal(ONE, ComputationGraph(NODES, edges=EDGES, **of))
    assert "another graph" in refusal(ONE, ComputationGraph(NODES, GRAPH.durations, GRAPH.sizes, EDGES[:-1]))
    places = [5, 0, 3, 1, 4, 2]  # the same, told in another order
    edges = [(places[u], places[v]) for u, v in reversed(EDGES)]
    nodes, durations, sizes = ([of[places.index(k)] for k in range(6)] for of in (NODES, GRAPH.durations, GRAPH.sizes))
    assert check_certificate(ComputationGraph(nodes, durations, sizes, edges), ONE).bound == 15


SPLIT = {"edges": [("x", "split"), ("split", "y"), ("right", "z")], "output_of": [None, None, 1, None, None]}
OUTPUTS = ComputationGraph(["x", "split", "right", "y", "z"], [1, 9, 0, 1, 1], [1] * 5, **SPLIT)


def of_outputs(graph, sequence, budget):
    """A certificate of nothing but a schedule."""
    nodes, duration = [graph.nodes[v] for v in sequence], sum(graph.durations[v] for v in sequence)
    document = certificate(budget, "", graph.total_duration, [{"multipliers": [], "denominator": 1}])
    others = {"graph": graph_digest(graph), "sights": [], "inequalities": [], "trusted": []}
    return {**document, **others, "schedule": nodes, "duration": duration}


def test_further_outputs_are_not_made_apart():
    assert check_certificate(OUTPUTS, of_outputs(OUTPUTS, (0, 1, 2, 3, 4), 9)).duration == 12
    apart = "schedule[4]: right does not come directly after its first output"
    assert refusal(of_outputs(OUTPUTS, (0, 1, 2, 3, 2, 4), 9), OUTPUTS) == apart
    alone = ComputationGraph(OUTPUTS.nodes, OUTPUTS.durations, OUTPUTS.sizes, OUTPUTS.edges, workspaces=[0, 1, 0, 0, 0])
    assert alone.workspace_of == OUTPUTS.workspace_of
    assert "another graph" in refusal(of_outputs(OUTPUTS, (0, 1, 2, 3, 4), 9), alone)


@pytest.mark.parametrize("first_seed", few(range(0, 2000, 100), keep=2, mark=pytest.mark.slow))
def test_schedules_with_several_outputs_are_accepted_if_they_are_the_judges(first_seed):
    """Some outputs are made apart or not at all, or memory is over the budget."""
    kinds = set()
    for seed in range(first_seed, first_seed + 100):
        operations, budget, _ = draw_operations(seed)
        graph, rng = operations.graph, random.Random(seed)
        sequence = draw_sequence(operations, rng)
        for _ in range(rng.choice([0, 0, 1])):
            sequence.insert(rng.randrange(len(sequence) + 1), sequence.pop(rng.randrange(len(sequence))))
        for _ in range(rng.choice([0, 0, 1])):
            sequence.insert(rng.randrange(len(sequence) + 1), rng.choice(sequence))
        found = judge(graph, sequence, budget)
        kinds |= {one.kind for one in found.violations} or {"none"}
        document = of_outputs(graph, sequence, budget)
        if found.feasible:
            assert check_certificate(graph, document).duration == found.duration
        else:
            refusal(document, graph)
    assert kinds >= {"none", "apart", "over-budget", "missing-input"}


def places(value, path=()):
    """The paths of all that is in a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


VALUES = [None, True, -1, 0, 1, 2, 7, HUGE, 1.5, "", "x", "infeasible", [], [[]], {}, {"branch": "y"}]


@pytest.mark.parametrize("kind", ALL)
def test_nothing_else_in_any_place_proves_more_than_is_so(kind):
    """Everything in turn is removed, or becomes something else: it is refused in a line, or proves what is true."""
    document = ALL[kind]
    changed = [damaged(document, *path, value=value) for path in places(document) for value in VALUES]
    changed += [damaged(document, *path, remove=True) for path in places(document)]
    refused = 0
    for one in changed:
        try:
            assert check_certificate(GRAPH, one).bound <= document["bound"]
        except CertificateError as error:
            refused += str(error).isprintable()
    assert len(changed) * 0.9 < refused < len(changed)


def test_random_sums_never_prove_too_much():
    """Of sums with random factors those that say something hold for the sets that schedules compute again."""
    rng, said = random.Random(0), 0
    own = rules(GRAPH, 10, None, [3])
    for _ in range(1000):
        terms = [[*rule, max(0, factor + rng.choice([-1, 0, 0, 0, 1]))] for *rule, factor in FLOW]
        weights, demand = own.inequality("", {"sum": terms, "divisor": rng.choice([1, 1, 2])})
        said += demand > 0
        assert weights.get((("again", 0, 1), True), 0) >= demand  # computing y again is enough
    assert said > 50


# --- every rule, against schedules ---------------------------------------------------------------------------


def draw(rng):
    """A graph, of one output for each operation or several, and a sequence in which some nodes are computed again."""
    if rng.random() < 0.3:
        operations, _, _ = draw_operations(rng.randrange(1000), 4)
        return operations.graph, list(operations.graph.input_order()), draw_sequence(operations, rng, 0.5)
    n = rng.randint(2, 6)
    order, density = rng.sample(range(n), n), rng.choice([0.3, 0.6])
    edges = [(order[i], order[j]) for j in range(n) for i in range(j) if rng.random() < density]
    sizes = [rng.choice([0, 1, 1, 2, 5]) for _ in range(n)]
    workspaces = [rng.choice([0, 0, 3]) for _ in range(n)]
    graph = ComputationGraph(tuple(range(n)), (1,) * n, sizes, edges, workspaces=workspaces)
    if rng.random() < 0.3:
        graph = overwriting(graph, rng.randrange(1000))
    sequence = []
    for v in order:
        while sequence and rng.random() < 0.5:
            sequence.append(rng.choice(sequence))
        sequence.append(v)
    return graph, order, sequence


class Truth:
    """What is so in a schedule, from where each copy is made and read last."""

    def __init__(self, graph, sequence, order, sights, blocks):
        self.sequence, self.sights, self.blocks = sequence, sights, blocks
        self.first = {v: sequence.index(v) for v in sequence}
        self.copies = [(one.node, one.start - 1, one.end - 1) for one in simulate(graph, sequence).intervals]

    def at(self, j):
        return self.first[self.sights[j]] if j < len(self.sights) else len(self.sequence)

    def __call__(self, kind, j, u):
        computed = [t for t, v in enumerate(self.sequence) if v == u]
        if kind == "again" and not self.blocks:
            return j == 0 and len(computed) > 1
        held = any(v == u and begin <= self.at(j) <= end for v, begin, end in self.copies)
        if kind in ("before", "held", "later"):
            before = self.first[u] < self.at(j)
            return {"before": before, "held": held, "later": before and not held and computed[-1] > self.at(j)}[kind]
        inside = range(self.at(j - 1) + 1, self.at(j)) if j else range(0)
        if not j or self.first[u] > self.at(j - 1):
            return False
        if kind == "again":
            return any(t in inside for t in computed)
        assert kind == "through"
        ends = self.at(j - 1), self.at(j)
        return any(v == u and begin <= ends[0] and end >= ends[1] for v, begin, end in self.copies)


OF_BLOCKS = {"reads", "rereads", "keeps", "spans", "during"}


def inequalities_of(own, graph, sights):
    """Every rule that there is, by what it is of."""
    ends = [*product(range(len(graph.nodes))), *graph.edges]
    for name, j, nodes in product(["closes", "leaves", "comes", "sight", *OF_BLOCKS], range(len(sights) + 1), ends):
        try:
            yield (name, j, *nodes), own.inequality("", [name, j, *nodes])
        except CertificateError:
            continue


def tight_rules(mode, graphs):
    """Sequences within their own peaks satisfy all rules, of all sights: those that are met with none to spare."""
    rng, tight = random.Random(mode), set()
    for _ in range(graphs):
        graph, order, sequence = draw(rng)
        firsts = list(dict.fromkeys(sequence))
        assert firsts == order
        sights = sorted(rng.sample(order, rng.randint(1, min(3, len(order)))), key=order.index)
        peak = max(simulate(graph, sequence).memory)
        own = rules(graph, peak, None if mode == "free" else order, sights, mode == "blocks")
        truth = Truth(graph, sequence, order, sights, mode == "blocks")
        for rule, (weights, demand) in inequalities_of(own, graph, sights):
            met = sum(weight for (one, is_so), weight in weights.items() if truth(*one) == is_so)
            assert met >= demand, (rule, sequence, sights)
            tight |= {rule[0]} if met == demand > 0 else set()
    return tight


MODES = {
    "free": {"leaves", "comes", "sight", "closes"}, "order": {"leaves", "comes", "sight"},
    "blocks": {"leaves", "comes", "sight", *OF_BLOCKS},
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_every_rule_is_so_of_every_schedule(mode):
    assert tight_rules(mode, 60) == MODES[mode]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_rule_is_so_of_many_schedules(mode):
    assert tight_rules(mode, 3000) == MODES[mode]


OF_CERTIFICATES = "certificates", "certificate_values", "certified_graphs", "certified_parts", "certified_schedules"
OF_CERTIFICATES += "certified_machines", "certified_memories", "certified_plans"


@pytest.mark.parametrize("name", OF_CERTIFICATES)
def test_the_judge_is_small_and_stands_alone(name):
    lines = Path(certificates.__file__).with_stem(name).read_text().splitlines()
    imported = [line.split()[1] for line in lines if line.startswith(("import ", "from "))]
    own = {one for one in imported if one.startswith("moccasin_mzn")}
    allowed = {f"moccasin_mzn.problem.judges.{other}" for other in OF_CERTIFICATES}
    assert len(lines) <= 300 and own <= allowed | {"moccasin_mzn.graphs.graph", "moccasin_mzn.base.errors"}
    assert {one.split(".")[0] for one in imported} - {"moccasin_mzn", "__future__"} <= sys.stdlib_module_names
