"""Models, data, checker and search of all kinds of platforms against an exact oracle of all features."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from device_runs import proven
from device_slots import draw_device_problem, draw_mixed_problem
from few import few
from machine_cases import machine_of
from paging_cases import draw_problem as draw_paging_problem
from pools_cases import draw_pools
from soaking import exact_plans
from soaking.exact_questions import exact_graph

import moccasin_mzn as mz
from moccasin_mzn.machine.data import StageSlots, decode, encode, machine_data
from moccasin_mzn.machine.devices.search import plan_of, search_plans, slots_of
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.problem.features import Feature, graph_features
from moccasin_mzn.problem.files.plans import platform_document
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.platform import OBJECTIVES, Action

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")

FORMS = [pytest.param(True, id="staged"), pytest.param(False, id="general")]
TOO_MANY = 24
"""Intervals of a model with free events, more of which take minutes."""
KINDS = {
    "devices": draw_device_problem,
    "mixed": draw_mixed_problem,
    "paging": lambda seed: draw_paging_problem(seed, 4, workspaces=seed % 2 == 0),
    "pools": lambda seed: draw_pools(seed, memories=2 + (seed % 5 == 4), most_nodes=4 if seed % 5 == 4 else 5),
}
"""How problems of each kind of platform are drawn: links between devices; those and several memories of one device;
slow memory; one device with several memories."""


def drawn(count: int, keep: int):
    """Problems of each kind, a few of which are left to `make test`."""
    cases = [(kind, seed) for seed in range(count // len(KINDS)) for kind in KINDS]
    return few(cases, keep=keep, mark=pytest.mark.slow)


def best_plan(problem, staged):
    """The least total and a plan of it, or None: there is no plan."""
    platform, goal = problem.platform, problem.goal
    nodes, memories = range(len(problem.graph.nodes)), range(len(platform.memories))
    most = [[problem.most_intervals(v, m) for v in nodes] for m in memories]
    caps = {what: goal.limit(what) for what in OBJECTIVES if goal.limit(what) is not None}
    try:
        found = exact_plans.best_plan(
            exact_graph(problem.graph), machine_of(platform), "slots" if staged else "free", most, goal.objective, caps
        )
    except MemoryError:
        pytest.skip("too many states for the oracle")
    return found and (found[0], tuple(Action(*action) for action in found[1]))


@pytest.mark.few(5)
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize(("kind", "seed"), drawn(800, keep=48))
def test_models_alone_have_the_optimum_of_the_oracle(staged, kind, seed):
    problem = KINDS[kind](seed)
    if not staged and len(machine_data(problem, staged).intervals) > TOO_MANY:
        pytest.skip("too many intervals for free events")
    found = best_plan(problem, staged)
    expected = ("infeasible", None) if found is None else ("optimal", found[0])
    form = MachineFormulation(staged)
    small = all(one.total < 2**31 for one in form.sums(form.data(problem)))
    solver = "gecode" if seed % 8 == 5 and small else "cp-sat"
    assert proven(problem, staged, solver, incumbent=found[1] if found and seed % 2 else None) == expected


@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize(("kind", "seed"), drawn(2000, keep=24))
def test_a_best_plan_is_a_solution_of_the_reduced_data(staged, kind, seed):
    problem = KINDS[kind](seed)
    found = best_plan(problem, staged)
    if found is None:
        return
    data = machine_data(problem, staged)
    intervals = encode(data, found[1])
    assert intervals is not None
    simulation = judge_plan(problem.platform, decode(data, intervals), problem.goal)
    assert simulation.violations == () and problem.value(simulation) == found[0]
    if staged:
        stages = StageSlots.of(problem)
        assert plan_of(stages, slots_of(stages, found[1])) == found[1]


@pytest.mark.few(2)
@pytest.mark.parametrize(("kind", "seed"), drawn(400, keep=16))
def test_the_checker_accepts_best_plans(kind, seed):
    problem = KINDS[kind](seed)
    found = best_plan(problem, False)
    if found is not None:
        simulation = judge_plan(problem.platform, found[1])
        assert "CORRECT" in MachineFormulation(False).checked(problem, found[1], simulation, None)[0]


def searched(seed, kind="devices"):
    """The best plan's total, and the least total of those that the search offers; None: there is none."""
    problem, offered, asked = KINDS[kind](seed), [], []

    def offer(plan):
        simulation = judge_plan(problem.platform, plan, problem.goal)
        assert simulation.violations == () and problem.out_of_scope(plan) is None
        offered.append((problem.value(simulation), len(offered), plan))

    def better():
        asked.append(None)
        return min(offered)[-1] if offered else None

    search_plans(problem, 0, offer, lambda: len(asked) > 5, better)
    found = best_plan(problem, True)
    return found and found[0], min(offered)[0] if offered else None


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", ["devices", "mixed"])
@pytest.mark.parametrize("seed", few(range(300), keep=12, mark=pytest.mark.slow))
def test_what_the_search_offers_is_no_better_than_the_best(seed, kind):
    best, offered = searched(seed, kind)
    assert offered is None or (best is not None and offered >= best)


@pytest.mark.slow
def test_the_search_mostly_finds_a_best_plan():
    pairs = [pair for pair in map(searched, range(100)) if pair[0] is not None]
    assert len(pairs) > 40
    assert sum(best == offered for best, offered in pairs) >= 0.9 * len(pairs)


def test_drawn_mixed_problems_need_all_that_they_have():
    """Some have no plan; others copy, compute on both devices, recompute, or use both memories of one."""
    kinds = Counter()
    for seed in range(50):
        problem = draw_mixed_problem(seed)
        found, platform = best_plan(problem, staged=False), problem.platform
        plan = () if found is None else found[1]
        computed = [action for action in plan if action.source is None]
        kinds["none"] += found is None
        kinds["copies"] += len(computed) < len(plan)
        kinds["both devices"] += len({platform.devices[action.memory] for action in computed}) > 1
        kinds["again"] += len(computed) > len(problem.graph.nodes)
        places = {action.memory for action in plan}
        kinds["both memories"] += any(places >= {a, b} for a in places for b in places
                                      if a != b and platform.devices[a] == platform.devices[b])  # fmt: skip
    assert len(kinds) == 5 and min(kinds.values()) >= 3, kinds


def test_drawn_problems_have_all_features():
    counts = Counter(feature for seed in range(300) for feature in graph_features(draw_device_problem(seed).graph))
    features = {Feature.WORKSPACES, Feature.OUTPUTS, Feature.IN_PLACE, Feature.SIDE_BY_SIDE}
    assert min(counts[feature] for feature in features) >= 20


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [[], ["--order", "free"], ["--addresses", "--alignment", "1"]], ids=" ".join)
@pytest.mark.parametrize("seed", few(range(40), keep=[3], mark=pytest.mark.slow))
def test_a_platform_in_a_file_may_have_links_and_several_memories_of_a_device(command, tmp_path, seed, words):
    problem = draw_mixed_problem(seed)
    graph, file, plan = tmp_path / "graph.json", tmp_path / "platform.json", tmp_path / "plan.json"
    mz.write_graph(problem.graph, graph)
    file.write_text(json.dumps({"goal": {}, "platform": platform_document(problem.platform)}))
    words = [*words, "--max-computations", problem.instance.max_computations[0], "--threads", 1]
    words += ["--time-limit", 30 if words[0] == "--max-computations" else 3]
    words += ["--in-place"] if problem.graph.overwritable is not None else []
    status, out, _ = command("solve", graph, "--platform", file, *words, "--json", "--check", "-o", plan)
    found, best = json.loads(out), best_plan(problem, staged="free" not in words)
    if not words[0].startswith(("--order", "--addresses")):  # with a free order or offsets a proof may take longer
        expected = (1, "infeasible", None) if best is None else (0, "optimal", best[0])
        assert (status, found["status"], found["duration"]) == expected
    if found["duration"] is not None:
        assert best is not None and found["duration"] >= best[0] and found["formulation"] == "machine"
        assert command("validate", graph, plan)[0] == 0
