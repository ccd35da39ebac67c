"""Operations with several outputs: judge, models, searches and bounds against brute force on resident outputs."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from few import few
from outputs_oracle import draw_operations, draw_sequence, least_duration, least_peak

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.certificates.document import certificate, prove
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.input_order import duration_bound
from moccasin_mzn.bounds.least_budget import enough_budget, least_budget_within
from moccasin_mzn.deploy.source import with_all_outputs
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import single_outputs
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.reduction import reduce_graph
from moccasin_mzn.graphs.tiling.cutting import cut
from moccasin_mzn.heuristics.compiling import generator_of
from moccasin_mzn.heuristics.free_order import moves as free_moves
from moccasin_mzn.heuristics.free_order import state as free_state
from moccasin_mzn.heuristics.staged import moves, state
from moccasin_mzn.problem.files.plan_format import runtime_plan
from moccasin_mzn.problem.files.schedules import ClaimedSchedule, read_counts
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import check_certificate
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.problem.validate import validate_schedule

SPLIT = ComputationGraph(
    ["x", "split", "left", "right", "y", "z"], [1, 2, 0, 0, 1, 1], [8, 4, 2, 2, 1, 1],
    [("x", "split"), ("split", "y"), ("left", "y"), ("right", "z"), ("y", "z")],
    output_of=[None, None, 1, 1, None, None],
)  # fmt: skip
MANY = few(few(range(2000), keep=120, mark=pytest.mark.slow), keep=10)
FEW = few(few(range(400), keep=36, mark=pytest.mark.slow), keep=4)


def test_all_outputs_count_while_one_is_computed_and_each_as_long_as_it_is_read():
    assert SPLIT.edges[-4:] == ((1, 2), (0, 2), (1, 3), (0, 3)) and SPLIT.workspace_of == (0, 4, 0, 0, 0, 0)
    assert simulate(SPLIT, (0, 1, 2, 3, 4, 5)).memory == (8, 16, 14, 16, 9, 4)  # x until the last of the outputs
    alone = simulate(SPLIT, (0, 1, 3, 2, 4, 1, 3, 5))
    assert alone.feasible and alone.memory[5] == 8 + 4 + 4 + 1  # made again for the right part, the others dropped
    apart = simulate(SPLIT, (0, 1, 2, 4, 3, 5))
    assert [(one.kind, one.position, one.node) for one in apart.violations] == [("apart", 5, 3)]
    assert "node right does not come directly after its first output" in apart.violations[0].message
    assert SPLIT.together((0, 1, 2, 4, 3, 5)) == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output_of": [None, None, 1]}, "6 nodes, but output_of for 3 nodes"),
        ({"output_of": [None, None, 1, 2, None, None]}, "node right: output_of names left, which is not the first"),
        (
            {"output_of": [None, None, 1, 7, None, None]},
            r"node right: output_of is 7, not the position of a node 0\.\.5",
        ),
        ({"durations": [1, 2, 0, 3, 1, 1]}, "names split, and it has a duration of its own"),
        ({"workspaces": [0, 0, 0, 3, 0, 0]}, "names split, and it has a workspace of its own"),
        ({"sizes": [8, 0, 2, 2, 1, 1]}, "names split, which has no memory, and it has some"),
        ({"edges": [(0, 1), (4, 3), (1, 4)]}, "node right: output_of names split, which does not read y as it does"),
    ],
)
def test_what_is_no_further_output_is_refused(change, message):
    given = {"durations": SPLIT.durations, "sizes": SPLIT.sizes, "edges": SPLIT.edges, "output_of": SPLIT.output_of}
    with pytest.raises(InputError, match=message):
        ComputationGraph(SPLIT.nodes, **{**given, **change})


@pytest.mark.parametrize("seed", MANY)
def test_the_judge_counts_what_is_resident(seed):
    """Along the input order, and of any sequence of operations by a count of its own."""
    operations, _, _ = draw_operations(seed)
    graph, rng = operations.graph, random.Random(seed)
    assert simulate(graph, graph.input_order()).peak == operations.peak_once()
    n = len(operations.durations)
    done = [v for k in range(n) for v in (*(u for u in range(k) if rng.random() < 0.3), k)]
    sequence = graph.with_all_outputs([operations.outputs[v][0] for v in done])
    assert simulate(graph, sequence).feasible
    assert simulate(graph, sequence).peak == operations.peak_of(done)


FORMS = [
    ("staged", {}), ("staged", {"precedence": "reservoir"}),
    ("staged", {"precedence": "reservoir", "index": "triangular"}),
    ("staged", {"redundant": "none"}), ("staged", {"presolve": "off"}), ("general", {}),
    ("general", {"precedence": "reservoir"}), ("checkmate-milp", {}), ("checkmate-milp-strengthened", {}),
]  # fmt: skip


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize(("form", "own"), FORMS)
def test_models_alone_have_the_optimum_of_brute_force(form, own, seed):
    operations, budget, most = draw_operations(seed, 4)
    limit = {} if form.startswith("checkmate") else {"max_computations": most}
    best = least_duration(operations, budget, most if limit else 9, form == "general")
    found = mz.solve(operations.graph, budget, time_limit=60, threads=1, formulation=form, search="off", **limit, **own)
    assert (found.status, found.duration) == (("infeasible", None) if best is None else ("optimal", best))


@pytest.mark.parametrize("seed", MANY)
@pytest.mark.parametrize("free", [False, True])
def test_all_searches_together_have_the_optimum_of_brute_force(free, seed):
    operations, budget, most = draw_operations(seed)
    best = least_duration(operations, budget, most, free)
    order = {"order": "free"} if free else {}
    found = mz.solve(operations.graph, budget, max_computations=most, time_limit=30, threads=1, **order)
    if best is None:
        assert found.status in ("infeasible", "unknown")
    else:
        assert found.valid and found.duration >= best
        assert found.status != "optimal" or found.duration == best
        assert found.status in ("optimal", "feasible")


@pytest.mark.parametrize("seed", MANY)
def test_bounds_are_never_above_brute_force(seed):
    operations, budget, most = draw_operations(seed)
    graph = operations.graph
    instance = Instance.build(graph, budget, max_computations=most)
    staged, free = (least_duration(operations, budget, most, each) for each in (False, True))
    found = duration_bound(instance, time_limit=1)
    assert staged is None or (not found.infeasible and found.value <= staged)
    bound = FreeOrderBound.of(graph)
    if budget >= graph.largest_working_set().memory:
        value = bound.improve(budget, time_limit=1, most=instance.max_computations)
        assert free is None or value <= free
    assert free is None or least_budget_within(graph, 5).memory <= budget
    enough = enough_budget(graph)
    assert least_duration(operations, enough, 9, True) is not None


@pytest.mark.parametrize("seed", MANY)
def test_certified_bounds_are_never_above_brute_force(seed):
    operations, budget, _ = draw_operations(seed, 4)
    graph = operations.graph
    for order in (None, graph.input_order()):
        document = certificate(prove(graph, budget, None, bool, order), None)
        best = least_duration(operations, budget, 4, order is None)
        proven = check_certificate(graph, document)
        assert best is None or (proven.bound is not None and graph.total_duration <= proven.bound <= best)


@pytest.mark.parametrize("seed", MANY)
def test_orders_have_the_least_peak_or_more_and_their_bound_is_none_too_high(seed):
    operations, _, _ = draw_operations(seed)
    found, best = mz.order(operations.graph, time_limit=1), least_peak(operations)
    assert found.details.bound <= best <= found.details.peak
    assert simulate(operations.graph, found.details.order).feasible


@pytest.mark.parametrize("seed", FEW)
def test_offsets_hold_all_outputs_from_their_computation_on(seed, tmp_path):
    operations, _, most = draw_operations(seed)
    graph, file = operations.graph, tmp_path / "plan.json"
    budget = simulate(graph, graph.input_order()).peak
    found = mz.solve(graph, max(1, budget), addresses=True, max_computations=most, time_limit=5, threads=1)
    assert found.valid
    found.save(file)
    assert mz.validate(graph, file).valid
    assert runtime_plan(found.as_dict(), graph).arenas == (found.arena,)


@pytest.mark.parametrize("seed", MANY)
def test_plans_without_their_graph_know_what_else_a_computation_makes(seed):
    """Of dropped outputs too there is a place while they are made; offsets that are given have to have one."""
    operations, _, _ = draw_operations(seed)
    graph, sequence = operations.graph, draw_sequence(operations, random.Random(seed))
    plan = RuntimePlan.of(graph, plan_of_sequence(sequence))
    whole = with_all_outputs(plan)
    nodes = [graph.index[step.node] for step in whole.steps]
    all_outputs = graph.with_all_outputs(sequence)
    assert RuntimePlan.of(graph, plan_of_sequence(nodes)) == whole and sorted(nodes) == sorted(all_outputs)
    assert simulate(graph, nodes).feasible and simulate(graph, nodes).peak == simulate(graph, all_outputs).peak
    assert (whole is plan) == (len(nodes) == len(sequence)) and with_all_outputs(whole) is whole
    offsets = list(accumulate((graph.sizes[v] + 9 for v in sequence), initial=0))[:-1]
    claimed = ClaimedSchedule(
        sequence=tuple(sequence), intervals=simulate(graph, sequence).intervals, offsets=tuple(offsets),
        workspace_offsets=(sum(graph.sizes) * len(sequence) + 9 * len(sequence),) * len(sequence),
    )  # fmt: skip
    found = [(one.kind, one.node) for one in validate_schedule(graph, claimed, None)]
    missing = Counter(all_outputs) - Counter(sequence)
    assert Counter(found) == {("no-offset", v): count for v, count in missing.items() if graph.sizes[v]}


@pytest.mark.parametrize("seed", MANY)
def test_moves_of_sets_keep_outputs_with_the_first_one_and_count_what_the_judge_counts(seed):
    operations, budget, _ = draw_operations(seed, 6)
    instance = Instance.build(operations.graph, budget, max_computations=3)
    problem = state.problem_of(instance)
    tail, head = state.useful_edges(problem, instance)
    if not len(tail):
        return
    now, generator = state.empty_state(problem), generator_of(seed)
    trail, stack = np.zeros((64, 2), np.int64), np.zeros((moves.Mix().depth + 1, 5), np.int64)
    for _ in range(30):
        moves.move(problem, now, tail, head, generator, moves.Mix(), 1.0, 1.0, trail, stack)
        account = simulate(instance.graph, state.sequence_of(instance, problem, now.stage))
        assert account.feasible and account.peak == now.peak.max()
        assert account.duration == instance.baseline.duration + now.totals[state.EXTRA]


@pytest.mark.parametrize("seed", MANY)
def test_moves_of_sequences_count_what_the_judge_counts(seed):
    operations, budget, _ = draw_operations(seed, 6)
    instance = Instance.build(operations.graph, budget, max_computations=3, order="free")
    problem = free_state.problem_of(instance)
    now, generator = free_state.empty_state(problem), generator_of(seed)
    free_state.enter(problem, now, free_state.slots_of(instance, problem, instance.order))
    trail, mix = np.zeros((64, 2), np.int64), free_moves.SequenceMix()
    stack = np.zeros((mix.depth + 1, 5), np.int64)
    for _ in range(30):
        free_moves.move(problem, now, generator, mix, 1.0, 1.0, trail, stack)
        length = now.totals[free_state.LENGTH]
        account = simulate(instance.graph, free_state.sequence_of(instance, problem, now.seq[:length]))
        assert account.feasible and account.peak == now.memory[:length].max()
        assert account.duration == now.totals[free_state.DURATION]


@pytest.mark.parametrize("seed", FEW)
def test_several_memories_count_outputs_of_one_operation_as_one(seed):
    operations, budget, _ = draw_operations(seed)
    graph = single_outputs(operations.graph)
    assert graph.output_of is None and len(graph.nodes) == len(operations.durations)
    sizes = [sum(operations.sizes[o] for o in row) for row in operations.outputs]
    assert list(graph.sizes) == sizes and simulate(graph, graph.input_order()).peak >= operations.peak_once()
    if not any(operations.workspaces):
        found = mz.solve(operations.graph, budget, paging={"out_time": 0.5}, time_limit=2, threads=1, search="only")
        assert found.status in ("optimal", "feasible", "infeasible", "unknown")
        assert found.status != "infeasible" or max(graph.working_sets) > budget


def test_what_reads_all_of_an_output_in_place_is_not_merged_into_one_of_several():
    labels = ["input", "Split", "Split", "Split", "Relu", "Relu"]
    graph = ComputationGraph(
        SPLIT.nodes, SPLIT.durations, (8, 4, 4, 4, 4, 4), [(0, 1), (1, 4), (2, 5)], labels=labels,
        output_of=SPLIT.output_of, order=range(6),
    )  # fmt: skip
    reduced = reduce_graph(graph, fuse=True).graph
    assert reduced.output_of == graph.output_of and reduced.nodes == graph.nodes


def test_of_a_tiled_graph_operations_with_several_outputs_stay_whole():
    rows = Operator("relu", (4, 4), (Read(4, (4, 4), (Reach(0), Reach(1))),))
    graph = ComputationGraph(
        SPLIT.nodes, SPLIT.durations, (16, 16, 16, 16, 16, 16), [(0, 1), (1, 4), (2, 4), (4, 5)], order=range(6),
        output_of=SPLIT.output_of, operators=[None, None, None, None, None, rows],
    )  # fmt: skip
    tiled = cut(graph, {5: {0: (0, 2, 4)}})
    assert tiled.nodes[:5] == SPLIT.nodes[:5] and len(tiled.nodes) == 7
    assert (
        tiled.output_of == (*SPLIT.output_of[:5], None, None) and tiled.workspace_of[1] == graph.workspace_of[1] == 32
    )


@pytest.mark.full
def test_a_schedule_is_found_where_only_outputs_apart_would_be_cheaper():
    """The right part is read late: it is kept, or the operation computed again; never made later from what is there."""
    graph = ComputationGraph(
        ["x", "split", "right", "a", "b", "c", "d"], [1, 9, 0, 1, 1, 1, 1], [2, 4, 4, 2, 9, 1, 1],
        [("x", "split"), ("split", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("right", "d"), ("split", "d")],
        output_of=[None, None, 1, None, None, None, None], order=range(7),
    )  # fmt: skip
    tight = simulate(graph, graph.input_order()).peak - 1
    found = mz.solve(graph, tight, time_limit=20, threads=1)
    assert found.status == "optimal" and judge(graph, found.details.sequence, tight).feasible
    assert found.duration > graph.total_duration


def test_what_is_computed_once_is_an_operation():
    for once in ([1], [2], [3, 2]):
        assert replace(SPLIT, computed_once=once).computed_once == (1, 2, 3)
    assert replace(SPLIT, computed_once=["right", 4]).computed_once == (1, 2, 3, 4)


def counts_in(folder, content):
    (folder / "counts.json").write_text(json.dumps(content))
    return folder / "counts.json"


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({"left": 1}, (2, 1, 1, 1, 2, 2)), ({"split": 4}, (2, 4, 4, 4, 2, 2)),
        ({"left": 3, "right": 5}, (2, 3, 3, 3, 2, 2)),
        ([1, 4, 3, 4, 2, 5], (1, 3, 3, 3, 2, 5)), ({"x": 3}, (3, 2, 2, 2, 2, 2)),
    ],
)  # fmt: skip
def test_outputs_of_one_operation_have_one_count(tmp_path, given, counts):
    assert read_counts(counts_in(tmp_path, given), SPLIT) == counts
    assert Instance.build(SPLIT, 20, max_computations=counts).max_computations == counts
    if isinstance(given, list):
        assert Instance.build(SPLIT, 20, max_computations=given).max_computations == counts
    memories = [
        {"paging": {"out_time": 0.5}, "budget": 20}, {"devices": {"one": 20}}, {"memories": {"fast": 20}},
    ]  # fmt: skip
    for one in memories:
        options = {"graph": SPLIT, "search": "only", "time_limit": 0.5, "threads": 1, **one}
        found = mz.solve(**options, max_computations=counts_in(tmp_path, given))
        assert found.details.problem.instance.max_computations == counts


def test_counts_of_several_memories_are_refused_as_they_were_given():
    options = {"graph": SPLIT, "budget": 20, "paging": {"out_time": 0.5}, "time_limit": 1}
    with pytest.raises(InputError, match="max_computations: 4 values for 6 nodes"):
        mz.solve(**options, max_computations=[2] * 4)
    with pytest.raises(InputError, match="max_computations of node left: 0 is not an integer"):
        mz.solve(**options, max_computations=[2, 2, 0, 2, 2, 2])


@pytest.mark.few(4)
@pytest.mark.parametrize("limited", ["split", "left", "right"])
@pytest.mark.parametrize("how", [{"order": "free"}, {"addresses": True}, {}])
def test_no_output_is_computed_more_often_than_its_limit(limited, how):
    """While b is computed, the right part is kept, or made again, with the left one, which nobody reads then."""
    graph = ComputationGraph(
        ["x", "split", "left", "right", "a", "b", "d", "c"], [1, 2, 0, 0, 1, 1, 1, 1], [4, 40, 80, 40, 2, 150, 20, 4],
        [("x", "split"), ("left", "a"), ("right", "a"), ("a", "b"), ("b", "d"), ("d", "c"), ("right", "c")],
        output_of=[None, None, 1, 1, None, None, None, None], order=range(8),
    )  # fmt: skip
    options = {"time_limit": 5, "threads": 1, "if_none": "stop", **how}
    again = mz.solve(graph, 190, max_computations=2, **options)
    assert Counter(again.details.sequence)[1] == 2
    most = [1 if node == limited else 2 for node in graph.nodes]
    assert mz.solve(graph, 190, max_computations=most, **options).details.sequence is None
    once = replace(graph, computed_once=[limited])
    assert mz.solve(once, 190, **options).details.sequence is None
