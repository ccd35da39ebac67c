"""Windows of schedules: random instances with schedules to cut them from, what a model makes of one, brute force."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, product
from pathlib import Path

from soaking.exact import best
from soaking.exact_questions import draw_graph, exact_graph

from moccasin_mzn.formulations import Formulation, Intervals, find_formulation
from moccasin_mzn.formulations.window_cuts import Freedom
from moccasin_mzn.formulations.windows import Incumbent, Window, window
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.features import Features, graph_features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

Sequence = tuple[int, ...]
Stage = dict[int, Sequence]
"""By operation that is recomputed in a stage its outputs that are retained."""
STAGED = find_formulation("staged")
ALL = Freedom(max_nodes=100, depth=100, spare=100)


# --- Instances and schedules ----------------------------------------------------------------------------------


def draw_graph_with(seed: object, wanted: Features, operations: int = 5) -> ComputationGraph:
    """A graph that has these features, and perhaps others; some budget below that of its input order is of interest."""
    rng = random.Random(f"window {seed}")
    while True:
        graph = draw_graph(rng, operations, crowded=rng.random() < 0.4)
        tight = 0 < max(graph.working_sets) < simulate(graph, graph.input_order()).peak
        if tight and wanted <= graph_features(graph) and len(graph.nodes) <= operations + 3:
            return graph


def draw_with(seed: object, wanted: Features, operations: int = 5) -> tuple[Instance, Sequence]:
    """An instance with these features and a schedule: a best one made worse, or one that needs all of the budget."""
    rng, graph = random.Random(f"schedule {seed}"), draw_graph_with(seed, wanted, operations)
    most, low, high = rng.choice([2, 2, 3]), max(graph.working_sets), simulate(graph, graph.input_order()).peak
    budget = rng.choice([low, high - 1, rng.randint(low, high)])
    found = best(exact_graph(graph), budget, "staged", most)
    if found is not None and len(found[1]) > len(graph.nodes) and rng.random() < 0.8:
        instance = Instance.build(graph, budget, max_computations=most)
        return instance, made_worse(instance, tuple(found[1]), rng)
    counts = Instance.build(graph, high, max_computations=most).max_computations
    schedules = [_random_schedule(graph, counts, rng) for _ in range(rng.choice([1, 10, 50]))]
    sequence = min(schedules, key=lambda sequence: simulate(graph, sequence).peak)
    return Instance.build(graph, max(1, simulate(graph, sequence).peak), max_computations=most), sequence


def _random_schedule(graph: ComputationGraph, most: Sequence, rng: random.Random) -> Sequence:
    """All nodes in input order, and operations recomputed in any stage, useful or not, with some of their outputs."""
    operations, share = _operations(graph), rng.choice([0.1, 0.3, 0.5])
    stages, counts = list[Stage](), Counter(graph.operation_of[v] for v in operations)
    for k in range(len(operations)):
        stages.append({})
        for v in operations[:k]:
            if counts[v] < most[v] and rng.random() < share:
                counts[v] += 1
                stages[-1][v] = _some_outputs(graph, v, rng)
    return _sequence(graph, stages)


def made_worse(instance: Instance, sequence: Sequence, rng: random.Random) -> Sequence:
    """With recomputations added, moved or with other outputs, wherever the schedule stays one."""
    graph, operations = instance.graph, _operations(instance.graph)
    for _ in range(30):
        stages = _stages(graph, sequence)
        k = rng.randrange(1, len(operations)) if len(operations) > 1 else 0
        v = operations[rng.randrange(k)] if k else operations[0]
        if v in stages[k] and rng.random() < 0.5:
            del stages[k][v]
        elif k:
            stages[k][v] = _some_outputs(graph, v, rng)
        changed = _sequence(graph, stages)
        counts = Counter(changed)
        allowed = all(counts[v] <= most for v, most in enumerate(instance.max_computations))
        if allowed and judge(graph, changed, instance.budget).feasible and len(changed) >= len(sequence):
            sequence = changed
    return sequence


def _operations(graph: ComputationGraph) -> list[int]:
    """The first outputs, in input order."""
    return [v for v in graph.input_order() if graph.operation_of[v] == v]


def _some_outputs(graph: ComputationGraph, v: int, rng: random.Random) -> Sequence:
    return tuple(w for w in graph.outputs_of[v] if rng.random() < 0.6)


def _stages(graph: ComputationGraph, sequence: Sequence) -> list[Stage]:
    stages, seen = [Stage()], set[int]()
    for v in sequence:
        first = graph.operation_of[v]
        if first == v and v not in seen:
            stages.append({})
        elif v in seen:
            stages[-1][first] = (*stages[-1].get(first, ()), *([] if v == first else [v]))
        seen.add(v)
    return stages[:-1]


def _sequence(graph: ComputationGraph, stages: list[Stage]) -> Sequence:
    operations, found = _operations(graph), list[int]()
    for v, stage in zip(operations, stages, strict=True):
        for u in operations:
            found += [u, *_in_order(graph, stage[u])] if u in stage else []
        found += [v, *_in_order(graph, graph.outputs_of[v])]
    return tuple(found)


def _in_order(graph: ComputationGraph, outputs: Sequence) -> list[int]:
    return sorted(outputs, key=graph.input_order().index)


def draw_window(instance: Instance, sequence: Sequence, seed: int, freedom: Freedom = ALL) -> Window | None:
    """A window of any stages."""
    rng = random.Random(seed)
    n = len(instance.order)
    first = rng.randint(1, n)
    return window(instance, sequence, first, rng.randint(first, n), freedom)


# --- Brute force ----------------------------------------------------------------------------------------------


def alternatives(cut: Window) -> Iterator[Sequence]:
    """All sequences in stages that agree with the incumbent outside the window."""
    whole, instance = cut.whole, cut.whole.instance
    graph, order = instance.graph, instance.order
    own = order[cut.cut.first - 1 : cut.cut.last]

    def recomputed(v: int) -> list[Sequence]:
        others = _in_order(graph, graph.outputs_of[v])
        some = chain.from_iterable(combinations(others, size) for size in range(len(others) + 1))
        return [(), *((v, *kept) for kept in some)]

    def parts(k: int) -> Iterator[Sequence]:
        if k > len(own):
            yield ()
            return
        earlier = [v for v in order[: cut.cut.first + k - 2] if graph.operation_of[v] == v]
        rows = [recomputed(v) for v in earlier] if graph.operation_of[own[k - 1]] == own[k - 1] else []
        for rest in parts(k + 1):
            for again in product(*rows):
                yield (*chain.from_iterable(again), own[k - 1], *rest)

    for part in parts(1):
        counts = Counter(chain(whole.sequence[: cut.cut.begin], part, whole.sequence[cut.cut.end :]))
        if all(counts[v] <= most for v, most in enumerate(instance.max_computations)):
            yield (*whole.sequence[: cut.cut.begin], *part, *whole.sequence[cut.cut.end :])


def brute_force(cut: Window) -> int:
    """The least duration of a full schedule that agrees with the incumbent outside the window, in what it computes and
    in what may be in memory when the window begins."""
    graph, begin = cut.whole.instance.graph, cut.cut.begin
    intervals = simulate(graph, cut.whole.sequence).intervals
    assert {i.node for i in intervals if i.start <= begin < i.end} <= cut.cut.at_hand
    there = cut.cut.at_hand | {v for v, size in enumerate(graph.sizes) if size == 0}
    durations = []
    for sequence in alternatives(cut):
        simulation = judge(graph, sequence, cut.whole.instance.budget)
        crossing = {i.node for i in simulation.intervals if i.start <= begin < i.end}
        if simulation.feasible and crossing <= there:
            durations.append(simulation.duration)
    return min(durations)


# --- Models ---------------------------------------------------------------------------------------------------


class Solved:
    """One run of a model for a window: status, objective and the decoded sequence."""

    def __init__(
        self,
        cut: Window,
        solver: str,
        form: Formulation = STAGED,
        model: Path | None = None,
        limit: int | None = None,
        hint: bool = True,
    ) -> None:
        self.objective = self.sequence = None
        self.items = form.data_items(cut.whole.instance.graph, cut.data, cut.incumbent if hint else None, limit)

        def note(values) -> None:
            self.values, self.objective = values, values.objective
            self.sequence = cut.decode(Intervals(tuple(values.active), tuple(values.start), tuple(values.end)))

        self.status = run_model(
            find_backend(solver),
            model or form.file,
            dzn_text(self.items),
            Limits(60, 1 if solver == "cp-sat" else None, 0),
            OutputListener(solution=note, bound=lambda bound: None),
        ).status


def solver_for(cut: Window, seed: int) -> str:
    """Mostly Gecode, which counts in 32 bits."""
    data = cut.data
    largest = max(sum(data.size) + max(data.workspace, default=0), data.longest, data.budget) * len(data.size) ** 2
    return "gecode" if seed % 4 and largest < 2**30 else "cp-sat"


def check(cut: Window, solved: Solved, expected: int) -> None:
    """Compare what a model finds with the least duration, and have it judged."""
    instance = cut.whole.instance
    assert solved.status == "optimal"
    simulation = judge(instance.graph, solved.sequence, instance.budget)
    assert simulation.feasible
    assert simulation.duration == cut.duration(solved.objective) == expected <= cut.whole.duration
    assert all(solved.sequence.count(v) <= most for v, most in enumerate(instance.max_computations))
    Incumbent(instance, solved.sequence)  # in stages of the input order


def incumbent_alone(cut: Window, folder: Path) -> Solved:
    """The answer of the model where the incumbent is the only solution allowed."""
    model = folder / "fixed.mzn"
    model.write_text(f'''
        include "{STAGED.file}";
        constraint active = incumbent_active /\\ start = incumbent_start /\\ end = incumbent_end;
    ''')
    solved = Solved(cut, "cp-sat", model=model, limit=cut.objective)
    check(cut, solved, cut.duration(cut.objective))
    return solved
