"""A certificate, written: a schedule, and the cases, duals and flows that prove a bound on all schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.bounds.certificates.blocks import BlockCases, Blocks
from moccasin_mzn.bounds.certificates.cases import NEVER, Case, Cases, Cover, Pool, in_order, proven
from moccasin_mzn.bounds.certificates.changes import changes
from moccasin_mzn.bounds.flow_covers.cuts import MomentNetwork, Moments
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import relaxed
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import (
    ABOUT,
    ANY_ORDER,
    FORMAT,
    IN_ORDER,
    INFEASIBLE,
    MEMORIES,
    VERSION,
    CertificateError,
    Trust,
    check_certificate,
    graph_digest,
)
from moccasin_mzn.problem.judges.certified_memories import OneMemory
from moccasin_mzn.problem.platform import Link, Memory, Plan, Platform


class OrderedNetwork(MomentNetwork):
    """The network where the order of first computations is given: what is before and after each is known."""

    def __init__(self, graph: ComputationGraph, order: Sequence[int], is_computed: bool = True) -> None:
        super().__init__(graph, (), is_computed)
        self._place = np.empty(len(order), np.int64)
        self._place[list(order)] = np.arange(len(order))

    def reach(self, node: int) -> tuple[Array, Array]:
        """bool[n] each: nodes before and after this one."""
        return self._place < self._place[node], self._place > self._place[node]


@dataclass(frozen=True)
class Proof:
    """What is proven of a graph and a budget."""

    of: Pool | Blocks
    """The inequalities."""
    top: Case
    order: Sequence[int] | None
    """The order of first computations in the schedules that it ranges over; None: all schedules."""
    bound: int | None
    """No such schedule is shorter; None if absent."""
    unit: int
    """Durations are counted in this."""
    graph: ComputationGraph
    """The graph that it is about."""
    budget: int
    least: int
    """The duration of every node once."""
    memories: JsonObject | None = None
    """The machine, if it is about plans of several memories."""


def prove(
    graph: ComputationGraph, budget: int, duration: int | None, stop: Callable[[], bool],
    order: Sequence[int] | None = None, one: OneMemory | None = None,
) -> Proof:  # fmt: skip
    """The best bound by cases of what is computed more than once.

    Args:
        duration: of a schedule; a bound that meets it is enough.
        stop: asked often; the bound is then what is proven so far.
        order: of first computations; None: any.
        one: plans of several memories as one, which the graph and the budget are from; None: of one memory.
    """
    less, more = relaxed(graph)  # of which the inequalities are those of the graph in place, as the judge has them
    kind, least = (True, graph.total_duration) if one is None else (one.is_computed, one.once)
    network = MomentNetwork(less, (), kind) if order is None else OrderedNetwork(less, order, kind)
    moments = Moments(network)
    pool = Pool(moments, budget + more, one is None or one.at_hand)
    top = Cases(pool, None if duration is None else (duration - least) // moments.unit, stop).run()
    added = proven(top)
    return Proof(
        pool, top, order, None if added is None else least + added * moments.unit, moments.unit, graph, budget, least
    )


def prove_in_blocks(
    instance: Instance, relaxation: Relaxation, duration: int | None, stop: Callable[[], bool],
    one: OneMemory | None = None,
) -> Proof:  # fmt: skip
    """The best bound on schedules with first computations in the instance's order, by cases of a block relaxation of
    it, without limits on computations; the arguments are those of `prove`."""
    graph, less = instance.graph, instance.relaxed
    kind, least = (True, graph.total_duration) if one is None else (one.is_computed, one.once)
    blocks = Blocks(less.graph, less.budget, relaxation, instance.order, kind)
    top = BlockCases(blocks, None if duration is None else (duration - least) // blocks.unit, stop).run()
    added = proven(top)
    bound = None if added is None else least + added * blocks.unit
    return Proof(blocks, top, instance.order, bound, blocks.unit, graph, instance.budget, least)


def certificate(
    proof: Proof, sequence: Sequence[int] | None, trusted: Iterable[Trust] = (), given: ComputationGraph | None = None,
    duration: int | None = None,
) -> JsonObject:  # fmt: skip
    """The document of a proof, as the judge has accepted it.

    Args:
        sequence: a schedule within the budget, positions in `graph.nodes`; None: none is known.
        trusted: claims of solvers; those that are proven are left out.
        given: the graph that the proof's graph was made of: cut into parts, or with concatenations taken out; None: it
            is that.
        duration: what a plan of several memories takes.

    Raises:
        JudgeError: the judge refuses it.
    """
    graph, order, bound = proof.graph, proof.order, proof.bound
    given = graph if given is None else given
    used, tree = _tree(proof)
    sights, inequalities = _rules(proof.of, used) if isinstance(proof.of, Blocks) else _sums(proof.of, used)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "scope": ANY_ORDER if order is None else IN_ORDER,
        "graph": graph_digest(given),
        **({} if (about := changes(given, graph)) is None else {ABOUT: about}),
        **({} if proof.memories is None else {MEMORIES: proof.memories}),
        "order": None if order is None else [graph.nodes[v] for v in order],
        "sights": [graph.nodes[v] for v in sights],
        "blocks": isinstance(proof.of, Blocks),
        "budget": proof.budget,
        "schedule": None if sequence is None else [graph.nodes[v] for v in sequence],
        "duration": duration if sequence is None else sum(graph.durations[v] for v in sequence),
        "bound": INFEASIBLE if bound is None else bound,
        "inequalities": inequalities,
        "tree": tree,
        "trusted": [
            {"by": one.by, "scope": one.scope, "bound": INFEASIBLE if one.bound is None else one.bound}
            for one in trusted
            if bound is not None and (one.bound is None or one.bound > bound)
        ],
    }
    try:
        check_certificate(given, document)
    except CertificateError as error:
        raise JudgeError(f"the certificate is wrong: {error}") from None
    return document


def machine_document(
    platform: Platform, goal: str, plan: Plan | None = None, near: Sequence[int] | None = None
) -> JsonObject:  # fmt: skip
    """Return the machine of plans as certificates have it, with what the goal counts: a duration, energy or traffic.

    Args:
        near: the memories that count as one; None: all in which something is computed.
    """

    def costs(of: Memory | Link) -> Sequence[int | None] | None:
        if goal == "traffic" and isinstance(of, Link):
            return platform.graph.sizes
        if goal == "traffic":
            return of.durations and tuple(None if each is None else 0 for each in of.durations)
        return of.durations if goal == "duration" else of.energies

    memories = [
        {"name": one.name, "device": device, "budget": one.budget, "costs": costs(one), "accesses": one.accesses}
        for one, device in zip(platform.memories, platform.devices, strict=True)
    ]
    links = [{"source": one.source, "target": one.target, "costs": costs(one)} for one in platform.links]
    nodes, memories_of = platform.graph.nodes, platform.memories
    if near is None:
        near = [k for k, one in enumerate(memories_of) if any(cost is not None for cost in one.durations or ())]
    actions = None if plan is None else [(nodes[one.node], one.memory, one.source) for one in plan]
    return as_json({"goal": goal, "nodes": nodes, "plan": actions, "near": near, "memories": memories, "links": links})


def as_json(value: Json) -> Json:
    """Return a value with lists for tuples."""
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list | tuple) else value


def certificate_text(document: JsonObject) -> str:
    """The text of its file: a line for each inequality and each case."""
    lines = []
    for key, value in document.items():
        text = json.dumps(value, separators=(",", ":"))
        if key in ("inequalities", "tree") and value:
            text = "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in value) + "\n]"
        lines.append(f"{json.dumps(key)}: {text}")
    return "{" + ",\n".join(lines) + "}\n"


def _tree(proof: Proof) -> tuple[list[int], list[JsonObject]]:
    """The inequalities that the cases use, by index, and the cases, in which they are renumbered."""
    graph, unit = proof.graph, proof.unit
    enough = NEVER if proof.bound is None else (proof.bound - proof.least) // unit
    number: dict[int, int] = {}
    items: list[JsonObject] = []
    for case in in_order(proof.top, enough):
        if case.refuted is None and case.branch is not None and case.bound < enough:
            kind, j, u = case.branch if isinstance(case.branch, tuple) else ("again", 0, case.branch)
            items.append({"branch": [kind, j, graph.nodes[u]]})
            continue
        used = case.multipliers if case.refuted is None else case.refuted
        factors = [[number.setdefault(k, len(number)), by * unit] for k, by in used.factors]
        items.append({"multipliers": factors, "denominator": 0 if case.refuted else 1 << used.bits})
    return list(number), items


def _rules(blocks: Blocks, used: Sequence[int]) -> tuple[list[int], list[Json]]:
    """The sights, and rules of them."""
    rules = [blocks.rows[k].rule for k in used]
    return blocks.sights, [[name, j, *(blocks.graph.nodes[u] for u in nodes)] for name, j, *nodes in rules]


def _sums(pool: Pool, used: Sequence[int]) -> tuple[list[int], list[Json]]:
    """The sights, and the flow of each inequality as a sum of rules: an arc is a rule, what it takes is the factor."""
    covers = [pool.covers[k] for k in used]
    sights = list(dict.fromkeys(cover.node for cover in covers))
    reads = "leaves" if pool.moments.network.is_computed else "waits"
    entries = [_sum(pool.graph, cover, sights.index(cover.node), reads) for cover in covers]
    for entry, cover in zip(entries, covers, strict=True):
        j, by = sights.index(cover.node), cover.price.numerator
        entry["sum"] += [["lies", j, pool.graph.nodes[u], by * amount] for u, amount in pool.needed(cover)]
    return sights, entries


def _sum(graph: ComputationGraph, cover: Cover, j: int, reads: str) -> JsonObject:
    nodes, by = graph.nodes, cover.price.denominator
    ends: dict[str, tuple[str, Sequence[tuple[int, ...]]]] = {
        "again": ("comes", [(u,) for u in range(len(nodes))]), "reads": (reads, graph.edges),
        "closes": ("closes", graph.edges),
    }  # fmt: skip
    terms = [["sight", j, nodes[cover.node], cover.price.numerator]]
    for name, (rule, arcs) in ends.items():
        for k, amount in zip(*(of.tolist() for of in cover.arcs[name]), strict=True):
            if arcs[k][-1] != cover.node:  # what the sight itself reads is retained
                terms.append([rule, j, *(nodes[u] for u in arcs[k]), amount * by])
    return {"sum": terms, "divisor": by}
