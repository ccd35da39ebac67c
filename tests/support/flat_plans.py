"""Graphs with all features of memory, random plans for them, and plans executed in flat memories, number by number.

Of the package only graphs and platforms are used: what a plan does to memory is written down once more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from outputs_oracle import draw_operations, overwriting_outputs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.platform import Action, Link, Memory, Plan, Platform

KINDS = ("paging", "devices", "pools", "one")


def draw_graph(seed: int, most: int = 5, grain: int = 1) -> ComputationGraph:
    """A graph with operations of several outputs, some with workspaces, outputs in place or read as one.

    Args:
        grain: sizes are multiples of it.
    """
    rng = random.Random(f"flat {seed}")
    operations, _, _ = draw_operations(seed, most)
    graph = overwriting_outputs(operations, seed) if rng.random() < 0.7 else operations.graph
    workspaces = [grain * taken for taken in graph.workspaces] if graph.workspaces and rng.random() < 0.7 else None
    graph = replace(graph, sizes=[grain * size for size in graph.sizes], workspaces=workspaces)
    return _side_by_side(graph, rng) if rng.random() < 0.5 else graph


def _side_by_side(graph: ComputationGraph, rng: random.Random) -> ComputationGraph:
    """Some operations read some of their inputs as one; these neither overwrite nor are overwritten."""
    rows: list[list[list[int]]] = [[] for _ in graph.nodes]
    for v in range(len(graph.nodes)):
        inputs = [u for u in graph.predecessors[v] if graph.sizes[u]]
        if graph.operation_of[v] == v and len(inputs) > 1 and rng.random() < 0.7:
            group = rng.sample(inputs, rng.randint(2, len(inputs)))
            bound = {u for row in rows for one in (*row, group) for u in one}
            overwritten = [[] if x in bound else [u for u in row if u not in bound]
                           for x, row in enumerate(graph.in_place or [[]] * len(rows))]  # fmt: skip
            rows[v].append(group)
            try:
                replace(graph, adjacent=rows, in_place=overwritten)
            except InputError:  # others have them elsewhere
                rows[v].pop()
            else:
                graph = replace(graph, in_place=overwritten)
    return replace(graph, adjacent=rows)


def draw_platform(graph: ComputationGraph, kind: str, seed: int) -> Platform:
    """A platform without budgets; of several devices the second one may not compute all operations."""
    rng = random.Random(f"platform {seed}")
    first, n = Memory("m0", None, graph.durations), len(graph.nodes)
    costs = tuple(rng.randint(0, 3) for _ in range(n))
    both = (Link(0, 1, costs, costs), Link(1, 0, costs, costs))
    if kind == "one":
        return Platform(graph, (first,))
    if kind == "paging":
        return Platform(graph, (first, Memory("slow", None)), both)
    if kind == "pools":
        return Platform(graph, (first, Memory("m1", None, graph.durations, None, costs)), devices=(0, 0))
    cannot = {v for v in range(n) if graph.operation_of[v] == v and rng.random() < 0.2}
    there = [None if graph.operation_of[v] in cannot else cost for v, cost in enumerate(graph.durations)]
    return Platform(graph, (first, Memory("m1", None, there)), both)


def draw_plan(platform: Platform, seed: int, more: int = 6) -> Plan:
    """A random walk over what may be computed and copied, until every node has been computed, and some steps more."""
    rng, graph = random.Random(f"plan {seed}"), platform.graph
    plan: list[Action] = []
    place: dict[tuple[int, int], int] = {}  # node and device: the memory of its latest copy
    while more > 0 or len({action.node for action in plan if action.source is None}) < len(graph.nodes):
        seen = {action.node for action in plan if action.source is None}
        ready = [*_computable(platform, place)]
        fresh = [(v, m) for v, m in ready if not seen.issuperset((v, *graph.outputs_of[v]))]
        copies = [(v, a, b) for a, b in platform.link_between for v in range(len(graph.nodes)) if (v, a) in place]
        more -= bool(plan)
        if copies and rng.random() < (0.9 if not ready else 0.3):
            v, source, m = rng.choice(copies)
            plan.append(Action(v, m, source))
        elif ready:
            v, m = rng.choice(fresh if fresh and rng.random() < 0.8 else ready)
            listed = [w for w in graph.outputs_of[v] if w not in seen or rng.random() < 0.5]
            plan += [Action(v, m), *(Action(w, m) for w in rng.sample(listed, len(listed)))]
        for action in plan:
            place[action.node, platform.devices[action.memory]] = action.memory
    return tuple(plan)


def _computable(platform: Platform, place: dict[tuple[int, int], int]) -> Iterator[tuple[int, int]]:
    graph = platform.graph
    for v in range(len(graph.nodes)):
        for m, memory in enumerate(platform.memories):
            device = platform.devices[m]
            if graph.operation_of[v] != v or not memory.computes(v):
                continue
            there = all((u, device) in place for u in graph.predecessors[v])
            groups = graph.adjacent[v] if graph.adjacent and there else ()
            if there and all(len({place[u, device] for u in group}) == 1 for group in groups):
                yield v, m


# --- Flat memories -----------------------------------------------------------------------------------------------

Copy = tuple[int, int, int]
"""The step that wrote it, its memory and its offset."""


class _Flat:
    def __init__(self, platform: Platform, plan: Plan, places: Sequence[tuple[int, int | None]]) -> None:
        self.platform, self.graph, self.plan, self.places = platform, platform.graph, plan, places
        self.memories: list[dict[int, object]] = [{} for _ in platform.memories]
        self.latest: dict[tuple[int, int], Copy] = {}
        self.made: dict[int, int] = {}
        """By step: that which computed what it copies."""

    def numbers(self, v: int, at: int) -> list[object]:
        return [(v, self.made[at], k) for k in range(self.graph.sizes[v])]

    def wrong(self, v: int, copy: Copy) -> list[int]:
        """The addresses in a copy whose numbers are not its own."""
        at, m, offset = copy
        return [
            offset + k for k, number in enumerate(self.numbers(v, at)) if self.memories[m].get(offset + k) != number
        ]

    def write(self, m: int, offset: int, numbers: list[object]) -> None:
        self.memories[m] |= {offset + k: number for k, number in enumerate(numbers)}

    def run(self) -> None:
        t = 0
        while t < len(self.plan):
            action = self.plan[t]
            if action.source is not None:
                self._copy(t, action)
                t += 1
                continue
            run = [t]
            while run[-1] + 1 < len(self.plan) and self._is_further(self.plan[run[-1] + 1], action):
                run.append(run[-1] + 1)
            self._compute(run)
            t = run[-1] + 1

    def _is_further(self, other: Action, action: Action) -> bool:
        first = self.graph.output_of[other.node] if self.graph.output_of else None
        return first == action.node and other.memory == action.memory and other.source is None

    def _copy(self, t: int, action: Action) -> None:
        v, m = action.node, action.memory
        copy = self.latest[v, action.source]
        assert not self.wrong(v, copy), f"step {t} copies what is not whole"
        self.made[t] = self.made[copy[0]]
        self.write(m, self.places[t][0], self.numbers(v, t))
        self.latest[v, m] = t, m, self.places[t][0]

    def _compute(self, run: list[int]) -> None:
        graph, (t, v, m) = self.graph, (run[0], self.plan[run[0]].node, self.plan[run[0]].memory)
        assert graph.operation_of[v] == v, f"step {t}: a further output by itself"
        device, taken = self.platform.devices[m], graph.workspaces[v] if graph.workspaces else 0
        inputs = {u: self.latest[u, device] for u in graph.predecessors[v]}
        for u, copy in inputs.items():
            assert not self.wrong(u, copy), f"step {t} reads node {u}, which is not whole"
        for group in graph.adjacent[v] if graph.adjacent else ():
            assert len({inputs[u][1] for u in group}) == 1
            numbers = [number for u in group for number in self.numbers(u, inputs[u][0])]
            begin, memory = inputs[group[0]][2], self.memories[inputs[group[0]][1]]
            assert [memory.get(begin + k) for k in range(len(numbers))] == numbers, f"step {t}: {group} in pieces"
        scratch: list[object] = [("workspace", t, k) for k in range(taken)]
        self.write(m, self.places[t][1] or 0, scratch)
        assert not any(self.wrong(u, copy) for u, copy in inputs.items()), f"step {t}: its workspace is over an input"
        assert {w for w in graph.outputs_of[v] if graph.sizes[w]} <= {self.plan[at].node for at in run}, "no place"
        for at in run:
            w, offset = self.plan[at].node, self.places[at][0]
            self.made[at] = at
            self.write(m, offset, self.numbers(w, at))
            self.latest[w, device] = at, m, offset
        written = {self.plan[at].node: self.latest[self.plan[at].node, device] for at in run}
        assert not any(self.wrong(w, copy) for w, copy in written.items()), f"step {t}: outputs overlap"
        assert all(self.memories[m][(self.places[t][1] or 0) + k] == one for k, one in enumerate(scratch))
        for u, copy in inputs.items():
            assert all(self._may_be(u, copy, address, written) for address in self.wrong(u, copy)), (
                f"step {t} writes over node {u} while it is read"
            )

    def _may_be(self, u: int, copy: Copy, address: int, written: dict[int, Copy]) -> bool:
        """May this address of an input be written over?"""
        rows = self.graph.in_place if self.graph.runs_in_place else None
        return any(
            u in (rows or ((),) * (w + 1))[w] and copy[1:] == made[1:] and address < made[2] + self.graph.sizes[w]
            for w, made in written.items()
        )


def misdone(platform: Platform, plan: Plan, places: Sequence[tuple[int, int | None]]) -> str:
    """What goes wrong if a plan is executed in flat memories; empty if nothing does.

    Each computation reads all its inputs, in one piece what it reads as one, writes over its workspace, and then writes
    numbers of its own over the places of its outputs, which may be those of an input only where it overwrites that.

    Args:
        places: where each action writes, and where its workspace is.
    """
    try:
        _Flat(platform, plan, places).run()
    except AssertionError as error:
        return str(error).partition("\n")[0] or "its workspace is written over"
    return ""
