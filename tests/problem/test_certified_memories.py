"""Certificates of plans in several memories: a bound of one memory, never above the best plan, whatever is changed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest
from few import few
from machine_cases import draw_plan, draw_platform, machine_of
from soaking.exact_plans import account_of_plan, best_plan
from soaking.exact_questions import draw_graph, exact_graph
from tampering import changed

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.certificates.document import certificate, certificate_text, machine_document, prove_in_blocks
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import CertificateError, check_certificate
from moccasin_mzn.problem.judges.certified_machines import machine_in
from moccasin_mzn.problem.judges.certified_memories import in_one_memory
from moccasin_mzn.problem.judges.certified_plans import plan_total
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Link, Memory, Platform
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


def document_of(platform: Platform, way: str, goal: str, rng: random.Random, found):
    """A certificate, as its text has it, with the best plan."""
    graph, (best, plan) = platform.graph, found or (None, None)
    actions = None if plan is None else tuple(Action(*step) for step in plan)
    about = _About(Instance.build(graph, 1), best, None, machine_document(platform, goal, actions))
    if way != "in blocks" and about.faster and rng.random() < 0.8:
        about = replace(about, memories={**about.memories, "near": rng.choice(about.faster)})
    if way == "in blocks":
        instance, one = about.in_one_memory(blocks=True)
        stages = Stages.of(instance.relaxed)
        chosen = rng.sample(range(stages.n), rng.randint(0, stages.n))
        proof = prove_in_blocks(instance, Relaxation.of(stages, chosen, range(stages.n)), best, bool, one)
    else:
        proof = about.prove(bool, None if way == "any order" else graph.input_order())
    proof = replace(proof, graph=graph, memories=about.memories)
    return json.loads(certificate_text(certificate(proof, None, duration=best)))


def platform_in(graph: ComputationGraph, machine) -> Platform:
    """The machine of a certificate, read by itself, where everything that it counts is a duration."""
    order = [graph.position_of(node) for node in machine["nodes"]]

    def by_node(row):
        return None if row is None else tuple(row[order.index(v)] for v in range(len(order)))

    memories = [Memory(one["name"], one["budget"], by_node(one["costs"]), accesses=by_node(one["accesses"]))
                for one in machine["memories"]]  # fmt: skip
    links = [Link(one["source"], one["target"], by_node(one["costs"]), (0,) * len(order)) for one in machine["links"]]
    return Platform(graph, tuple(memories), tuple(links), [one["device"] for one in machine["memories"]])


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
@pytest.mark.few(10)
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
    document = document_of(platform, way, goal, rng, found)
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
        document = document_of(platform, way, "duration", rng, found)
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
    memories = [{"name": "local", "device": 0, "budget": local, "costs": [5, 1, 1, 1], "accesses": None},
                {"name": "slow", "device": 1, "budget": None, "costs": None, "accesses": None}]  # fmt: skip
    return {
        "goal": "duration",
        "nodes": list("xabz"),
        "plan": None,
        "near": [0],
        "memories": memories,
        "links": links,
        **more,
    }


def one_of(document, blocks):
    return in_one_memory(CHAIN, machine_in(CHAIN, document), blocks)


@pytest.mark.parametrize(("blocks", "again"), [(False, (2, 1, 1, 1)), (True, (1, 1, 1, 1))])
def test_what_it_takes_to_have_an_output_again(blocks, again):
    """Once away and back; in each block only back, as it may have been away before."""
    one = one_of(machine(), blocks)
    assert (one.graph.durations, one.once, one.budget, one.is_computed) == (again, 8, 12, False)
    assert one.text == "in plans on local: 12, slow: no limit"
    dear = one_of(machine(back=9), blocks)
    assert dear.graph.durations == CHAIN.durations
    only_away = one_of(machine() | {"links": machine()["links"][:1]}, blocks)
    assert only_away.is_computed and only_away.graph.durations == CHAIN.durations


def test_the_least_of_devices_and_accesses_counts():
    one = {"device": 0, "costs": [5, 1, 1, 1]}
    memories = [{"name": "fast", "budget": 3, "accesses": [0, 1, 2, 0], **one},
                {"name": "large", "budget": 9, "accesses": [1, 3, 2, 4], **one}]  # fmt: skip
    one = one_of(machine(memories=memories, links=[], near=[0, 1]), False)
    assert (one.budget, one.once, one.graph.durations) == (12, 8 + 2 * 1 + 2 * 2, (5, 1 + 1, 1 + 1 + 2, 1 + 2))
    one = one_of(machine(memories=memories, links=[]), False)  # or they lie in the other one, z without a reader
    assert (one.budget, one.once, one.graph.durations) == (3, 8 + 2 * 1 + 2 * 2, (3, 2, 0, 3)) and not one.at_hand
    for near, blocks in (([0], True), ([], False), ([1, 0], False), ([2], False)):
        with pytest.raises(CertificateError, match="near"):
            one_of(machine(memories=memories, links=[], near=near), blocks)
    memories = [{"name": "gpu", "device": 0, "budget": 3, "costs": [5, 1, None, 1], "accesses": None},
                {"name": "cpu", "device": 1, "budget": None, "costs": [9, 0, 3, 4], "accesses": None}]  # fmt: skip
    one = one_of(machine(memories=memories, near=[0, 1]), False)
    assert (one.budget, one.graph.durations, one.is_computed) == (3 + CHAIN.total_size, (5, 0, 3, 1), True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": list("xab")}, {"nodes": list("xabb")}, {"memories": []}, {"more": 1},
        {"links": [{"source": 0, "target": 2, "costs": [1] * 4}]},
        {"links": [{"source": 0, "target": 0, "costs": [1] * 4}]},
        {"links": [{"source": 0, "target": 1, "costs": [1] * 3}]},
        {"memories": [{"name": "a", "device": 0, "budget": 9, "costs": [1, 1, None, 1], "accesses": None}]},
        {"memories": [{"name": "a", "device": 0, "budget": 9, "costs": [1, 1, -1, 1], "accesses": None}]},
        {"memories": [{"name": "a", "device": 0, "budget": 9, "costs": [1] * 4, "accesses": [None] * 4}]},
        {"goal": "size"}, {"goal": "traffic"},
        {"memories": [{"name": "a", "device": 0, "budget": -9, "costs": [1] * 4, "accesses": None}]},
        {"memories": [{"name": "a", "device": 0, "budget": 9, "costs": [2**60] * 4, "accesses": None}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_machine_is_refused(wrong):
    with pytest.raises(CertificateError, match="^memories"):
        one_of(machine() | wrong, False)


@pytest.mark.parametrize("first", few(range(0, 4000, 100), keep=2))
def test_plans_are_accepted_if_they_are_the_judges(first):
    """Plans at random, some with an action lost, moved, or in another memory."""
    kinds = set()
    for seed in range(first, first + 100):
        rng = random.Random(f"plan {seed}")
        platform = draw_platform(rng, 4)
        tiny, machine, graph = exact_graph(platform.graph), machine_of(platform), platform.graph
        plan = draw_plan(rng, tiny, machine)
        for _ in range(rng.choice([0, 0, 1]) if plan else 0):
            v, m, source = plan.pop(at := rng.randrange(len(plan)))
            move = rng.choice([(v, rng.randrange(len(machine.budgets)), source), (v, m, None), None])
            plan[at:at] = [] if move is None else [move]
        if rng.random() < 0.3:
            least = min(account_of_plan(tiny, machine, plan).peaks)
            platform = replace(platform, memories=[replace(one, budget=least) for one in platform.memories])
            machine = machine_of(platform)
        judged = account_of_plan(tiny, machine, plan)
        once = [v for v in graph.computed_once if sum(u == v and source is None for u, _, source in plan) > 1]
        kinds |= {kind for kind, _ in judged.flaws} or {"none"}
        document = machine_document(platform, "duration", tuple(Action(*step) for step in plan))
        if judged.flaws or once:
            with pytest.raises(CertificateError, match="^memories.plan"):
                plan_total(graph, machine_in(graph, document), None)
        else:
            assert plan_total(graph, machine_in(graph, document), None) == judged.totals[0]
    assert kinds >= {"none", "over-budget", "never-computed", "missing-input"}


@pytest.mark.parametrize(("rate", "added"), [(1, 5), (0, 0), (Fraction(1, 4), 3), (9, 5)])
def test_what_does_not_fit_in_the_faster_memory_costs_accesses_or_a_recomputation(rate, added):
    """While b is computed, x is in the slow memory, written once and read twice, or is computed once more."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    graph = ComputationGraph(tuple("xabcz"), (5, 9, 30, 1, 1), (4, 1, 7, 1, 1), edges)
    slow = [ceil(size * rate) for size in graph.sizes]
    memories = Memory("fast", 10, graph.durations), Memory("slow", None, graph.durations, accesses=slow)
    platform = Platform(graph, memories, devices=(0, 0))
    about = _About(Instance.build(graph, 1), None, None, machine_document(platform, "duration"))
    assert about.faster == ([[0]] if rate else [])
    bounds = []
    for near in (None, *about.faster):
        one = about if near is None else replace(about, memories={**about.memories, "near": near})
        document = json.loads(certificate_text(certificate(replace(one.prove(bool), graph=graph), None)))
        bounds.append(check_certificate(graph, document).bound)
    assert max(bounds) == best_plan(exact_graph(graph), machine_of(platform))[0] == 46 + added
