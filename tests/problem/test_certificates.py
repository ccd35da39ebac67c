"""The judge of certificates: what it accepts, written by hand, and that it refuses every damage, in one line."""

from __future__ import annotations

import copy
import json
import random

import pytest

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificates import CertificateError, check_certificate, graph_digest
from moccasin_mzn.problem.judges.certificates import _inequality as inequality

NODES = ("x", "y", "a", "b", "c", "z")
EDGES = tuple((NODES.index(u), NODES.index(v)) for u, v in ("xa", "ya", "ab", "bc", "cz", "xz", "yz"))
GRAPH = ComputationGraph(NODES, (5, 3, 1, 1, 1, 1), (2, 2, 1, 7, 1, 1), EDGES)
"""While b is computed, beside b and a the outputs x and y are in memory, or are computed again for z."""
ONCE = 12
FLOW = [
    ["x>c", "x", "x", 2], ["c>f", "x", "x", 2], ["f>c", "x", "z", 2], ["x>c", "y", "y", 2], ["c>f", "y", "y", 2],
    ["f>c", "y", "z", 2], ["c>x", "z", "z", 4], ["c>f", "a", "a", 1], ["f>c", "a", "b", 1], ["c>x", "b", "b", 1],
]  # fmt: skip
"""5 to the first computation of b."""


def certificate(budget, schedule, bound, tree):
    return {
        "format": "moccasin-certificate", "version": 1, "scope": "any order, any number of computations",
        "graph": graph_digest(GRAPH), "order": None, "budget": budget, "schedule": list(schedule),
        "duration": sum(GRAPH.durations[NODES.index(v)] for v in schedule), "bound": bound,
        "inequalities": [{"node": "b", "price": [1, 1], "flow": FLOW}], "tree": tree,
        "trusted": [{"by": "CP-SAT", "scope": "with at most 2 computations per node", "bound": bound}],
    }  # fmt: skip


ONE = certificate(10, "xyabcyz", 15, [{"multipliers": [[0, 3]], "denominator": 2}])
"""One of x and y is computed again."""
ORDERED = {**ONE, "order": list("xyabcz"), "scope": "first computations in order, any number of computations"}
BOTH = certificate(8, "xyabcxyz", 20, [{"branch": "x"}, {"refuted": 0}, {"multipliers": [[0, 3]], "denominator": 2}])


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


@pytest.mark.parametrize("document", [ONE, BOTH, ORDERED])
def test_true_ones_are_accepted(document):
    proven = check_certificate(GRAPH, json.loads(json.dumps(document)))
    assert (proven.bound, proven.duration, proven.inequalities) == (document["bound"], document["duration"], 1)
    assert proven.leaves == 1 + (document is BOTH) and proven.trusted[0].bound == document["bound"]


def test_a_bound_needs_no_schedule():
    document = damaged(ONE, "schedule")
    document["duration"] = None
    assert check_certificate(GRAPH, document).duration is None


def test_every_node_once_needs_no_inequality():
    document = certificate(12, "xyabcz", ONCE, [{"multipliers": [], "denominator": 1}])
    document["inequalities"], document["trusted"] = [], []
    assert check_certificate(GRAPH, document).bound == document["duration"] == ONCE


def test_a_working_set_over_the_budget():
    document = certificate(7, "", "infeasible", [{"refuted": 0}])
    document["inequalities"] = [{"node": "b", "price": [1, 1], "flow": FLOW[-3:]}]
    assert check_certificate(GRAPH, {**document, "schedule": None, "duration": None, "trusted": []}).bound is None


def test_an_inequality_by_hand():
    entry = {"node": "b", "price": [1, 1], "flow": FLOW}
    assert inequality(GRAPH, "", entry, None, 10) == ({0: 2, 1: 2}, 2)
    twice = {"node": "b", "price": [5, 3], "flow": [[*arc[:3], arc[3] * 5 // 3] for arc in FLOW[-3:]]}
    assert inequality(GRAPH, "", twice, None, 7) == ({}, 1)  # 1 - 5/3 * 0
    ready = ComputationGraph(NODES, GRAPH.durations, GRAPH.sizes, EDGES, workspaces=(0, 0, 0, 3, 0, 0))
    assert inequality(ready, "", entry, None, 10)[1] == 5


def test_bounds_are_rounded_up_to_what_durations_sum_to():
    graph = ComputationGraph(NODES, tuple(10 * d for d in GRAPH.durations), GRAPH.sizes, EDGES)
    weak = {**ONE, "graph": graph_digest(graph), "duration": 150, "trusted": [], "bound": 150}
    assert check_certificate(graph, {**weak, "tree": [{"multipliers": [[0, 21]], "denominator": 2}]}).bound == 150
    assert refusal({**weak, "tree": [{"multipliers": [[0, 20]], "denominator": 2}]}, graph).startswith(
        "tree[0]: proves 140"
    )


HUGE = 10**400
DAMAGES = {
    "an order of some nodes": (damaged(ORDERED, "order", value=list("xyabc")), "order: it does not have every node"),
    "an order that is not kept": (damaged(ORDERED, "order", value=list("yxabcz")), "schedule: first computations"),
    "a scope without order": (damaged(ORDERED, "order", value=None), "scope is"),
    "no scope for an order": (damaged(ONE, "order", value=list("xyabcz")), "scope is"),
    "no object": ([], "the certificate is a list"),
    "another format": (damaged(ONE, "format", value="moccasin-graph"), "format is"),
    "another version": (damaged(ONE, "version", value=2), "version is 2"),
    "a version that is true": (damaged(ONE, "version", value=True), "version is true"),
    "a larger scope": (damaged(ONE, "scope", value="everything"), "scope is"),
    "another graph": (damaged(ONE, "graph", value="0" * 64), "another graph"),
    "a larger budget": (damaged(ONE, "budget", value=12), "inequalities[0]: a flow of 5"),
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
    "more flow": (damaged(ONE, "inequalities", 0, "flow", 0, 3, value=3), "c of x less what enters it is -1"),
    "less flow": (damaged(ONE, "inequalities", 0, "flow", 2, 3, value=1), "f of x less what enters it is -1"),
    "negative flow": (damaged(ONE, "inequalities", 0, "flow", 0, 3, value=-2), "flow[0] is -2"),
    "huge flow": (damaged(ONE, "inequalities", 0, "flow", 0, 3, value=HUGE), "flow[0] is a huge integer"),
    "an arc left out": (damaged(ONE, "inequalities", 0, "flow", 6, remove=True), "c of z less what enters it is -4"),
    "an arc twice": (damaged(ONE, "inequalities", 0, "flow", value=[*FLOW, FLOW[1]]), "4 is over the capacity 2"),
    "an arc that is not there": (damaged(ONE, "inequalities", 0, "flow", 2, 2, value="b"), 'no arc "f>c" from x to b'),
    "an unknown kind of arc": (damaged(ONE, "inequalities", 0, "flow", 0, 0, value="x>f"), 'no arc "x>f"'),
    "an arc without amount": (
        damaged(ONE, "inequalities", 0, "flow", 0, value=["x>c", "x", "x"]),
        "flow[0] is a list, expected a list of 4",
    ),
    "another node": (
        damaged(ONE, "inequalities", 0, "node", value="c"),
        "inequalities[0]: what leaves c of a less what enters it is 1",
    ),
    "a higher price": (damaged(ONE, "inequalities", 0, "price", value=[2, 1]), "inequalities[0]: a flow of 5"),
    "a lower price": (damaged(ONE, "inequalities", 0, "price", value=[1, 2]), "2 is over the capacity 1"),
    "a price by 0": (damaged(ONE, "inequalities", 0, "price", value=[1, 0]), "price[1] is 0"),
    "no inequality": (damaged(ONE, "inequalities", value=[]), "there is no inequality 0"),
    "an inequality that is not there": (damaged(ONE, "tree", 0, "multipliers", 0, 0, value=1), "no inequality 1"),
    "a negative index": (damaged(ONE, "tree", 0, "multipliers", 0, 0, value=-1), "no inequality -1"),
    "a negative multiplier": (damaged(ONE, "tree", 0, "multipliers", 0, 1, value=-3), "multipliers[0] is -3"),
    "a smaller multiplier": (damaged(ONE, "tree", 0, "multipliers", 0, 1, value=2), "tree[0]: proves 14, not 15"),
    "too large a multiplier": (damaged(ONE, "tree", 0, "multipliers", 0, 1, value=9), "tree[0]: proves 11, not 15"),
    "a larger denominator": (damaged(ONE, "tree", 0, "denominator", value=4), "tree[0]: proves 14, not 15"),
    "a denominator of 0": (damaged(ONE, "tree", 0, "denominator", value=0), "denominator is 0"),
    "no tree": (damaged(ONE, "tree", value=[]), "tree: it ends before the case of all schedules"),
    "a leaf left out": (damaged(BOTH, "tree", 2, remove=True), "tree: it ends before the case x=1"),
    "a leaf too many": (damaged(BOTH, "tree", value=[*BOTH["tree"], {"refuted": 0}]), "tree[3]: all cases are covered"),
    "leaves exchanged": (damaged(BOTH, "tree", value=[BOTH["tree"][k] for k in (0, 2, 1)]), "tree[1]: proves"),
    "another branch": (damaged(BOTH, "tree", 0, "branch", value="y"), "tree[2]: proves 18, not 20"),
    "a branch twice": (damaged(BOTH, "tree", 1, value={"branch": "x"}), "tree[1]: x is decided already"),
    "a refutation that is none": (damaged(ONE, "tree", value=[{"refuted": 0}]), "tree[0]: inequality 0 can be met"),
    "a leaf of both kinds": (damaged(ONE, "tree", 0, "refuted", value=0), 'tree[0]: unknown key "multipliers"'),
    "a leaf of no kind": (damaged(ONE, "tree", 0, value=7), "tree[0] is 7"),
    "trust above the schedule": (damaged(ONE, "trusted", 0, "bound", value=16), "trusted[0].bound is 16"),
    "trust in nobody": (damaged(ONE, "trusted", 0, "by", value=""), 'trusted[0].by is ""'),
    "trust over two lines": (damaged(ONE, "trusted", 0, "scope", value="any\norder"), "trusted[0].scope is"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_refused(kind):
    document, message = DAMAGES[kind]
    assert message in refusal(document)


def test_the_graph_matters():
    for name, values in {"durations": (5, 3, 1, 1, 1, 2), "sizes": (2, 2, 1, 7, 1, 2), "workspaces": (1,) * 6}.items():
        of = {"durations": GRAPH.durations, "sizes": GRAPH.sizes, name: values}
        assert "another graph" in refusal(ONE, ComputationGraph(NODES, edges=EDGES, **of))
    assert "another graph" in refusal(ONE, ComputationGraph(NODES, GRAPH.durations, GRAPH.sizes, EDGES[:-1]))
    places = [5, 0, 3, 1, 4, 2]  # the same, told in another order
    edges = [(places[u], places[v]) for u, v in reversed(EDGES)]
    nodes, durations, sizes = ([of[places.index(k)] for k in range(6)] for of in (NODES, GRAPH.durations, GRAPH.sizes))
    assert check_certificate(ComputationGraph(nodes, durations, sizes, edges), ONE).bound == 15


def places(value, path=()):
    """The paths of all that is in a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


VALUES = [None, True, -1, 0, 1, 2, 7, HUGE, 1.5, "", "x", "infeasible", [], [[]], {}, {"branch": "y"}]


@pytest.mark.parametrize("document", [ONE, BOTH, ORDERED])
def test_nothing_else_in_any_place_proves_more_than_is_so(document):
    """Everything in turn is removed, or becomes something else: it is refused in a line, or proves what is true."""
    changed = [damaged(document, *path, value=value) for path in places(document) for value in VALUES]
    changed += [damaged(document, *path, remove=True) for path in places(document)]
    refused = 0
    for one in changed:
        try:
            assert check_certificate(GRAPH, one).bound <= document["bound"]
        except CertificateError as error:
            refused += str(error).isprintable()
    assert len(changed) * 0.9 < refused < len(changed)


def test_random_flows_never_prove_too_much():
    """Of flows with random amounts those that are accepted hold for the sets that schedules compute again."""
    rng, accepted = random.Random(0), 0
    for _ in range(3000):
        total = rng.randint(0, 2), rng.randint(0, 2)
        amounts = [total[0]] * 3 + [total[1]] * 3 + [sum(total)] + [rng.randint(0, 1)] * 3
        if rng.random() < 0.5:
            amounts[rng.randrange(10)] += rng.choice([-1, 1])
        entry = {"node": "b", "price": [1, 1], "flow": [[*arc[:3], n] for arc, n in zip(FLOW, amounts, strict=True)]}
        try:
            weights, demand = inequality(GRAPH, "", entry, None, 10)
        except CertificateError:
            continue
        accepted += 1
        assert weights.get(1, 0) >= demand > 0  # computing y again is enough
    assert accepted > 50
