"""Places of plans in every memory: in place, workspaces, several outputs, outputs side by side, executed number by
number."""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from concatenations import joining_graph
from few import few
from flat_plans import KINDS, draw_graph, draw_plan, draw_platform, misdone
from outputs_oracle import draw_operations

import moccasin_mzn as mz
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.source import with_all_outputs
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import single_outputs
from moccasin_mzn.graphs.zero_copy import zero_copy_concat
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.files.plan_format import runtime_plan, schema, versioned
from moccasin_mzn.problem.files.plans import claimed_plan, plan_document, platform_document
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.placing import placing_of, placings_of
from moccasin_mzn.problem.plan_problem import PlanArenas, PlanProblem
from moccasin_mzn.problem.platform import plan_of_sequence, plan_with_all_outputs
from moccasin_mzn.problem.problem import answer_document
from moccasin_mzn.problem.runtime_plan import RuntimePlan, Step
from moccasin_mzn.problem.verdict import verdict
from moccasin_mzn.report.plots.picture import Picture

SEEDS = few(few(range(1500), keep=200, mark=pytest.mark.slow), keep=12)


def drawn(seed, kind, grain=1):
    """A platform, a plan in which all outputs have places, and the judge's account of it."""
    platform = draw_platform(draw_graph(seed, grain=grain), kind, seed)
    plan = draw_plan(platform, seed)
    assert judge_plan(platform, plan).violations == ()
    plan = plan_with_all_outputs(platform.graph, plan)
    return platform, plan, judge_plan(platform, plan)


def placed(platform, simulation, step=1, seed=0):
    """Arenas of a plan that are found at once."""
    return PlanArenas(
        tuple(search_arena(one.buffers, step, time_limit=0.002, seed=seed) for one in placings_of(platform, simulation))
    )


def problem_on(platform):
    return PlanProblem(Instance.build(platform.graph, "100%", max_computations="unlimited"), platform)


def places_of(problem, arenas, simulation):
    return [(one["offset"], one.get("workspace_offset")) for one in problem.placed(arenas, simulation)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_walks_have_all_features(kind):
    cases = [drawn(seed, kind) for seed in range(150)]
    simulations = [simulation for *_, simulation in cases]
    assert sum(bool(one.overwrites) for one in simulations) > 3
    assert kind == "one" or any({m for of in one.intervals for m in [of.memory]} == {0, 1} for one in simulations)
    graphs = [platform.graph for platform, *_ in cases]
    assert any(graph.workspaces for graph in graphs) and any(graph.adjacent for graph in graphs)
    blocks = [placing for platform, _, one in cases for placing in placings_of(platform, one)
              if any(buffer.block for buffer in placing.buffers)]  # fmt: skip
    assert len(blocks) > 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_plan_has_places_in_every_memory(seed, kind):
    platform, plan, simulation = drawn(seed, kind)
    if simulation.violations:  # groups in two memories of one device, of which all outputs are
        assert kind == "pools" and {one.kind for one in simulation.violations} == {"apart"}
        return
    problem, arenas = problem_on(platform), placed(platform, simulation, seed=seed)
    places = places_of(problem, arenas, simulation)
    assert misdone(platform, plan, places) == ""
    for arena, peak in zip(arenas.arenas, simulation.peaks, strict=True):
        assert arena.size >= peak == arena.peak
    assert problem.offsets(arenas, simulation) == tuple(offset for offset, _ in places)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule_is_the_plan_with_one_memory(seed):
    platform, plan, simulation = drawn(seed, "one")
    sequence = [action.node for action in plan]
    assert placings_of(platform, simulation) == (placing_of(platform.graph, simulate(platform.graph, sequence)),)
    assert plan == plan_of_sequence(platform.graph.with_all_outputs(sequence))


# Files


def document_of(seed, kind, step=1):
    """A plan with offsets as a file has it, its graph, and how it is executed; None: all outputs have no places."""
    platform, plan, simulation = drawn(seed, kind, grain=step)
    if simulation.violations:
        return None
    problem, arenas = problem_on(platform), placed(platform, simulation, step)
    document = versioned(platform.graph, plan, answer_document(problem, plan, simulation, arenas))
    return platform, plan, problem, arenas, simulation, json.loads(json.dumps(document))


@pytest.mark.parametrize("kind", ["paging", "devices", "pools"])
@pytest.mark.parametrize("seed", SEEDS)
def test_plans_with_all_features_are_read_back(seed, kind):
    step = 1 + seed % 3
    case = document_of(seed, kind, step)
    if case is None:
        return
    platform, plan, problem, arenas, simulation, document = case
    graph, places = platform.graph, places_of(problem, arenas, simulation)
    assert pytest.importorskip("jsonschema").Draft202012Validator(schema()).is_valid(document)
    found = runtime_plan(document, graph)
    assert found == runtime_plan(document) and found.actions(graph) == plan
    assert found.arenas == tuple(arena.size for arena in arenas.arenas)
    judged = verdict(graph, document)
    assert judged.violations == () and judged.account == simulation
    assert [arena.top for arena in judged.arenas] == [arena.size for arena in arenas.arenas]
    first = {(of.node, of.memory): of.start - 1 for of in simulation.intervals}
    for step_of, of, (offset, workspace) in zip(found.steps, simulation.intervals, places, strict=True):
        assert (step_of.offset, step_of.workspace_offset) == (offset, workspace)
        makes = graph.output_of and of.source is None and graph.output_of[of.node] is not None
        assert (step_of.begin is not None) == bool(makes)
        first[of.node, of.memory] = of.start - 1
    assert document.get("in_place", False) == (graph.overwritable is not None)


@pytest.mark.parametrize("kind", ["paging", "devices", "pools"])
@pytest.mark.parametrize("first", few(range(0, 600, 20), keep=1, mark=pytest.mark.slow))
def test_what_goes_wrong_in_memory_is_never_valid(first, kind):
    """Copies and workspaces are moved at random: what `validate` accepts is executed as it should be."""
    noticed, rng = 0, random.Random(first)
    for platform, plan, *_, document in filter(None, (document_of(first + k, kind) for k in range(20))):
        for _ in range(5):
            wrong = copy.deepcopy(document)
            of = rng.choice(wrong["intervals"])
            key = rng.choice([key for key in ("offset", "workspace_offset") if key in of])
            of[key] = max(0, of[key] + rng.choice([-3, -2, -1, 1, 2, 3]))
            del wrong["arenas"]
            places = [(one["offset"], one.get("workspace_offset")) for one in wrong["intervals"]]
            violations = verdict(platform.graph, wrong).violations
            if misdone(platform, plan, places):
                noticed += 1
                assert violations and violations[0].kind in ("overlap", "apart")
    assert noticed > 10


@pytest.mark.parametrize("kind", ["paging", "devices", "pools"])
def test_an_output_without_a_place_is_noticed(kind):
    missing = 0
    for seed in range(40):
        platform = draw_platform(draw_graph(seed), kind, seed)
        plan, graph = draw_plan(platform, seed), platform.graph
        simulation, problem = judge_plan(platform, plan), problem_on(platform)
        if plan == plan_with_all_outputs(graph, plan) or not any(graph.sizes):
            continue
        document = answer_document(problem, plan, simulation, placed(platform, simulation))
        kinds = {one.kind for one in verdict(graph, json.loads(json.dumps(document))).violations}
        lost = any(
            graph.sizes[w] and w not in {one.node for one in plan[t + 1 :][: len(graph.outputs_of[action.node])]}
            for t, action in enumerate(plan) if action.source is None for w in graph.outputs_of[action.node]
        )  # fmt: skip
        assert ("no-offset" in kinds) >= lost
        missing += lost
    assert missing > 3


# What is done with such a file


@pytest.fixture(params=["paging", "devices", "pools"])
def files(request, tmp_path):
    """The files of a graph in place without its concatenations, and of a plan of it, and the case."""
    seed = {"paging": 3, "devices": 3, "pools": 3}[request.param]
    while True:
        seed += 1
        platform = draw_platform(draw_graph(seed), request.param, seed)
        if draw_graph(seed).overwritable is None:
            continue
        case = document_of(seed, request.param)
        if case is not None and case[4].overwrites and any(case[0].graph.workspaces or ()):
            break
    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    write_graph(platform.graph, graph)
    plan.write_text(json.dumps(case[-1]))
    return graph, plan, case


def test_commands_and_functions_judge_a_plan_in_place(files, command, tmp_path):
    graph, plan, (platform, actions, _, arenas, simulation, document) = files
    assert document["in_place"] is True
    status, out, _ = command("validate", graph, plan, "--in-place")
    assert status == 0 and out.startswith("valid: peak in m0 ") and "no overlap" in out
    assert command("validate", graph, plan)[0] == 1  # it needs more where nothing is overwritten
    read = mz.read_result(graph, plan)
    assert read.valid and read.plan == actions and [*read.peaks.values()] == [*simulation.peaks]
    assert [*read.arenas.values()] == [arena.size for arena in arenas.arenas]
    assert [one.offset for one in read.intervals] == [of["offset"] for of in document["intervals"]]
    assert mz.validate(graph, plan, in_place=True).valid and not mz.validate(graph, plan).valid
    status, out, _ = command("plot", graph, plan)
    assert status == 0 and all(name in out for name in read.peaks)
    assert Picture(platform, actions, platform.graph.input_order()).after == simulation


def test_a_header_has_workspaces_and_where_outputs_begin(files, command, tmp_path):
    _, plan, (platform, _, _, _, _, document) = files
    header = tmp_path / "plan.h"
    status, out, err = command("deploy", "c-header", plan, "-o", header)
    assert (status, err) == (0, ""), err
    text = header.read_text()
    for key, name in (("workspace", "workspace"), ("workspace_offset", "workspace_offset"), ("offset", "offset")):
        found = re.search(rf" plan_{name}\[\d+\] = \{{.*?\n(.*?)\n\}};", text, re.S)
        assert [int(value) for value in found[1].split(",")[:-1]] == [of.get(key, 0) for of in document["intervals"]]
    begins = [of.get("begin", of["start"]) - 1 for of in document["intervals"]]
    found = re.search(r" plan_begin\[\d+\] = \{.*?\n(.*?)\n\};", text, re.S)
    assert (begins == [*range(len(begins))]) if found is None else [int(x) for x in found[1].split(",")[:-1]] == begins


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_plans_for_runtimes_list_all_outputs_in_their_memory(seed, kind):
    platform = draw_platform(draw_graph(seed), kind, seed)
    graph, actions = platform.graph, draw_plan(platform, seed)
    names = [memory.name for memory in platform.memories]
    whole, plan = plan_with_all_outputs(graph, actions), RuntimePlan.of(graph, actions, names, devices=platform.devices)
    try:
        found = with_all_outputs(plan)
    except InputError as error:  # an output would take the place of a copy in another memory, where it takes more
        found, refused = None, str(error)
    if found is None:
        assert "has no place: solve with --addresses" in refused and platform.has_accesses
        return
    assert Counter(found.actions(graph)) == Counter(whole)
    assert judge_plan(platform, found.actions(graph)).peaks == judge_plan(platform, whole).peaks


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_of_merged_outputs_begins_a_search_of_a_plan_that_lists_them(seed):
    """Older files know no further outputs: one node stands for all outputs of an operation."""
    graph = draw_operations(seed)[0].graph
    single = single_outputs(graph)
    older = draw_platform(single, "paging", seed)
    plan = draw_plan(older, seed)
    document = {"plan": plan_document(older, plan), "platform": platform_document(older)}
    claimed = claimed_plan(json.loads(json.dumps(document)), graph)
    assert claimed.platform.graph.sizes == single.sizes and claimed.plan == plan
    new = claimed.on(draw_platform(graph, "paging", seed))
    account, before = judge_plan(draw_platform(graph, "paging", seed), new), judge_plan(older, plan)
    assert account.violations == () and account.traffic == before.traffic
    assert account.duration - sum(graph.durations) >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_graphs_without_concatenations(kind, command, tmp_path):
    """Commands get the graph with its concatenations; the file states for which alignment they were taken out."""
    seed = next(seed for seed in range(99) if zero_copy_concat(joining_graph(seed, grain=2), 2).taken_out)
    whole, step = joining_graph(seed, grain=2), 2
    graph = zero_copy_concat(whole, step).graph
    platform = draw_platform(graph, kind, seed)
    plan = draw_plan(platform, seed)
    simulation, problem = judge_plan(platform, plan), problem_on(platform)
    if kind == "one":
        problem, plan = problem.instance, tuple(action.node for action in plan)
        simulation, arenas = simulate(graph, plan), search_arena(placing_of(graph, simulate(graph, plan)).buffers, step)
    else:
        arenas = placed(platform, simulation, step)
    document = versioned(graph, plan, answer_document(problem, plan, simulation, arenas))
    assert document["zero_copy_concat"] == step
    document.pop("budget", None)
    file, answer = tmp_path / "graph.json", tmp_path / "plan.json"
    write_graph(whole, file)
    answer.write_text(json.dumps(document))
    status, out, err = command("validate", file, answer, "--zero-copy-concat")
    assert status == 0 and out.startswith("valid: "), out + err
    status, out, _ = command("validate", file, answer)
    assert status in (1, 2)
    assert mz.read_result(file, answer).valid
    status, out, err = command("plot", file, answer)
    assert status == 0, err
    picture = tmp_path / "picture.html"
    assert command("plot", file, answer, "-o", picture)[0] == 0 and picture.exists()


def test_a_schedule_in_place_is_drawn_in_place(command, tmp_path):
    graph = ComputationGraph(
        list("abc"), [1, 1, 1], [8, 8, 8], [(0, 1), (1, 2)], order=range(3), in_place=[[], [0], [1]]
    )
    file, answer = tmp_path / "graph.json", tmp_path / "plan.json"
    write_graph(graph, file)
    problem = Instance.build(graph.run_in_place(), 8)
    document = versioned(problem.graph, (0, 1, 2), answer_document(problem, (0, 1, 2), problem.judge((0, 1, 2)), None))
    answer.write_text(json.dumps(document))
    status, out, _ = command("plot", file, answer)
    assert status == 0 and "16" not in out and "8" in out


def test_steps_in_other_memories_are_refused_without_a_graph():
    """What a further output begins at, and what is read as one, is in one memory."""
    plain = Step("a", (), 2, 8), Step("b", (), 2, 8, 1), Step("c", (0, 1), 2, 8)
    assert RuntimePlan(plain, "0" * 64, ("m0", "m1"), devices=(0, 0))
    for at, changes, message in (
        (1, {"begin": 0}, r"step 2 \(node b\): begins at step 1, which computes nothing in its memory"),
        (2, {"adjacent": ((0, 1),)}, r"step 3 \(node c\): reads steps \[1, 2\] as one, which are in two memories"),
    ):
        steps = [replace(step, **changes) if at == k else step for k, step in enumerate(plain)]
        with pytest.raises(InputError, match=message):
            RuntimePlan(steps, "0" * 64, ("m0", "m1"), devices=(0, 0))
    copied = Step("a", (), 1, 8), Step("a", (0,), 1, 8, 1, 0, begin=0)
    with pytest.raises(InputError, match="begins at step 1"):
        RuntimePlan(copied, "0" * 64, ("m0", "m1"))
