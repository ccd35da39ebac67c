"""Joint models of graphs with workspaces, several outputs and in place, against brute force; and their checkers."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import pytest
from few import few
from soaking.exact import arena_best, best
from soaking.exact_questions import draw_graph, exact_graph

import moccasin_mzn as mz
from moccasin_mzn.cli.solve import checker_lines
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.checkers import CheckError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.addresses.joint import _Joint, check_placed, is_modelled, solve_jointly
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.features import Feature, Features, graph_features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")
KINDS = {
    "workspaces": Features({Feature.WORKSPACES}),
    "outputs": Features({Feature.OUTPUTS}),
    "in place": Features({Feature.IN_PLACE}),
    "outputs, workspaces": Features({Feature.OUTPUTS, Feature.WORKSPACES}),
    "in place, workspaces": Features({Feature.IN_PLACE, Feature.WORKSPACES}),
    "in place, outputs": Features({Feature.IN_PLACE, Feature.OUTPUTS}),
}


def drawn(kind: str, seed: int) -> tuple[Instance, int, bool]:
    """A tiny instance, an alignment, and whether its schedules are to be in stages."""
    rng = random.Random(f"joint {kind} {seed}")
    while True:
        graph = draw_graph(rng, 4, 4, crowded=rng.random() < 0.6)
        low, high = max(graph.working_sets), simulate(graph, graph.input_order()).peak
        if KINDS[kind] <= graph_features(graph) and is_modelled(graph) and 0 < low < high and len(graph.nodes) <= 5:
            break
    budget, most = min(13, rng.randint(low, high)), rng.choice([1, 2, 2, 3])
    return Instance.build(graph, budget, max_computations=most), rng.choice([1, 1, 2]), rng.random() < 0.6


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", few(few(range(200), keep=range(8), mark=pytest.mark.slow), keep=1))
def test_joint_models_of_any_kind_have_the_optimum_of_brute_force(kind, seed):
    """A bound is exact even where an output lies over another input than in the judge's account; arenas are judged."""
    instance, alignment, staged = drawn(kind, seed)
    graph, most = instance.graph, list(instance.max_computations)
    try:
        exact = arena_best(
            exact_graph(graph), instance.budget, alignment, most, "staged" if staged else "free", 150_000
        )
    except MemoryError:
        return
    answer = solve_jointly(instance, alignment, staged=staged, limits=Limits(120, 1))
    if exact is None:
        assert answer.status == "infeasible" and answer.sequence is None
        return
    assert answer.bound == exact[0] and answer.status in ("optimal", "unknown", "feasible")
    assert answer.status == "optimal" or graph.runs_in_place
    if answer.sequence is not None:
        simulation = judge(graph, answer.sequence, instance.budget)
        assert simulation.feasible and (simulation.duration == exact[0]) == (answer.status == "optimal")
        assert answer.sequence == graph.with_all_outputs(answer.sequence)
        assert answer.arena.size <= instance.budget and answer.arena.buffers == placing_of(graph, simulation).buffers
        assert "CORRECT" in check_placed(instance, answer.sequence, simulation, answer.arena)


def test_an_operation_that_overwrites_with_further_outputs_is_not_modelled():
    graph = ComputationGraph(
        list("xsr"), [1, 1, 0], [4, 4, 4], [(0, 1)], output_of=[None, None, 1], in_place=[[], [0], []],
    )  # fmt: skip
    assert is_modelled(graph) and not is_modelled(graph.run_in_place())


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", few(few(range(60), keep=range(3), mark=pytest.mark.slow), keep=1))
def test_a_warm_start_of_any_kind_is_a_solution(tmp_path, kind, seed):
    """With the warm start as the only solution allowed, the model finds it."""
    instance, alignment, staged = drawn(kind, 1000 + seed)
    graph = instance.graph
    found = best(exact_graph(graph), instance.budget, "staged", list(instance.max_computations))
    sequence = graph.with_all_outputs(graph.input_order() if found is None else found[1])
    arena = search_arena(placing_of(graph, simulate(graph, sequence)).buffers, alignment)
    joint = _Joint(replace(instance, budget=arena.size), alignment, staged)
    form, solved = find_formulation("staged" if staged else "general"), []
    model = tmp_path / "fixed.mzn"
    model.write_text(f"""
        include "{form.file}";
        constraint active = incumbent_active /\\ start = incumbent_start /\\ end = incumbent_end;
        constraint offset = incumbent_offset /\\ workspace_offset = incumbent_workspace_offset;
    """)
    items = joint.items(form, sequence, arena)
    assert "incumbent_offset" in items
    outcome = run_model(
        find_backend("cp-sat"), model, dzn_text(items), Limits(60, 1, 0),
        OutputListener(solution=solved.append, bound=lambda bound: None),
    )  # fmt: skip
    assert outcome.status == "optimal"
    joint.solution(solved[-1])
    assert joint.sequence == sequence and joint.arena == arena


# --- The checker of schedules ---------------------------------------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", few(range(10), keep=1))
def test_the_checker_of_schedules_judges_places_of_any_kind(kind, seed):
    """It accepts an arena, and refuses it once a buffer is moved into another one."""
    instance, alignment, _ = drawn(kind, 2000 + seed)
    graph = instance.graph
    sequence = graph.with_all_outputs(graph.input_order())
    simulation = simulate(graph, sequence)
    placing = placing_of(graph, simulation)
    arena = search_arena(placing.buffers, alignment)
    roomy = replace(instance, budget=max(arena.size, simulation.peak))
    assert "CORRECT: duration" in check_placed(roomy, sequence, simulation, arena)
    for moved in range(len(placing.buffers)):
        at = next(
            (offset for offset in range(0, arena.size, alignment) if clashes(placing.buffers, arena, moved, offset)),
            None,
        )
        if at is not None:
            wrong = object.__new__(Arena)
            offsets = (*arena.offsets[:moved], at, *arena.offsets[moved + 1 :])
            for name, value in (("buffers", placing.buffers), ("offsets", offsets), ("alignment", alignment)):
                object.__setattr__(wrong, name, value)
            with pytest.raises(CheckError, match="share|ends at address"):
                check_placed(roomy, sequence, simulation, wrong)
            return


def clashes(buffers, arena: Arena, moved: int, offset: int) -> bool:
    """True if a buffer cannot lie there."""
    try:
        Arena(buffers, (*arena.offsets[:moved], offset, *arena.offsets[moved + 1 :]), arena.alignment)
    except mz.InputError:
        return True
    return False


# --- Questions ------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", few(range(4), keep=1))
def test_offsets_of_small_graphs_are_proven_by_the_joint_model(kind, seed):
    """Asked by users: what is infeasible or optimal is so by brute force, and the checkers accept it."""
    instance, alignment, staged = drawn(kind, 3000 + seed)
    order = {} if staged else {"order": "free"}
    found = mz.solve(
        instance.graph, instance.budget, addresses=True, alignment=alignment, time_limit=20, threads=1, if_none="stop",
        max_computations=instance.max_computations, **order,
    )  # fmt: skip
    most = list(instance.max_computations)
    exact = arena_best(exact_graph(instance.graph), instance.budget, alignment, most, "staged" if staged else "free")
    if exact is None:
        assert found.status == "infeasible" or staged or instance.graph.runs_in_place
        assert staged or not found.valid
    elif found.status == "optimal":
        assert found.duration <= exact[0]
        assert all("CORRECT" in line and "INCORRECT" not in line for line in checker_lines(found.details))
