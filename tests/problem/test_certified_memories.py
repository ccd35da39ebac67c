"""Certificates of plans in several memories: a bound of one memory, never above the best plan, whatever is changed."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from few import few
from machine_cases import draw_platform, machine_of
from soaking.exact_plans import best_plan
from soaking.exact_questions import draw_graph, exact_graph
from tampering import changed

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.certificates.document import certificate, certificate_text, machine_document, prove_in_blocks
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import CertificateError, check_certificate
from moccasin_mzn.problem.judges.certified_memories import in_one_memory
from moccasin_mzn.problem.platform import OBJECTIVES, Link, Memory, Platform
from moccasin_mzn.problem.stages import Stages
from moccasin_mzn.search.certifying import _About

WAYS = "any order", "in order", "in blocks"


def drawn(rng: random.Random) -> Platform:
    """A machine, often one whose first memory has little room and a slow one by its side."""
    while True:
        try:
            platform = draw_platform(rng, 5)
        except InputError:  # such as of a graph that cannot be computed anywhere
            continue
        graph = platform.graph
        if rng.random() < 0.4:
            return platform
        graph = draw_graph(rng, 5, crowded=True) if rng.random() < 0.7 else graph
        n = len(graph.nodes)
        low = max(1, *graph.working_sets)
        rows = [rng.choice([0, 1, size, 3 * size]) for size in graph.sizes]
        links = [Link(a, b, rows, [0] * n) for a, b in ((0, 1), (1, 0))]
        room = rng.choice([None, low, sum(graph.sizes)])
        return Platform(graph, (Memory("local", low, graph.durations), Memory("slow", room)), links)


def document_of(platform: Platform, way: str, goal: str, rng: random.Random, best: int | None):
    """A certificate, as its text has it."""
    graph = platform.graph
    about = _About(Instance.build(graph, 1), best, None, machine_document(platform, goal))
    if way == "in blocks":
        instance, one = about.in_one_memory(blocks=True)
        stages = Stages.of(instance.relaxed)
        chosen = rng.sample(range(stages.n), rng.randint(0, stages.n))
        proof = prove_in_blocks(instance, Relaxation.of(stages, chosen, range(stages.n)), best, bool, one)
    else:
        proof = about.prove(bool, None if way == "any order" else graph.input_order())
    proof = replace(proof, graph=graph, memories=about.memories)
    return json.loads(certificate_text(certificate(proof, None)))


def platform_in(graph: ComputationGraph, machine) -> Platform:
    """The machine of a certificate, read by itself, where everything that it counts is a duration."""
    order = [graph.position_of(node) for node in machine["nodes"]]

    def by_node(row):
        return None if row is None else tuple(row[order.index(v)] for v in range(len(order)))

    memories = [Memory(one["name"], one["budget"], by_node(one["costs"]), accesses=by_node(one["accesses"]))
                for one in machine["memories"]]  # fmt: skip
    links = [Link(one["source"], one["target"], by_node(one["costs"]), (0,) * len(order)) for one in machine["links"]]
    several = any(one.accesses is not None for one in memories)
    return Platform(graph, tuple(memories), tuple(links), (0,) * len(memories) if several else ())


def truth(graph: ComputationGraph, document) -> int | None:
    """The least duration of a plan on the machine of a certificate, by brute force; None: there is no plan.

    Raises:
        InputError: no program runs on such a machine.
        MemoryError: there are too many states.
    """
    about = document.get("about")
    graph = graph.run_in_place(about is not None and about["in_place"])
    tiny, platform = exact_graph(graph), platform_in(graph, document["memories"])
    mode = "free" if document["order"] is None else "first"
    tiny.order = tiny.order if document["order"] is None else [graph.position_of(v) for v in document["order"]]
    found = best_plan(tiny, machine_of(platform), mode, None, states=20_000)
    return None if found is None else found[0]


def right(graph: ComputationGraph, document) -> bool:
    """Check that a document claims no more than is so, if it is accepted; was it?"""
    try:
        proven = check_certificate(graph, document)
    except CertificateError as error:
        return not (str(error).isprintable() and 10 < len(str(error)) < 400)
    try:
        best = truth(graph, document)
    except (InputError, MemoryError):
        return True
    assert best is None if proven.bound is None else best is None or proven.bound <= best, document
    return True


@pytest.mark.parametrize(("way", "seed"), few([(way, seed) for seed in range(150) for way in WAYS], keep=24))
def test_whatever_is_accepted_claims_no_more_than_the_best_plan_takes(way, seed):
    rng = random.Random(f"{way} {seed}")
    platform = drawn(rng)
    graph = platform.graph.run_in_place(False)
    tiny, goal = exact_graph(platform.graph), "duration" if platform.has_accesses else rng.choice(OBJECTIVES)
    mode = "free" if way == "any order" else "first"
    try:
        found = best_plan(tiny, machine_of(platform), mode, None, goal, states=20_000)
    except MemoryError:
        return
    document = document_of(platform, way, goal, rng, None if found is None else found[0])
    assert right(graph, document) and (found is None or check_certificate(graph, document).bound <= found[0])
    accepted = sum(right(graph, changed(document, rng)) for _ in range(25))
    assert accepted < 25


@pytest.mark.parametrize("way", [*WAYS[:2], pytest.param(WAYS[2], marks=pytest.mark.full)])
def test_optima_that_need_copies_or_recomputations_are_proven(way):
    """One that says nothing would never be too high."""
    kinds = set()
    for seed in range(300):
        rng = random.Random(f"met {way} {seed}")
        platform = drawn(rng)
        if "copied" in kinds or (kinds and way == "in blocks"):
            break
        if len(platform.graph.nodes) > 6:
            continue
        try:
            mode = "free" if way == "any order" else "first"
            found = best_plan(exact_graph(platform.graph), machine_of(platform), mode, None, states=5000)
        except MemoryError:
            continue
        document = document_of(platform, way, "duration", rng, None if found is None else found[0])
        proven = check_certificate(platform.graph.run_in_place(False), document)
        if found is None and proven.bound is None:
            kinds.add("infeasible")
        elif found is not None and proven.once < proven.bound == found[0]:
            kinds.add("copied" if any(source is not None for *_, source in found[1]) else "recomputed")
    assert "copied" in kinds if way != "in blocks" else kinds


CHAIN = ComputationGraph(tuple("xabz"), (5, 1, 1, 1), (4, 1, 7, 1), [(0, 1), (1, 2), (2, 3), (0, 3)])
"""While b is computed beside a, x is copied away and back, or computed again."""


def machine(local=12, back=1, away=1, **more):
    links = [{"source": 0, "target": 1, "costs": [away] * 4}, {"source": 1, "target": 0, "costs": [back] * 4}]
    memories = [{"name": "local", "budget": local, "costs": [5, 1, 1, 1], "accesses": None},
                {"name": "slow", "budget": None, "costs": None, "accesses": None}]  # fmt: skip
    return {"goal": "duration", "nodes": list("xabz"), "memories": memories, "links": links, **more}


@pytest.mark.parametrize(("blocks", "again"), [(False, (2, 1, 1, 1)), (True, (1, 1, 1, 1))])
def test_what_it_takes_to_have_an_output_again(blocks, again):
    """Once away and back; in each block only back, as it may have been away before."""
    one = in_one_memory(CHAIN, machine(), blocks)
    assert (one.graph.durations, one.once, one.budget, one.is_computed) == (again, 8, 12, False)
    assert one.text == "in plans on local: 12, slow: no limit"
    dear = in_one_memory(CHAIN, machine(back=9), blocks)
    assert dear.graph.durations == CHAIN.durations
    only_away = in_one_memory(CHAIN, machine() | {"links": machine()["links"][:1]}, blocks)
    assert only_away.is_computed and only_away.graph.durations == CHAIN.durations


def test_the_least_of_devices_and_accesses_counts():
    memories = [{"name": "fast", "budget": 3, "costs": [5, 1, 1, 1], "accesses": [0, 1, 2, 0]},
                {"name": "large", "budget": 9, "costs": [5, 1, 1, 1], "accesses": [1, 3, 2, 4]}]  # fmt: skip
    one = in_one_memory(CHAIN, machine(memories=memories, links=[]), False)
    assert (one.budget, one.once, one.graph.durations) == (12, 8 + 2 * 1 + 2 * 2, (5, 1 + 1, 1 + 1 + 2, 1 + 2))
    memories = [{"name": "gpu", "budget": 3, "costs": [5, 1, None, 1], "accesses": None},
                {"name": "cpu", "budget": None, "costs": [9, 0, 3, 4], "accesses": None}]  # fmt: skip
    one = in_one_memory(CHAIN, machine(memories=memories), False)
    assert (one.budget, one.graph.durations, one.is_computed) == (3 + CHAIN.total_size, (5, 0, 3, 1), True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": list("xab")}, {"nodes": list("xabb")}, {"memories": []}, {"more": 1},
        {"links": [{"source": 0, "target": 2, "costs": [1] * 4}]},
        {"links": [{"source": 0, "target": 0, "costs": [1] * 4}]},
        {"links": [{"source": 0, "target": 1, "costs": [1] * 3}]},
        {"memories": [{"name": "a", "budget": 9, "costs": [1, 1, None, 1], "accesses": None}]},
        {"memories": [{"name": "a", "budget": 9, "costs": [1, 1, -1, 1], "accesses": None}]},
        {"memories": [{"name": "a", "budget": 9, "costs": [1] * 4, "accesses": [None] * 4}]},
        {"goal": "size"}, {"goal": "traffic"},
        {"memories": [{"name": "a", "budget": -9, "costs": [1] * 4, "accesses": None}]},
        {"memories": [{"name": "a", "budget": 9, "costs": [2**60] * 4, "accesses": None}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_machine_is_refused(wrong):
    with pytest.raises(CertificateError, match="^memories"):
        in_one_memory(CHAIN, machine(**wrong) if set(wrong) != {"more"} else machine() | wrong, False)
