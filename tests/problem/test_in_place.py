"""Execution in place by the definition: the judge, an independent account, brute force, files, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import networkx
import oracle
import pytest
from cases import draw_case
from few import few
from overwriting import memory_in_place, overwriting

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.matrix import graph_digest
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.formats.dot import write_dot
from moccasin_mzn.graphs.formats.graphml import write_graphml
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph
from moccasin_mzn.graphs.memory_model import relaxed
from moccasin_mzn.problem.buffer import Buffer, Gap, pieces_of
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.placing import placing_of

GRAPH = ComputationGraph(
    ["a", "b", "c", "d"], [1] * 4, [3, 3, 2, 2], [(0, 1), (1, 2), (0, 3), (2, 3)], in_place=[[], [0], [1], [0, 2]]
)
RUN = GRAPH.run_in_place()


def test_an_input_that_dies_gives_its_memory():
    """b reads a, which d reads later; c takes the memory of b, and d that of a, which is larger than c."""
    assert simulate(GRAPH, range(4)).memory == (3, 6, 8, 7)
    simulation = simulate(RUN, range(4))
    assert simulation.memory == (3, 6, 6, 5)
    assert simulation.overwrites == ((3, 1), (4, 0))
    assert simulation.peak == 6 and simulation.intervals == simulate(GRAPH, range(4)).intervals


def test_a_copy_that_comes_again_may_be_overwritten_before():
    simulation = simulate(RUN, [0, 1, 2, 0, 3])
    assert simulation.memory == (3, 3, 3, 5, 5)
    assert simulation.overwrites == ((2, 0), (3, 1), (5, 0))


def test_of_inputs_of_one_size_the_first_is_overwritten():
    graph = ComputationGraph(list("abc"), [1] * 3, [2, 2, 2], [(1, 2), (0, 2)], in_place=[[], [], [1, 0]])
    assert simulate(graph.run_in_place(), [0, 1, 2]).overwrites == ((3, 0),)


@pytest.mark.parametrize("seed", few(range(300), keep=60))
def test_memory_is_what_an_account_of_copies_finds(seed):
    case = draw_case(seed, workspaces=seed % 2 == 1, in_place=True)
    graph, rng = case.graph, random.Random(seed)
    order = graph.input_order()
    sequence = [u for k in range(len(order)) for u in (*(v for v in order[:k] if rng.random() < 0.3), order[k])]
    in_place, plain = simulate(graph, sequence), simulate(graph.run_in_place(False), sequence)
    assert list(in_place.memory) == memory_in_place(graph, sequence)
    assert list(plain.memory) == memory_in_place(graph.run_in_place(False), sequence)
    spared = dict.fromkeys(range(1, 1 + len(sequence)), 0)
    spared |= {t: graph.sizes[sequence[t - 1]] for t, _ in in_place.overwrites}
    assert list(in_place.memory) == [m - less for m, less in zip(plain.memory, spared.values(), strict=True)]
    other, amount = relaxed(graph)
    assert all(m <= most + amount for m, most in zip(simulate(other, sequence).memory, in_place.memory, strict=True))


@pytest.mark.parametrize("first_seed", few(range(0, 200, 10), keep=2))
def test_schedules_of_brute_force_are_the_judges_and_no_longer_than_without(first_seed):
    for seed in range(first_seed, first_seed + 10):
        case = draw_case(seed, most_nodes=5, workspaces=seed % 3 == 0, in_place=True)
        graph, budget, most = case.graph, case.budget, case.max_computations
        kinds = (graph, graph.run_in_place(False))
        staged = [oracle.fixed_order_schedule(of, of.input_order(), budget, most) for of in kinds]
        free = [oracle.free_order_schedule(of, budget, most) for of in kinds]
        for best, plain in (staged, free):
            assert plain is None or best.duration <= plain.duration
            if best is not None:
                simulation = judge(graph, best.sequence, budget)
                assert simulation.feasible and simulation.duration == best.duration


def test_nothing_is_overwritten_unless_the_graph_is_run_so():
    assert GRAPH.overwritable is None and RUN.overwritable == GRAPH.in_place
    assert (RUN.spared, GRAPH.spared) == ((0, 3, 2, 2), (0, 0, 0, 0))
    assert RUN.working_sets == (3, 3, 3, 5) and GRAPH.working_sets == (3, 6, 5, 7)
    assert replace(GRAPH, in_place=None).run_in_place().overwritable is None
    assert replace(GRAPH, in_place=[()] * 4).in_place is None
    assert graph_digest(GRAPH) == graph_digest(replace(GRAPH, in_place=None)) != graph_digest(RUN)


@pytest.mark.parametrize("suffix", ["json", "dot", "graphml"])
def test_in_place_is_written_and_read(tmp_path, suffix):
    graph = replace(GRAPH, nodes=("a", 7, "7 up", "d"))
    path = tmp_path / f"graph.{suffix}"
    {"json": write_graph, "dot": write_dot, "graphml": write_graphml}[suffix](graph, path)
    assert read_graph(path).in_place == graph.in_place and not read_graph(path).runs_in_place


def test_in_place_survives_networkx():
    assert isinstance(GRAPH.to_networkx(), networkx.DiGraph)
    assert ComputationGraph.from_networkx(GRAPH.to_networkx()).in_place == GRAPH.in_place


@pytest.mark.parametrize(
    ("in_place", "message"),
    [
        ([[], [0]], "4 nodes, but in_place for 2 nodes"),
        ([[], [], [0], []], "node c: in_place names a, which the node does not read"),
        ([[], [True], [], []], "node b: in_place names True, which the node does not read"),
        ([[], ["a"], [], []], "node b: in_place names 'a', which the node does not read"),
        ([[], [0, 0], [], []], "node b: in_place names a twice"),
        ([[], 0, [], []], "node b: in_place: expected a sequence, got 0"),
        ("abcd", "in_place: expected a sequence"),
    ],
)
def test_in_place_rejects_what_is_no_input(in_place, message):
    with pytest.raises(InputError) as error:
        replace(GRAPH, in_place=in_place)
    assert message in str(error.value)


def test_a_larger_output_overwrites_nothing():
    with pytest.raises(InputError, match="names b, whose output of 3 is smaller than the node's own of 4"):
        replace(GRAPH, sizes=(3, 3, 4, 2))
    with pytest.raises(InputError, match="runs_in_place is 1, expected true or false"):
        replace(GRAPH, runs_in_place=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('["x"]', "in_place of node b[0]: node 'x' is not in the graph"),
        ('"a"', "node 'b': in_place is 'a', expected a list of node ids"),
    ],
)
def test_in_place_in_files_rejects_wrong_values(tmp_path, given, message):
    path = tmp_path / "graph.json"
    nodes = f'{{"id": "a", "duration": 1, "size": 1}}, {{"id": "b", "duration": 1, "size": 1, "in_place": {given}}}'
    path.write_text(f'{{"nodes": [{nodes}], "edges": [{{"source": "a", "target": "b"}}]}}')
    with pytest.raises(InputError) as error:
        read_graph(path)
    assert message in str(error.value)


def test_other_graphs_are_their_own_relaxation():
    assert relaxed(GRAPH) == (GRAPH, 0)
    graph = overwriting(draw_case(3).graph, 3)
    other, amount = relaxed(graph)
    assert other.overwritable is None
    assert all(w - amount == -s for w, s in zip(other.workspace_of, graph.spared, strict=True))


def test_of_sizes_too_large_to_be_moved_working_sets_are_left():
    size = TOTAL_LIMIT // len(GRAPH.nodes)
    graph = overwriting(replace(GRAPH, sizes=[size] * len(GRAPH.nodes)), 3)
    other, amount = relaxed(graph)
    assert (amount, max(other.workspace_of), other.total_size) == (0, max(graph.working_sets), 0)
    order = graph.input_order()
    memory = zip(simulate(other, order).memory, simulate(graph, order).memory, strict=True)
    assert all(m <= most for m, most in memory)


@pytest.mark.parametrize("seed", few(range(200), keep=20))
def test_buffers_need_what_the_judge_counts(seed):
    rng, graph = random.Random(seed), overwriting(draw_case(seed, workspaces=True).graph, seed)
    order = graph.input_order()
    sequence = [u for k in range(len(order)) for u in (*(v for v in order[:k] if rng.random() < 0.3), order[k])]
    simulation = simulate(graph, sequence)
    pieces = [piece for buffer in placing_of(graph, simulation).buffers for piece in pieces_of(buffer)]
    used = [sum(p.high - p.low for p in pieces if p.start <= t < p.end) for t in range(1, len(sequence) + 1)]
    assert used == list(simulation.memory)


def test_a_chain_is_one_buffer():
    placing = placing_of(RUN, simulate(RUN, range(4)))
    less = Gap(4, 5, (0, 2))  # c, over b, is smaller
    assert placing.buffers == (Buffer("a", 1, 5, 3), Buffer("b", 2, 5, 3, gaps=(less,)))
    assert placing.copies == (0, 1, 1, 0)
