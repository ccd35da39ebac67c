"""Certificates of graphs in place, without concatenations and in parts, which the checker makes of the one in the file.

Each is changed at random: what is accepted still claims no more than brute force finds.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from concatenations import concatenation, joining_graph, least_duration
from few import few
from oracle import best_fixed_order, best_free_order, free_order_schedule
from overwriting import overwriting
from tampering import changed

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.certificates.changes import changes
from moccasin_mzn.bounds.certificates.document import certificate, prove
from moccasin_mzn.graphs.generators.catalogue import generate_network
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import cut, steps, tile
from moccasin_mzn.graphs.zero_copy import changed_graph, zero_copy_concat
from moccasin_mzn.problem.judges.certificates import CertificateError, check_certificate, made_digest
from moccasin_mzn.problem.judges.certified_graphs import certified_graph
from moccasin_mzn.problem.judges.schedules import simulate

MOST = 7
"""Nodes for the oracle."""


def layers(rng: random.Random) -> ComputationGraph:
    """A few layers, some of several rows and columns, of windows, sums and elementwise ones."""
    operators: list[Operator | None] = []
    for _ in range(rng.choice([1, 2, 3, 3])):
        shape, reads = (rng.choice([0, 1, 1, 2, 3, 4]), rng.choice([1, 1, 2])), []
        for source in rng.sample(range(len(operators)), min(len(operators), rng.choice([0, 1, 1, 2]))):
            of = operators[source].shape if operators[source] is not None else (1,)
            if rng.random() < 0.4 and 0 not in of and not reads:
                shape = of
            along = Reach(0, rng.randint(1, 2), rng.randint(1, 3), before=rng.randint(-1, 1))
            own = (
                tuple(map(Reach, range(len(of))))
                if shape == of and rng.random() < 0.6
                else (along, *[None] * (len(of) - 1))
            )
            reads.append(Read(source, of, rng.choice([own, (None,) * len(of)])))
        known = rng.random() < 0.9
        operators.append(Operator("layer", shape, tuple(reads), rng.choice([0, 0, 1, 3])) if known else None)
        if not known:
            operators[-1] = None
    pairs = [(read.source, v) for v, one in enumerate(operators) if one for read in one.reads]
    pairs += [(v - 1, v) for v, one in enumerate(operators) if one is None and v]
    volumes = [1 if one is None else one.elements for one in operators]
    return ComputationGraph(
        range(len(operators)), [rng.randint(0, 9) for _ in operators], [rng.randint(0, 3) * n for n in volumes], pairs,
        operators=operators, workspaces=[rng.choice([0, 0, 2]) for _ in operators],
        computed_once=[0] if rng.random() < 0.1 else (),
    )  # fmt: skip


def cuts(rng: random.Random, graph: ComputationGraph):
    """Some layers cut along some axes, in any order of these."""
    found = {}
    for v, operator in enumerate(graph.operators or ()):
        if operator is not None and rng.random() < 0.8:
            axes = rng.sample([0, 1], rng.choice([1, 1, 2]))
            found[v] = {
                axis: steps(operator.shape[axis], rng.choice([1, 1, 2])) for axis in axes if axis < len(operator.shape)
            }
    return found


def drawn(kind: str, seed: int) -> tuple[ComputationGraph, ComputationGraph]:
    """A graph, and what is asked about: the same in place, without concatenations or in parts."""
    rng = random.Random(f"{kind} {seed}")
    while True:
        if "parts" in kind:
            graph = layers(rng)
        elif "concatenations" in kind:
            graph = joining_graph(rng.randrange(10**6), rng.randint(4, MOST), odd=True)
        else:
            graph = replace(joining_graph(rng.randrange(10**6), rng.randint(1, 6)), operators=None)
        if "place" in kind:
            graph = overwriting(graph, rng.randrange(100)).run_in_place(False)
        try:
            made = cut(graph, cuts(rng, graph)) if "parts" in kind and graph.operators else graph
        except InputError:
            continue
        made = changed_graph(made, "place" in kind, rng.choice([1, 2]) if "concatenations" in kind else None)
        if len(made.nodes) <= MOST and changes(graph, made) is not None:
            return graph, made


KINDS = ["in place", "concatenations", "concatenations in place", "parts", "parts in place"]


def certified(kind: str, seed: int):
    """A graph, a certificate about what is made of it, and that."""
    graph, made = drawn(kind, seed)
    rng = random.Random(seed)
    least, most = max(made.working_sets), simulate(made, made.input_order()).peak
    budget = rng.choice([least, max(0, least - 1), most, rng.randint(least, max(least, most))])
    order = rng.choice([None, made.input_order()])
    found = free_order_schedule(made, budget, 3) if order is None else None
    duration = None if found is None else found.duration
    proof = prove(made, budget, duration, bool, order)
    return graph, certificate(proof, None if found is None else found.sequence, (), graph), made


def truth(graph: ComputationGraph, document, known: dict[str, int | None]) -> int | None:
    """The least duration of what a certificate is about, by brute force; None: there is no schedule."""
    key = json.dumps([document.get("about"), document["order"], document["budget"]])
    if key not in known:
        about, budget = document.get("about"), document["budget"]
        made = graph.run_in_place(about is not None and about["in_place"])
        if about is not None and made_digest(made) != about["graph"]:
            made = certified_graph(graph, about).graph
        if document["order"] is None:
            known[key] = best_free_order(made, budget, 4)
        else:
            known[key] = best_fixed_order(made, [made.position_of(v) for v in document["order"]], budget, None)
    return known[key]


def right(graph: ComputationGraph, document, known) -> bool:
    """Check that a document claims no more than is so, if it is accepted; was it?"""
    try:
        proven = check_certificate(graph, document)
    except CertificateError as error:
        return not (str(error).isprintable() and 10 < len(str(error)) < 400)
    best = truth(graph, document, known)
    assert best is None if proven.bound is None else best is None or proven.bound <= best, document
    return True


@pytest.mark.parametrize(("kind", "seed"), few([(kind, seed) for seed in range(60) for kind in KINDS], keep=20))
def test_whatever_is_accepted_claims_no_more_than_brute_force_finds(kind, seed):
    graph, document, made = certified(kind, seed)
    rng, known = random.Random(seed), {}
    document = json.loads(json.dumps(document))
    assert right(graph, document, known) and check_certificate(graph, document).once == made.total_duration
    accepted = sum(right(graph, changed(document, rng), known) for _ in range(150))
    assert accepted < 120


@pytest.mark.parametrize("kind", KINDS)
def test_much_of_what_recomputation_adds_is_proven(kind):
    """A bound that says nothing would never be too high."""
    tight = set()
    for seed in range(400):
        if len(tight) == 2:
            break
        graph, document, made = certified(kind, seed)
        best = truth(graph, document, {})
        if best is None and document["bound"] == "infeasible":
            tight.add("infeasible")
        elif best == document["bound"] and best > made.total_duration:
            tight.add("recomputed")
    assert tight == {"infeasible", "recomputed"}


@pytest.mark.parametrize("seed", few(range(200), keep=20))
def test_concatenations_are_taken_out_as_views_of_their_inputs(seed):
    """What the checker makes is what `zero_copy_concat` does, and costs what views cost."""
    rng = random.Random(seed)
    graph = joining_graph(seed, 6, odd=True)
    found = zero_copy_concat(graph, alignment := rng.choice([1, 2]))
    if not found.taken_out:
        return
    about = {"in_place": False, "alignment": alignment, "cut": None, "graph": ""}
    some = [v for v in found.taken_out if rng.random() < 0.7]
    for gone in (some, list(found.taken_out)):
        names = [graph.nodes[v] for v in gone]
        try:
            made = certified_graph(graph, {**about, "taken_out": names}).graph
        except CertificateError:  # one that another one's place rests on
            assert gone is some
            continue
        least = max(made.working_sets)
        budget = rng.randint(least, max(least, simulate(made, made.input_order()).peak))
        best = best_free_order(made, budget, 2)
        assert best == least_duration(graph, gone, budget, 2)
        copied = best_free_order(graph, budget, 2)  # a bound holds for schedules with concatenations as well
        assert copied is None or best <= copied - sum(graph.durations[v] for v in gone)
    assert made_digest(made) == made_digest(found.graph)


NOT_JOINED = {
    "changes numbers": concatenation((0, 1), [(1, 4), (1, 8)], unchanged=False),
    "alternates": concatenation((0, 1), [(2, 2), (2, 4)]),
    "reads an input of the network": concatenation((0, None, 1), [(1, 4), (1, 1), (1, 7)]),
    "moves places": Operator("x", (1, 12), (Read(0, (1, 4), (Reach(0), Reach(1, before=1))),
                                            Read(1, (1, 8), (Reach(0), Reach(1, before=4)))), unchanged=True),
    "does not move the second": Operator("x", (1, 12), (Read(0, (1, 4), (Reach(0), Reach(1))),
                                                        Read(1, (1, 8), (Reach(0), Reach(1)))), unchanged=True),
    "reads every second": Operator("x", (1, 12), (Read(0, (1, 4), (Reach(0), Reach(1, stride=2))),
                                                  Read(1, (1, 8), (Reach(0), Reach(1, before=4)))), unchanged=True),
}  # fmt: skip
JOINED = concatenation((0, 1), [(1, 4), (1, 8)])


def joining(operator, sizes=(4, 8, 12, 2), edges=((0, 2), (1, 2), (2, 3)), **facts) -> ComputationGraph:
    return ComputationGraph(tuple("abvc"), (3, 3, 2, 3), sizes, edges, operators=[None, None, operator, None], **facts)


@pytest.mark.parametrize("why", NOT_JOINED)
def test_what_is_no_concatenation_is_not_taken_out(why):
    about = {"in_place": False, "taken_out": ["v"], "alignment": 4, "cut": None, "graph": ""}
    assert certified_graph(joining(JOINED), about).text == "without 1 concatenation (v)"
    with pytest.raises(CertificateError, match="^about.taken_out: v"):
        certified_graph(joining(NOT_JOINED[why]), about)
    for other in ({"alignment": 8}, {"taken_out": ["c"]}, {"taken_out": ["v", "v"]}, {"taken_out": ["w"]}):
        with pytest.raises(CertificateError, match="^about.taken_out"):
            certified_graph(joining(JOINED), {**about, **other})
    more = {"computed_once": ["v"]}, {"workspaces": (0, 0, 1, 0)}, {"edges": ((0, 2), (1, 2))}
    for facts in ({"sizes": (3, 9, 12, 2)}, {"sizes": (4, 9, 12, 2)}, {"adjacent": [[], [], [[0, 1]], []]}, *more):
        with pytest.raises(CertificateError, match="^about.taken_out: v"):
            certified_graph(joining(JOINED, **facts), about)


def test_no_output_is_in_two_places():
    """b and then c for one, c and then b for the other."""
    graph = ComputationGraph(
        tuple("abvwc"), (1,) * 5, (4, 4, 8, 8, 1), [(0, 2), (1, 2), (1, 3), (0, 3), (2, 4), (3, 4)],
        operators=[None, None, concatenation((0, 1), [(1, 4), (1, 4)]), concatenation((1, 0), [(1, 4), (1, 4)]), None],
    )  # fmt: skip
    about = {"in_place": False, "alignment": 1, "cut": None, "graph": ""}
    for one in ("v", "w"):
        assert len(certified_graph(graph, {**about, "taken_out": [one]}).graph.nodes) == 4
    with pytest.raises(CertificateError, match="cannot be in two places"):
        certified_graph(graph, {**about, "taken_out": ["v", "w"]})


@pytest.mark.parametrize("first", few(range(0, 3000, 300), keep=1))
def test_parts_are_those_that_layers_are_cut_into(first):
    kinds = set()
    for seed in range(first, first + 300):
        rng = random.Random(seed)
        graph = layers(rng)
        graph = overwriting(graph, seed).run_in_place(False) if rng.random() < 0.5 else graph
        if graph.operators is None:
            continue
        try:
            made = cut(graph, cuts(rng, graph))
        except InputError:
            continue
        about = changes(graph, made)
        if about is None:
            kinds.add("whole")
            continue
        found = certified_graph(graph, about)
        assert made_digest(found.graph) == made_digest(made) == about["graph"]
        kinds |= {"steps" for part in made.parts or () if part and part.step} | {"cut"}
        kinds |= {"left out"} if made.total_duration < graph.total_duration else set()
    assert kinds >= {"whole", "steps", "cut", "left out"}


@pytest.mark.parametrize("name", ["mobilenet", pytest.param("unet", marks=pytest.mark.full),
                                  pytest.param("densenet121", marks=pytest.mark.full)])  # fmt: skip
@pytest.mark.parametrize("how", [{"rows": 16}, {"rows": 20, "columns": 30}, {"rows": 28, "channels": 64}], ids=str)
def test_parts_of_networks(name, how):
    graph = generate_network(name, batch=1)
    for made in (tile(graph, **how), tile(graph, **how).run_in_place()):
        assert made_digest(certified_graph(graph, about := changes(graph, made)).graph) == about["graph"]


def test_single_rows_are_as_good_as_any():
    graph = generate_network("mobilenet", batch=1, input=(32, 32, 3))
    for rows in (1, 2):
        made = tile(graph, rows=rows, layers=["conv*"])
        proof = prove(made, max(made.working_sets), None, lambda: True)
        proven = check_certificate(graph, json.loads(json.dumps(certificate(proof, None, (), graph))))
        assert proven.about.endswith("in any larger parts along the same axes too") == (rows == 1)
        in_order = prove(made, max(made.working_sets), None, lambda: True, made.input_order())
        assert check_certificate(graph, certificate(in_order, None, (), graph)).about.endswith("parts")


def test_only_layers_that_are_cut_are_named():
    """With one more that is not, tiles of a single place would pass for rows, whose durations sum to those of larger
    parts: of 2 in four tiles, a column of two takes 1, and its tiles take 0 together, or 2."""
    graph = generate_network("mobilenet", batch=1, input=(32, 32, 3))
    shapes = {
        node: operator.shape for node, operator in zip(graph.nodes, graph.operators or (), strict=True) if operator
    }
    tiles, other = [node for node, shape in shapes.items() if min(shape[1:3]) > 1][:2]
    axes = [[axis, [*range(shapes[tiles][axis] + 1)]] for axis in (1, 2)]
    about = {"in_place": False, "taken_out": [], "alignment": 1, "graph": ""}
    assert not certified_graph(graph, {**about, "cut": [[tiles, axes]]}).is_single
    assert certified_graph(graph, {**about, "cut": [[tiles, axes[:1]]]}).is_single
    for cut_of in ([[tiles, axes], [other, []]], [[other, []], [tiles, axes]], [[other, []]]):
        with pytest.raises(CertificateError, match="cannot be cut"):
            certified_graph(graph, {**about, "cut": cut_of})
