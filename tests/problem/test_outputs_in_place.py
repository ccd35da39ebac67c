"""Several outputs, and inputs that are overwritten: what stands for such graphs, and bounds, against schedules."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from few import few
from least_oracle import draw_any, draw_schedule
from outputs_oracle import draw_operations, draw_sequence, overwriting_outputs

import moccasin_mzn as mz
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.input_order import duration_bound
from moccasin_mzn.bounds.least_budget import least_budget_within
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph
from moccasin_mzn.graphs.memory_model import relaxed, single_outputs
from moccasin_mzn.heuristics.orders.least_peak import peak_bound
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.validate import kept_by_outputs

MANY = few(few(range(2000), keep=200, mark=pytest.mark.slow), keep=15)
FEW = few(few(range(400), keep=36, mark=pytest.mark.slow), keep=8)
SPLIT = ComputationGraph(
    ["p", "x", "split", "left", "right", "y", "z", "w", "v"], [5, 1, 2, 0, 0, 1, 1, 1, 1],
    [20, 10, 10, 10, 10, 10, 10, 10, 1],
    [("x", "split"), ("split", "y"), ("left", "y"), ("y", "z"), ("right", "z"), ("z", "w"), ("w", "v"), ("p", "v")],
    output_of=[None, None, None, 2, 2, None, None, None, None], in_place=[[], [], [], [], [], [2], [], [], []],
    order=range(9),
).run_in_place()  # fmt: skip


def no_more(graph, sequence):
    """Is memory in the graph that stands for this one, less the amount, nowhere more?"""
    other, amount = relaxed(graph)
    found, most = simulate(other, sequence), simulate(graph, sequence)
    return all(m <= n + amount for m, n in zip(found.memory, most.memory, strict=True))


@pytest.mark.parametrize("seed", MANY)
def test_no_schedule_needs_more_in_the_graph_that_stands_for_it(seed):
    operations, _, _ = draw_operations(seed)
    graph, rng = overwriting_outputs(operations, seed), random.Random(seed)
    for _ in range(5):
        sequence = draw_sequence(operations, rng)
        assert simulate(graph, sequence).feasible and no_more(graph, sequence)
    factor = TOTAL_LIMIT // max(1, graph.total_size + max(graph.workspace_of))  # of sizes as large as they may be
    large = replace(graph, sizes=[size * factor for size in graph.sizes])
    assert no_more(large, sequence)


@pytest.mark.parametrize("seed", MANY)
def test_no_bound_is_above_a_schedule(seed):
    operations, _, _ = draw_operations(seed, 4)
    graph, rng = overwriting_outputs(operations, seed), random.Random(seed)
    least, orders = least_budget_within(graph, 2).memory, peak_bound(graph, graph.input_order(), 1)
    for again in (0, 0.3, 0.5):
        sequence = draw_sequence(operations, rng, again)
        found = simulate(graph, sequence)
        assert graph.largest_working_set().memory <= found.peak >= least and (again or orders <= found.peak)
        instance = Instance.build(graph, max(1, found.peak), max_computations="unlimited")
        bound = duration_bound(instance, time_limit=5)
        assert not bound.infeasible and bound.value <= found.duration
        free = FreeOrderBound.of(graph).improve(found.peak, time_limit=1, most=instance.max_computations)
        assert free <= found.duration


@pytest.mark.parametrize("seed", MANY)
def test_of_outputs_that_are_one_none_is_overwritten_or_overwrites(seed):
    operations, _, _ = draw_operations(seed)
    graph = overwriting_outputs(operations, seed)
    single, several = single_outputs(graph), [v for v, row in enumerate(operations.outputs) if len(row) > 1]
    rows = single.in_place or ((),) * len(single.nodes)
    assert not any(rows[v] for v in several) and not {*several} & {u for row in rows for u in row}
    of = {row[0]: v for v, row in enumerate(operations.outputs) if len(row) == 1}
    wanted = {(u, v) for v, row in enumerate(graph.in_place or ()) for u in row if u in of and v in of}
    assert {(of[u], of[v]) for u, v in wanted} == {(u, v) for v, row in enumerate(rows) for u in row}


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("order", ["input", "free"])
def test_what_is_found_is_no_longer_than_a_schedule_within_the_budget(seed, order):
    operations, _, _ = draw_operations(seed, 4)
    graph = overwriting_outputs(operations, seed)
    sequence = draw_sequence(operations, random.Random(seed))
    account = simulate(graph, sequence)
    options = {"order": order, "max_computations": 9, "time_limit": 20, "threads": 1}
    found = mz.solve(graph, max(1, account.peak), **options)
    assert found.valid and judge(graph, found.details.sequence, max(1, account.peak)).feasible
    assert found.duration <= account.duration or found.status != "optimal"


@pytest.mark.parametrize("workspaces", [None, [0, 0, 0, 0, 0, 10, 0, 0, 0]])
@pytest.mark.parametrize("order", ["input", "free"])
def test_a_schedule_is_no_shorter_than_what_is_claimed_of_the_graph(workspaces, order):
    graph = replace(SPLIT, workspaces=workspaces)
    least = simulate(graph, graph.input_order()).peak - (5 if order == "input" else 15)
    found = mz.solve(graph, least, order=order, time_limit=20, threads=1)
    assert found.valid and found.status == "optimal"


def test_outputs_that_keep_an_operation_from_running_in_place_are_named():
    """f may overwrite a, but where g is retained, a is read at its position as well; made again without g, f does."""
    graph = ComputationGraph(
        ["a", "f", "g", "r", "s"], [1] * 2 + [0, 1, 1], [5, 5, 1, 1, 1], [(0, 1), (1, 3), (2, 3), (1, 4), (3, 4)],
        order=range(5), in_place=[[], [0], [], [], []], output_of=[None, None, 1, None, None], runs_in_place=True,
    )  # fmt: skip
    text = "further outputs that are retained keep these from running in place: f (see What is computed: "
    once, twice = [0, 1, 2, 3, 4], [0, 1, 2, 3, 0, 1, 4]
    assert simulate(graph, once).memory == (5, 11, 11, 7, 7) and simulate(graph, twice).memory[5] == 7
    assert [note.startswith(text) for note in kept_by_outputs(graph, once)] == [True]
    assert kept_by_outputs(graph, twice) == kept_by_outputs(graph, once)
    assert kept_by_outputs(graph.run_in_place(False), once) == () == kept_by_outputs(graph, [0, 1, 1, 9, -1])
    found = mz.solve(graph, "100%", time_limit=5)
    assert [note.startswith(text) for note in found.notes] == [True]
    assert any(text in note for note in mz.validate(graph, found.as_dict()).notes)


@pytest.mark.parametrize("block", few(range(10), keep=1))
def test_named_is_what_would_run_in_place_without_its_further_outputs(block):
    named = 0
    for seed in range(300 * block, 300 * (block + 1)):
        graph = draw_any(seed, 6)
        sequence = draw_schedule(graph, random.Random(seed))
        note = "".join(kept_by_outputs(graph, sequence))
        listed = set(re.findall(r"n\d+", note.partition(": ")[2].partition(" (see")[0]))
        of, wanted = graph.output_of or (None,) * len(graph.nodes), set()
        whole = {t for t, _ in simulate(graph, sequence).overwrites}
        for t, v in enumerate(sequence, start=1):
            rest = [
                u for at, u in enumerate(sequence) if not (at >= t and of[u] == v and at < t + len(graph.outputs_of[v]))
            ]
            other = {p for p, _ in simulate(graph, rest).overwrites}
            wanted |= {graph.nodes[v]} if t in other - whole else set()
        assert listed == wanted
        named += bool(wanted)
    assert named
