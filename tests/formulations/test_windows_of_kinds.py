"""Windows of graphs in place, with workspaces and with several outputs: against brute force, and in a search."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from few import few
from soaking.exact import best
from soaking.exact_questions import exact_graph
from window_cases import ALL, STAGED, Solved, brute_force, check, draw_window, draw_with, incumbent_alone, solver_for

from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.checkers import check_solution
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.formulations.window_cuts import Freedom
from moccasin_mzn.formulations.windows import Incumbent, window
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import single_outputs
from moccasin_mzn.heuristics.staged.search import LocalSearch
from moccasin_mzn.problem.features import Feature, Features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.searchers.model import WindowSearch
from moccasin_mzn.solvers.minizinc.run import Limits
from moccasin_mzn.solvers.minizinc.solvers import find_backend

KINDS = {
    "in place": Features({Feature.IN_PLACE}),
    "outputs": Features({Feature.OUTPUTS}),
    "in place, workspaces": Features({Feature.IN_PLACE, Feature.WORKSPACES}),
    "in place, outputs": Features({Feature.IN_PLACE, Feature.OUTPUTS}),
    "all": Features({Feature.IN_PLACE, Feature.OUTPUTS, Feature.WORKSPACES}),
}
DATA = Path(__file__).resolve().parents[2] / "data"
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


def drawn(seed: int, kind: str, operations: int = 4) -> tuple[Instance, tuple[int, ...]]:
    return draw_with(f"{kind} {seed}", KINDS[kind], operations)


@pytest.mark.few(6)
@EACH_KIND
@pytest.mark.parametrize("seed", few(few(range(300), keep=range(40), mark=pytest.mark.slow), keep=3))
def test_a_window_of_any_kind_is_solved_to_what_brute_force_finds(seed, kind):
    instance, sequence = drawn(seed, kind)
    cut = draw_window(instance, sequence, seed)
    if cut is not None:
        check(cut, Solved(cut, solver_for(cut, seed)), brute_force(cut))


@pytest.mark.few(2)
@EACH_KIND
@pytest.mark.parametrize("seed", few(few(range(100), keep=range(10), mark=pytest.mark.slow), keep=1))
def test_the_whole_window_is_the_whole_instance_of_any_kind(seed, kind):
    instance, sequence = drawn(seed, kind, operations=5)
    cut = window(instance, sequence, 1, len(instance.order), ALL)
    if cut is not None:
        most = list(instance.max_computations)
        expected = best(exact_graph(instance.graph), instance.budget, "staged", most)[0]
        assert replace(cut.data, order=()) == replace(presolve(instance, staged=True), order=())
        check(cut, Solved(cut, "cp-sat"), expected)


@pytest.mark.few(2)
@EACH_KIND
@pytest.mark.parametrize("seed", few(few(range(60), keep=range(12), mark=pytest.mark.slow), keep=1))
def test_a_window_of_any_kind_with_less_freedom_is_no_worse(seed, kind):
    instance, sequence = drawn(1000 + seed, kind)
    rng = random.Random(seed)
    freedom = Freedom(max_nodes=rng.randint(0, 6), depth=rng.randint(0, 1), spare=rng.randint(0, 1))
    cut = draw_window(instance, sequence, seed, freedom)
    if cut is not None:
        solved = Solved(cut, solver_for(cut, seed), limit=cut.objective)
        check(cut, solved, cut.duration(solved.objective))
        assert brute_force(cut) <= cut.duration(solved.objective)


@EACH_KIND
@pytest.mark.parametrize("seed", few(range(200), keep=10))
def test_decoding_the_incumbent_of_any_kind_gives_it_back(seed, kind):
    """But for recomputations that are of no use; what is outside the window stays."""
    instance, sequence = drawn(2000 + seed, kind, operations=6)
    rng = random.Random(seed)
    freedom = rng.choice([ALL, Freedom(rng.randint(0, 20), rng.randint(0, 4), rng.randint(0, 3))])
    cut = draw_window(instance, sequence, seed, freedom)
    if cut is None:
        return
    found = cut.decode(cut.incumbent)
    simulation = judge(instance.graph, found, instance.budget)
    assert simulation.feasible and simulation.duration == cut.duration(cut.objective) <= cut.whole.duration
    assert not Counter(found) - Counter(sequence)
    behind = len(sequence) - cut.cut.end
    assert found[: cut.cut.begin] == sequence[: cut.cut.begin]
    assert behind == 0 or found[-behind:] == sequence[-behind:]


@pytest.mark.few(1)
@EACH_KIND
@pytest.mark.parametrize("seed", few(few(range(40), keep=6, mark=pytest.mark.slow), keep=1))
def test_the_incumbent_of_a_window_of_any_kind_is_a_solution(tmp_path, seed, kind):
    """With the incumbent as the only solution allowed, the model finds it, and the checker accepts it."""
    instance, sequence = drawn(3000 + seed, kind)
    cut = window(instance, sequence, 1 + seed % 3, len(instance.order), ALL)
    if cut is None:
        return
    solved = incumbent_alone(cut, tmp_path)
    assert check_solution(STAGED.checker, {**solved.items, **STAGED.solution_items(cut.data, solved.values)})


@pytest.mark.full
@EACH_KIND
@pytest.mark.parametrize("seed", few(range(5), keep=1))
def test_precedences_agree_on_windows_of_any_kind(seed, kind):
    instance, sequence = drawn(4000 + seed, kind)
    cut = draw_window(instance, sequence, seed)
    if cut is not None:
        expected = brute_force(cut)
        for form in (STAGED, find_formulation("staged", precedence="reservoir")):
            for solver in {"cp-sat", solver_for(cut, 1)}:
                check(cut, Solved(cut, solver, form), expected)


# --- What is particular to each -------------------------------------------------------------------------------


def test_a_copy_that_was_overwritten_is_retained_only_where_its_writer_has_room():
    """b writes over a, which the window recomputes for d: with room for both it may be there from the beginning."""
    graph = ComputationGraph(
        list("abcd"), [5, 1, 1, 1], [4, 4, 1, 1], [(0, 1), (1, 2), (0, 3), (2, 3)],
        in_place=[[], [0], [], []], runs_in_place=True,
    )  # fmt: skip
    sequence = (0, 1, 2, 0, 3)
    tight, wide = (window(Instance.build(graph, budget), sequence, 3, 4) for budget in (6, 9))
    assert 0 not in tight.cut.at_hand and 0 in wide.cut.at_hand
    assert Solved(tight, "gecode").sequence == sequence and Solved(wide, "gecode").sequence == (0, 1, 2, 3)


def test_of_two_inputs_that_were_overwritten_one_is_retained_for_nothing():
    """c writes over a or b, both of which die there. The window may have one of them, or, with room for c, both."""
    graph = ComputationGraph(
        list("abcde"), [5, 5, 1, 1, 1], [3, 3, 3, 1, 1], [(0, 2), (1, 2), (2, 3), (0, 4), (1, 4), (3, 4)],
        in_place=[[], [], [0, 1], [], []], runs_in_place=True,
    )  # fmt: skip
    sequence = (0, 1, 2, 3, 0, 1, 4)
    for budget, found in ((8, 1), (9, 2)):
        cut = window(Instance.build(graph, budget), sequence, 4, 5)
        assert len({0, 1} & cut.cut.at_hand) == found
        check(cut, Solved(cut, "gecode"), brute_force(cut))


SPLIT = ComputationGraph(
    ["x", "split", "right", "a", "b", "c", "d"], [1, 9, 0, 1, 1, 1, 1], [2, 4, 4, 2, 9, 1, 1],
    [("x", "split"), ("split", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("right", "d")],
    output_of=[None, None, 1, None, None, None, None], order=range(7),
)  # fmt: skip


def test_a_window_has_operations_as_a_whole():
    instance = Instance.build(SPLIT, 15)
    sequence = (0, 1, 2, 3, 4, 5, 0, 1, 2, 6)
    for first, last in ((2, 2), (3, 3), (2, 3), (3, 7), (1, 2)):
        cut = window(instance, sequence, first, last)
        assert cut is None or (cut.cut.first != 3 and cut.cut.last != 2)
    assert window(instance, sequence, 3, 7).cut.own == (1, 2, 3, 4, 5, 6)


def further_read_late(of_x: int, after: bool) -> tuple[Instance, tuple[int, ...]]:
    """While g is computed there is no room for x, nor, if x is there, for v, a further output of f, which is needed
    after the window, or, if it is not, is read for the last time at its beginning."""
    graph = ComputationGraph(
        list("xfveghk"), [of_x, 9, 0, 1, 1, 1, 1], [4, 4, 4, 1, 6 if after else 10, 1, 1],
        [(1, 3), (0, 5), (2, 5), (5, 6), *([(1, 6)] if after else [])],
        output_of=[None, None, 1, None, None, None, None], order=range(7),
    )  # fmt: skip
    return Instance.build(graph, 14), (0, 1, 2, 3, 4, 0, 5, 6)


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize(
    ("of_x", "freedom", "longer"),
    [(5, ALL, 5), (5, Freedom(0), 5), (20, Freedom(0), 20), (20, ALL, 9), (20, Freedom(4), 20), (20, Freedom(5), 9)],
)
def test_a_further_output_is_recomputed_with_the_first_one_or_not_at_all(of_x, freedom, longer, after):
    """Although the first output is there, also where there is no room in the model for its recomputation."""
    instance, sequence = further_read_late(of_x, after)
    cut = window(instance, sequence, 5, 6, freedom)
    check(cut, Solved(cut, "gecode"), instance.graph.total_duration + longer)


def test_an_absent_further_output_takes_a_recomputation_of_the_first_one_which_is_at_hand():
    """Also in a stage in which everything has room, so that nothing else would be recomputed there."""
    instance, sequence = drawn(56, "outputs")
    cut = draw_window(instance, sequence, 56)
    further = {v for v in cut.data.absent if cut.data.output_of[v - 1]}
    assert any(cut.data.output_of[v - 1] not in cut.data.absent for v in further)
    check(cut, Solved(cut, "gecode"), brute_force(cut))


def test_what_is_recomputed_between_outputs_of_an_operation_is_in_no_window():
    """The operation is computed twice in a row, for each of its outputs: a schedule that the models do not have."""
    instance = Instance.build(SPLIT, 30)
    sequence = (0, 1, 0, 1, 2, 3, 4, 5, 6)
    assert judge(SPLIT, sequence, 30).feasible
    incumbent = Incumbent(instance, sequence)
    assert [incumbent.window(first, last) for first, last in ((1, 7), (2, 2), (3, 3), (1, 3))] == [None] * 4


# --- Searches -------------------------------------------------------------------------------------------------


def improved(instance: Instance, sequence: tuple[int, ...], most: int) -> Board:
    """The board after windows of a small graph, each solved to the end, have been tried so often."""
    board = Board(instance, time.monotonic(), formulation=STAGED)
    board.offer(sequence, "the start")
    search = WindowSearch(board, STAGED, find_backend("cp-sat"), Limits(None, 1, 0), lambda: False)
    search.stop = lambda: len(search.outcomes) >= most
    search.run()
    return board


@pytest.mark.few(1)
@EACH_KIND
@pytest.mark.parametrize("seed", few(range(4), keep=1))
def test_a_search_in_windows_ends_with_the_best_of_a_small_graph(seed, kind):
    """A window of all stages is the last one."""
    instance, sequence = drawn(5000 + seed, kind)
    if len(sequence) > len(instance.order):
        least = best(exact_graph(instance.graph), instance.budget, "staged", list(instance.max_computations))[0]
        assert improved(instance, sequence, 40).value == least


def written_over(graph: ComputationGraph) -> ComputationGraph:
    """The graph run in place, with each output over any input that is large enough."""
    sizes = graph.sizes
    rows = [[u for u in inputs if sizes[u] >= sizes[v]] for v, inputs in enumerate(graph.predecessors)]
    return replace(graph, in_place=rows, runs_in_place=True)


def first_found(instance: Instance) -> tuple[int, ...]:
    """The schedule with which a short local search begins."""
    found: list[tuple[int, ...]] = []
    LocalSearch(instance).run(found.append, lambda: False, max_rounds=1)
    return found[0]


@pytest.mark.full
@pytest.mark.parametrize("stages", [(1, 63), (10, 40), (30, 63)])
def test_windows_in_place_find_at_least_what_they_find_without(stages):
    """Of the same schedule, within the same memory, each solved to the end."""
    graph = read_graph(DATA / "unet_training.json")
    plain = Instance.build(graph, "0.6")
    start = first_found(plain)
    cuts = [window(instance, start, *stages) for instance in (plain, replace(plain, graph=written_over(graph)))]
    solved = [Solved(cut, "cp-sat", limit=cut.objective) for cut in cuts]
    assert [one.status for one in solved] == ["optimal", "optimal"]
    found = [cut.duration(one.objective) for cut, one in zip(cuts, solved, strict=True)]
    assert found[1] <= found[0] <= judge(graph, start, plain.budget).duration
    for cut, one, duration in zip(cuts, solved, found, strict=True):
        check(cut, one, duration)


@pytest.mark.parametrize("seed", few(range(40), keep=1))
def test_windows_of_several_outputs_find_at_least_what_they_find_of_merged_ones(seed):
    """Outputs that are one in the one graph are retained each by itself in the other."""
    graph = draw_with(f"merged {seed}", KINDS["outputs"], 6)[0].graph
    merged = single_outputs(graph)
    low, high = max(merged.working_sets), simulate(merged, merged.input_order()).peak
    one = Instance.build(merged, (low + high) // 2)
    found = best(exact_graph(merged), one.budget, "staged", 2)
    if found is not None and len(found[1]) > len(merged.nodes):
        sequence = tuple(found[1])
        listed = graph.with_all_outputs([graph.position_of(merged.nodes[v]) for v in sequence])
        several = Instance.build(graph, one.budget)
        assert improved(several, listed, 40).value <= improved(one, sequence, 40).value == found[0]
