"""Random questions to Python's functions about tiny graphs, each answer compared with the exact one (`soaking.exact`).

`soaking.exact_kinds` has them by name, and asks for several things at once. Graphs have workspaces, several outputs,
nodes to compute once, and run in place or not; sizes and durations are ties, powers of two, zeros, equal, or of all
magnitudes up to 10**12. The same number is the same question.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.operators import Operator, Part, Reach, Read
from moccasin_mzn.problem.features import NONE, OF_GRAPHS, Feature, Features, graph_features
from soaking.exact import (
    Tiny,
    account,
    arena_best,
    best,
    in_scope,
    layout_flaw,
    least_arena,
    least_peak,
)
from soaking.exact_plans import Machine, account_of_plan, best_plan, plan_in_scope

FIRST = "first computations in the input order"
"""Words of a proof that is not only about stages of the input order."""
SECONDS = 20.0
"""A limit that questions on so few nodes do not need."""
SEVERAL_NODES = 5
"""Operations in several memories."""
COUNTED = 300
"""Turns of a search by itself."""


@dataclass(frozen=True)
class Answered:
    """The features of a question, and what is wrong with its answers."""

    features: Features
    flaws: list[str]


class Asked:
    """A graph with what is asked of it, and what is wrong with the answers."""

    def __init__(self, rng: random.Random, nodes: int, largest: int | None = None, several: bool = False,
                 wanted: Features = NONE) -> None:  # fmt: skip
        self.rng = rng
        self.graph = self._draw(nodes, largest, several)
        while not wanted & OF_GRAPHS - {Feature.PARTS} <= graph_features(self.graph):
            self.graph = self._draw(nodes, largest, several)
        if Feature.PARTS in wanted:
            self.graph = replace(self.graph, parts=[Part(str(node), ()) for node in self.graph.nodes])
        self.tiny = exact_graph(self.graph)
        self.free = rng.random() < 0.5 or Feature.ANY_ORDER in wanted
        self.most: int | list[int] = rng.choice([1, 2, 2, 3])
        self.mode = "free" if self.free else "staged"
        self.flaws: list[str] = []

    def answered(self, *ways: Feature) -> Answered:
        """Return what is wrong, with the features that the question had: of its graph, its order, and these."""
        order = {Feature.ANY_ORDER} if self.free else NONE
        return Answered(graph_features(self.graph).union(order, ways), self.flaws)

    def _draw(self, nodes: int, largest: int | None, several: bool) -> mz.ComputationGraph:
        """A graph; for several memories often one that needs more memory than each node does alone, unless something is
        recomputed or copied; sometimes with outputs that are read as one."""
        crowded = several and self.rng.random() < 0.7
        graph = draw_graph(self.rng, nodes, largest, crowded)
        if not several:
            return graph
        while self.rng.random() < 0.97 and best(exact_graph(graph), _low(graph), "free", 1):
            graph = draw_graph(self.rng, nodes, largest, crowded)
        return (self.rng.random() < 0.3 and read_as_one(self.rng, graph)) or graph

    @property
    def how(self) -> dict[str, object]:
        """What `solve` and `frontier` are asked with."""
        order = {"order": "free"} if self.free else {}
        return {**order, "max_computations": self.most, "seed": self.rng.randrange(99)}

    def counts_in(self, machine: Machine) -> list[list[int]]:
        """How often something may be in a memory for the first time, by memory and node."""
        limits = [self.most] * self.tiny.n if isinstance(self.most, int) else self.most
        counts = [1 if v in self.tiny.once else limits[v] for v in range(self.tiny.n)]
        return [counts if row is not None else [1] * self.tiny.n for row in machine.compute]

    def budget(self) -> int:
        """An amount at which something may fit and something may not."""
        low, high = _low(self.graph), max(1, account(self.tiny, self.tiny.order).peak)
        return self.rng.choice([low, high, self.rng.randint(low, max(low, high)), max(1, low - 1)])

    def expect(self, right: bool, flaw: str) -> None:
        """Note a flaw where something is not right."""
        if not right:
            self.flaws.append(flaw)

    def judge(self, sequence: tuple[int, ...], budget: int | None, duration: int | None) -> None:
        """Judge a schedule that is an answer."""
        judged = account(self.tiny, sequence)
        self.expect(not judged.flaw, f"no schedule: {judged.flaw}")
        if not judged.flaw:
            self.expect(budget is None or judged.peak <= budget, f"peak {judged.peak} is over the budget {budget}")
            self.expect(duration in (None, judged.duration), f"duration {duration} is {judged.duration}")
            kind = "free" if self.free else "first"
            self.expect(in_scope(self.tiny, sequence, kind, self.most), f"{sequence} is out of the question's scope")


def _low(graph: mz.ComputationGraph) -> int:
    """No budget of one memory below it is enough."""
    return max(1, *graph.working_sets)


# --- Graphs ---------------------------------------------------------------------------------------------------


def draw_graph(
    rng: random.Random, nodes: int, largest: int | None = None, crowded: bool = False, least: int = 1, far: float = 0.3
) -> mz.ComputationGraph:
    """A graph of at most this many operations; a crowded one is a chain whose end reads its beginning backwards.

    Args:
        least: the least number of operations.
        far: how likely an operation reads one that is not among the two before it.
    """
    operations, near = rng.randint(least, nodes), rng.choice([0.5, 0.8, 1.0])
    further = rng.random() < 0.35
    output_of: list[int | None] = []
    for _ in range(operations):
        first = len(output_of)
        output_of += [None, *[first] * (rng.randint(0, 2) if further and len(output_of) < nodes else 0)]
    n = len(output_of)
    firsts = [v for v in range(n) if output_of[v] is None]
    sizes, durations = _amounts(rng, n, largest), _amounts(rng, n, None)
    for v, of in enumerate(output_of):
        if of is not None:
            durations[v], sizes[of] = 0, max(1, sizes[of])
    edges = {(u, v) for v in firsts for u in range(v) if rng.random() < (near if u >= v - 2 else far)}
    if crowded:
        edges = {(u, v) for v in firsts for u in range(v)
                 if u == v - 1 or rng.random() < (0.8 if u + v == n - 1 else 0.1)}  # fmt: skip
    graph = mz.ComputationGraph(
        nodes=[f"n{v}" for v in range(n)], durations=durations, sizes=sizes, edges=sorted(edges), order=range(n),
        output_of=output_of if any(of is not None for of in output_of) else None,
        workspaces=[rng.choice([0, 0, min(5, largest or 5), rng.choice(sizes)]) if v in firsts else 0 for v in range(n)]
        if rng.random() < 0.3 else None,
        computed_once=[rng.choice(firsts)] if rng.random() < 0.1 else (),
    )  # fmt: skip
    if rng.random() < 0.6:
        return graph
    may = [
        tuple(u for u, w in sorted(edges) if w == v and sizes[u] >= sizes[v] and rng.random() < 0.7)
        if output_of[v] is None else ()
        for v in range(n)
    ]  # fmt: skip
    return replace(graph, in_place=may).run_in_place()


def read_as_one(rng: random.Random, graph: mz.ComputationGraph) -> mz.ComputationGraph | None:
    """The graph with two inputs or more that a node reads as one; None where there are none that can be."""
    joint = [v for v, inputs in enumerate(graph.predecessors) if len(inputs) > 1]
    if not joint:
        return None
    v = rng.choice(joint)
    inputs = sorted(graph.predecessors[v])
    group = rng.sample(inputs, rng.choice([2, 2, len(inputs)]))
    try:
        return replace(graph, adjacent=[[group] if at == v else [] for at in range(len(graph.nodes))])
    except InputError:
        return None


def _amounts(rng: random.Random, n: int, largest: int | None) -> list[int]:
    if largest is not None:
        return [rng.randint(0, largest) for _ in range(n)]
    large = 10 ** rng.randint(1, 12)
    draw: Callable[[], int] = rng.choice([
        lambda: rng.randint(0, 4), lambda: rng.randint(1, 9), lambda: 1, lambda: 0, lambda: 2 ** rng.randint(0, 6),
        lambda: large + rng.randint(0, 3), lambda: rng.randint(0, 10 ** rng.randint(0, 12)),
    ])  # fmt: skip
    return [0 if rng.random() < 0.1 else draw() for _ in range(n)]


def exact_graph(graph: mz.ComputationGraph) -> Tiny:
    """The same graph for the oracle."""
    n = len(graph.nodes)
    return Tiny(
        list(graph.durations), list(graph.sizes), list(graph.edges), list(graph.workspaces or [0] * n),
        [tuple(row) for row in graph.in_place] if graph.in_place and graph.runs_in_place else None,
        list(graph.output_of) if graph.output_of else None, tuple(graph.computed_once), list(graph.input_order()),
        graph.adjacent,
    )  # fmt: skip


# --- Questions about one memory -------------------------------------------------------------------------------


def solve(rng: random.Random) -> Answered:
    """The shortest schedule, by searches alone or by the model too."""
    asked = Asked(rng, 5)
    budget = asked.budget()
    model = rng.random() < 0.15
    effort = {"time_limit": SECONDS, "threads": 1, "if_none": "stop"}
    effort |= {} if model else {"search": "only", "stop": mz.stop.Iterations(COUNTED), "time_limit": None}
    found = mz.solve(asked.graph, budget, **asked.how, **effort)
    _compare(asked, found, budget)
    if model:
        asked.expect(found.status in ("optimal", "infeasible"), f"{found.status}, with the model")
    return asked.answered(*(() if model else (Feature.ITERATIONS,)))


def _compare(asked: Asked, found: mz.Result, budget: int) -> None:
    """An answer of `solve` and its claims against the exact one."""
    mode = "first" if not asked.free and FIRST in found.reason else asked.mode
    exact = best(asked.tiny, budget, mode, asked.most)
    least = None if exact is None else exact[0]
    if found.status == "infeasible":
        asked.expect(exact is None, f"infeasible, but {exact} is within {budget}: {found.reason}")
        return
    asked.expect(least is None or found.bound <= least, f"bound {found.bound}, but {exact} is within {budget}")
    if found.positions is not None and found.valid:
        asked.judge(found.positions, budget, found.duration)
        if found.status == "optimal":
            asked.expect(least is not None and found.duration <= least, f"optimal with {found.duration}, not {exact}")


def least(rng: random.Random) -> Answered:
    """The least budget: a schedule within it, and a claim of what is needed, by the claim's own scope."""
    asked = Asked(rng, 5)
    found = mz.solve(asked.graph, "least", **asked.how, search="only", threads=1, time_limit=2)
    exact = least_peak(asked.tiny, "free" if asked.free else "first", asked.most)
    asked.expect(found.valid or exact is None, f"{found.status}: nothing found, but {exact} is enough")
    if found.valid and found.positions is not None:
        asked.judge(found.positions, found.budget, found.duration)
        asked.expect(exact is not None and found.budget >= exact, f"budget {found.budget}, the least is {exact}")
        claim = re.search(
            r"the least that any schedule (.*) needs|([0-9,]+) are proven to be needed (.*)", found.notes[0]
        )
        asked.expect(claim is not None, f"no claim in {found.notes[0]}")
        if claim is not None:
            amount = int(claim[2].replace(",", "")) if claim[2] else found.budget
            truth = _least_in(asked, claim[1] or claim[3])
            asked.expect(truth is None or amount <= max(1, truth), f"{claim[0]}, but {truth} is enough")
    return asked.answered(Feature.LEAST)


def _least_in(asked: Asked, scope: str) -> int | None:
    """The least peak of a scope, by its words."""
    if "any number of computations" in scope:
        return least_peak(asked.tiny, "free", None)
    mode = "free" if "any order" in scope else "first" if FIRST in scope else "staged"
    return least_peak(asked.tiny, mode, asked.most)


def frontier(rng: random.Random) -> Answered:
    """Least durations by budget."""
    asked = Asked(rng, 4)
    found = mz.frontier(asked.graph, points=3, **asked.how, search="only", threads=1, time_limit=3)
    widest = "free" if asked.free else "first"
    low = least_peak(asked.tiny, widest, asked.most)
    asked.expect(low is None or found.least_bound <= low, f"no peak below {found.least_bound}, but {low} is enough")
    for point in found.points:
        exact = best(asked.tiny, point.budget, asked.mode, asked.most)
        asked.expect(
            exact is None or point.bound <= exact[0], f"budget {point.budget}: bound {point.bound}, but {exact}"
        )
        if point.duration is not None:
            wide = best(asked.tiny, point.budget, widest, asked.most)
            asked.expect(wide is not None and point.duration >= wide[0], f"budget {point.budget}: {point.duration}")
    return asked.answered(Feature.FRONTIER)


def order(rng: random.Random) -> Answered:
    """An order of least peak."""
    asked = Asked(rng, 6)
    asked.free, asked.most = True, 1
    found = mz.order(asked.graph, stop=mz.stop.Iterations(200))
    exact = least_peak(asked.tiny, "free", 1)
    asked.judge(found.positions, found.peak, None)
    asked.expect(account(asked.tiny, found.positions).peak == found.peak, f"peak {found.peak} is not that of the order")
    asked.expect(found.bound <= exact <= found.peak, f"peak {found.peak}, bound {found.bound}, the least is {exact}")
    return asked.answered(Feature.ITERATIONS)


def addresses(rng: random.Random) -> Answered:
    """Schedules with offsets in an arena."""
    asked = Asked(rng, 3, largest=4)
    budget, align = min(12, asked.budget()), rng.choice([1, 1, 2])
    found = mz.solve(
        asked.graph, budget, **asked.how, addresses=True, alignment=align, search="only", threads=1, if_none="stop",
        time_limit=2,
    )  # fmt: skip
    try:
        exact = arena_best(asked.tiny, budget, align, asked.most, asked.mode, 200_000)
    except MemoryError:
        return asked.answered(Feature.OFFSETS)
    if found.status == "infeasible":
        asked.expect(exact is None, f"infeasible, but {exact}")
    elif found.valid:
        asked.judge(found.positions, budget, found.duration)
        asked.expect(found.arena <= budget, f"arena {found.arena} is over {budget}")
        wide = arena_best(asked.tiny, budget, align, asked.most, "free" if asked.free else "first")
        asked.expect(wide is not None and found.duration >= wide[0], f"{found.duration} is shorter than {wide}")
        asked.expect(found.status != "optimal" or exact is None or found.duration <= exact[0], f"optimal, but {exact}")
        if not asked.graph.runs_in_place and asked.graph.workspaces is None:
            spans = zip(account(asked.tiny, found.positions).intervals, found.offsets, strict=True)
            rows = [((asked.tiny.size[v], align, [(a, b + 1, 0, asked.tiny.size[v])]), at) for (v, a, b), at in spans]
            asked.expect(not (flaw := layout_flaw([box for box, _ in rows], [at for _, at in rows])), flaw)
    return asked.answered(Feature.OFFSETS)


def certificates(rng: random.Random) -> Answered:
    """Proofs in files, in exact integers; sometimes of plans that copy to slow memory."""
    asked = Asked(rng, 5)
    if rng.random() < 0.3:
        return _certificate_of_paging(asked)
    budget = asked.budget()
    with tempfile.TemporaryDirectory(prefix="exact-") as folder:
        file = Path(folder) / "certificate.json"
        how = {"max_computations": asked.most, **({"order": "free"} if asked.free else {})}
        mz.solve(asked.graph, budget, **how, search="only", threads=1, if_none="stop", time_limit=0.5, certificate=file)
        proven = mz.check_certificate(asked.graph, file)
    exact = best(asked.tiny, budget, "free" if "any order" in proven.scope else "first", None)
    if proven.bound is None:
        asked.expect(exact is None, f"certified that there is none, but {exact}")
    else:
        asked.expect(exact is None or proven.bound <= exact[0], f"certified bound {proven.bound}, but {exact}")
    return asked.answered(Feature.CERTIFICATE)


def _certificate_of_paging(asked: Asked) -> Answered:
    rng, budget, slow = asked.rng, asked.budget(), asked.budget()
    rate = rng.choice([0, 1, Fraction(1, 2), 3])
    costs = [(ceil(size * rate), 0) for size in asked.graph.sizes]
    here = [(duration, 0) for duration in asked.graph.durations]
    machine = Machine([budget, slow], [here, None], {(0, 1): costs, (1, 0): costs})
    with tempfile.TemporaryDirectory(prefix="exact-") as folder:
        file, time = Path(folder) / "certificate.json", str(float(rate))
        mz.solve(asked.graph, budget, slow_memory=slow, paging={"out_time": time, "in_time": time}, **asked.how,
                 search="only", threads=1, time_limit=0.5, certificate=file)  # fmt: skip
        proven = mz.check_certificate(asked.graph, file)
    exact = best_plan(asked.tiny, machine, "free" if "any order" in proven.scope else "first")
    too_much = proven.bound is None or (exact is not None and proven.bound > exact[0])
    asked.expect(exact is None or not too_much, f"certified bound {proven.bound}, but {exact}")
    asked.expect(proven.duration is None or (exact is not None and proven.duration >= exact[0]), f"a plan of {proven}")
    return asked.answered(Feature.CERTIFICATE, Feature.PAGING)


# --- Several memories, buffers, parts -------------------------------------------------------------------------


@dataclass(frozen=True)
class Several:
    """A machine of several memories, as the oracle and as `solve` have it."""

    way: Feature
    machine: Machine
    staged: str
    """What proofs of staged questions are about."""
    widest: str
    """What their answers may be."""
    given: dict[str, object]


def pools_of(asked: Asked) -> Several:
    """Memories of one device."""
    rng = asked.rng
    rate, durations = rng.choice([0, 1, 2, Fraction(1, 2)]), asked.graph.durations
    low, budget = _low(asked.graph), asked.budget()
    budgets = [rng.choice([budget, max(1, low // 2)]), rng.choice([low, max(1, budget // 3), None])]
    access = [[ceil(size * each) for size in asked.graph.sizes] for each in (0, rate)]
    machine = Machine(budgets, [[(duration, 0) for duration in durations]] * 2, access=access)
    slow = f"{'inf' if budgets[1] is None else budgets[1]}:{float(rate)}"
    return Several(Feature.POOLS, machine, "staged", "first", {"memories": {"fast": budgets[0], "slow": slow}})


def paging_of(asked: Asked) -> Several:
    """A slow memory that nothing is computed in."""
    budgets, time, links = _with_copies(asked)
    here = [(duration, 0) for duration in asked.graph.durations]
    given = {"budget": budgets[0], "slow_memory": budgets[1], "paging": {"out_time": time, "in_time": time}}
    return Several(Feature.PAGING, Machine(budgets, [here, None], links), "staged", "free", given)


def devices_of(asked: Asked) -> Several:
    """Two devices with copies between them."""
    budgets, time, links = _with_copies(asked)
    slower = asked.rng.choice([1, Fraction(3, 2), 3])
    here, there = ([(ceil(duration * each), 0) for duration in asked.graph.durations] for each in (1, slower))
    given = {"devices": {"gpu": budgets[0], "cpu": f"{budgets[1]}:{float(slower)}"}, "copies": {"time": time}}
    return Several(Feature.DEVICES, Machine(budgets, [here, there], links), "slots", "free", given)


def _with_copies(asked: Asked) -> tuple[list[int], str, dict[tuple[int, int], list[tuple[int, int]]]]:
    rng, low = asked.rng, _low(asked.graph)
    budgets = [asked.budget(), rng.choice([low, max(1, low // 2), 3 * low])]
    rate = rng.choice([0, 1, Fraction(1, 2), 3])
    costs = [(ceil(size * rate), 0) for size in asked.graph.sizes]
    return budgets, str(float(rate)), {(0, 1): costs, (1, 0): costs}


def pools(rng: random.Random, wanted: Features = NONE) -> Answered:
    """Memories of one device."""
    asked = Asked(rng, SEVERAL_NODES, several=True, wanted=wanted)
    return ask_for_a_plan(asked, pools_of(asked))


def paging(rng: random.Random, wanted: Features = NONE) -> Answered:
    """A slow memory that nothing is computed in."""
    asked = Asked(rng, SEVERAL_NODES, several=True, wanted=wanted)
    return ask_for_a_plan(asked, paging_of(asked))


def devices(rng: random.Random, wanted: Features = NONE) -> Answered:
    """Two devices with copies between them."""
    asked = Asked(rng, SEVERAL_NODES, several=True, wanted=wanted)
    return ask_for_a_plan(asked, devices_of(asked))


def ask_for_a_plan(asked: Asked, several: Several) -> Answered:
    """What is wrong with an answer: exact ones are of the stages that claims are about, and of all plans in scope.

    Raises:
        InputError: the question is refused.
    """
    machine = several.machine
    found = mz.solve(asked.graph, **several.given, **asked.how, search="only", threads=1, time_limit=2)
    counts = asked.counts_in(machine)
    exact = best_plan(asked.tiny, machine, "free" if asked.free else several.staged, counts)
    wide = exact if asked.free else best_plan(asked.tiny, machine, several.widest, counts)
    _compare_plans(asked, found, exact, wide)
    judge_plan(asked, machine, found)
    return asked.answered(several.way)


def judge_plan(asked: Asked, machine: Machine, found: mz.Result) -> None:
    """Judge a plan that is an answer."""
    if not found.valid or found.plan is None:
        return
    plan = [(action.node, action.memory, action.source) for action in found.plan]
    judged, peaks = account_of_plan(asked.tiny, machine, plan), found.details.simulation.peaks
    asked.expect(not judged.flaws, f"{plan}: {judged.flaws}")
    asked.expect(judged.totals[0] == found.duration, f"duration {found.duration} of {plan} is {judged.totals[0]}")
    asked.expect(judged.peaks == peaks, f"peaks {peaks} of {plan} are {judged.peaks}")
    within = plan_in_scope(asked.tiny, machine, plan, "free", asked.counts_in(machine))
    asked.expect(within, f"{plan} is out of the question's scope")


def _compare_plans(asked: Asked, found: mz.Result, exact: tuple | None, wide: tuple | None) -> None:
    if found.status == "infeasible":
        asked.expect(exact is None, f"infeasible, but {exact}: {found.reason}")
        return
    asked.expect(exact is None or found.bound <= exact[0], f"bound {found.bound}, but {exact}")
    if found.valid:
        asked.expect(wide is not None and found.duration >= wide[0], f"{found.duration} is less than the least, {wide}")
        asked.expect(found.status != "optimal" or exact is None or found.duration <= exact[0], f"optimal, but {exact}")


def is_refusal(error: Exception) -> bool:
    """Is a question refused: nothing handles its features together, or its alignment separates what is read as one?"""
    why = "(nothing|no .*) handles|does not handle|take concatenations out for this alignment"
    return isinstance(error, InputError) and re.search(why, str(error)) is not None


def allocate(rng: random.Random) -> Answered:
    """Buffers in the least arena."""
    rows = []
    for at in range(rng.randint(1, 5)):
        start, size = rng.randint(0, 4), rng.choice([0, 1, 2, 3, 4])
        rows.append(mz.Buffer(f"b{at}", start, start + rng.randint(1, 4), size, rng.choice([1, 1, 2])))
    boxes = [(b.size, b.alignment, [(b.start, b.end, 0, b.size)]) for b in rows]
    found = mz.allocate(rows, threads=1, time_limit=5)
    exact = least_arena(boxes, [None] * len(rows), 40)
    flaw = layout_flaw(boxes, [found.offsets[b.name] for b in rows])
    flaws = [flaw] if flaw else []
    if not found.bound <= exact <= found.size:
        flaws.append(f"arena {found.size}, bound {found.bound}, the least is {exact}")
    return Answered(NONE, flaws)


def tiles(rng: random.Random) -> Answered:
    """A chain in parts: the answer is judged on the graph of the parts."""
    rows, network = rng.choice([1, 2, 3, 4]), chain_of_windows(rng)
    cut = mz.tile(network, rows)
    cut = getattr(cut, "graph", cut)
    if len(cut.nodes) > 9:
        return Answered(NONE, [])
    tiny = exact_graph(cut)
    low = max(1, max(cut.working_sets))
    budget = rng.choice([low, rng.randint(low, 2 * low)])
    found = mz.solve(network, budget, tile=rows, search="only", threads=1, time_limit=1, max_computations=2)
    features, flaws = graph_features(cut) | {Feature.TILE, Feature.ANY_ORDER}, []
    try:
        exact = best(tiny, budget, "free", 2)
    except MemoryError:
        return Answered(features, [])
    if found.status == "infeasible" and exact is not None:
        flaws.append(f"infeasible, but {exact}")
    if found.valid:
        judged = account(tiny, found.positions)
        if judged.flaw or judged.peak > budget or judged.duration != found.duration:
            flaws.append(f"{found.positions} is {judged}")
        if exact is None or found.duration < exact[0] or (found.status == "optimal" and found.duration > exact[0]):
            flaws.append(f"{found.status} with {found.duration}, exactly {exact}")
    return Answered(features, flaws)


def chain_of_windows(rng: random.Random) -> mz.ComputationGraph:
    operators: list[Operator] = []
    rows, columns = rng.randint(1, 5), rng.choice([1, 3])
    shape = rows, columns, rng.randint(1, 2)
    for at in range(rng.randint(1, 3)):
        window, stride = rng.choice([1, 2, 3]), rng.choice([1, 1, 2])
        made = max(1, shape[0] // stride), columns, rng.randint(1, 3)
        reach = Reach(0, stride, window, before=(window - 1) // 2)
        operators.append(Operator("conv", made, (Read(at - 1 if at else None, shape, (reach, Reach(1), None)),)))
        shape = made
    sizes = [each.elements for each in operators]
    return mz.ComputationGraph(
        nodes=[f"l{at}" for at in range(len(sizes))], durations=[rng.randint(1, 3) * size for size in sizes],
        sizes=sizes, edges=[(at, at + 1) for at in range(len(sizes) - 1)], operators=operators,
    )  # fmt: skip
