"""Nodes that a graph says are computed once: no search repeats them, whatever is asked, and whoever does is told of."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from cases import draw_case, least_duration
from few import few
from hypothesis import given
from hypothesis import strategies as st
from solving import solve
from strategies import graphs

import moccasin_mzn
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.reduction import reduce_graph
from moccasin_mzn.problem.instance import AUTO_COMPUTATIONS, Instance

# at c, with a held for d, it is 9; with x and a computed again 8, at b
SKIP = ComputationGraph(
    ["x", "a", "b", "c", "d"], [1, 1, 1, 1, 1], [1, 4, 4, 1, 1], [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)],
    order=[0, 1, 2, 3, 4], labels=["input", "relu", "conv", "relu", "add"],
)  # fmt: skip
ONCE = replace(SKIP, computed_once=(1,))


@given(graph=graphs(), data=st.data(), most=st.sampled_from([1, 2, 3, "auto"]))
def test_counts_are_as_requested_except_for_computed_once(graph, data, most):
    once = data.draw(st.lists(st.integers(0, len(graph.nodes) - 1), unique=True))
    instance = Instance.build(replace(graph, computed_once=once), "100%", max_computations=most)
    asked = Instance.build(graph, "100%", max_computations=most)
    for v, (count, without) in enumerate(zip(instance.max_computations, asked.max_computations, strict=True)):
        assert count == (1 if v in once else without)
    more = instance.with_more_computations()
    expected = tuple(1 if v in once else AUTO_COMPUTATIONS for v in range(len(graph.nodes)))
    assert (more is None) == (instance.max_computations == expected)
    assert more is None or more.max_computations == expected


def test_a_file_of_counts_does_not_allow_more(tmp_path):
    counts = tmp_path / "counts.json"
    counts.write_text('{"a": 3, "b": 4}')
    found = moccasin_mzn.solve(ONCE, "100%", max_computations=counts, search="only", time_limit=1)
    assert found.details.instance.counts == [2, 1, 4, 2, 2]


@pytest.mark.parametrize("order", [pytest.param("input", marks=pytest.mark.full), "free"])
def test_searches_never_repeat_computed_once(order):
    tight = {"budget": 8, "order": order, "search": "only", "time_limit": 5, "if_none": "stop"}
    free = moccasin_mzn.solve(SKIP, **tight)
    assert free.status in ("optimal", "feasible") and Counter(free.positions)[1] == 2
    held = moccasin_mzn.solve(ONCE, **tight)
    assert held.status in ("infeasible", "unknown") and held.details.notes == ()


@pytest.mark.full
def test_models_never_repeat_computed_once():
    assert moccasin_mzn.solve(SKIP, 8, search="off", time_limit=20).status == "optimal"
    assert moccasin_mzn.solve(ONCE, 8, search="off", time_limit=20, if_none="stop").status == "infeasible"


@pytest.mark.parametrize(("formulation", "order"), [("staged", "input"), ("general", "input"), ("staged", "free")])
@pytest.mark.parametrize("seed", few(range(30), keep=0))
def test_searches_agree_with_brute_force_where_nodes_are_computed_once(seed, formulation, order):
    case, rng = draw_case(seed, 5), random.Random(seed)
    once = sorted(rng.sample(range(len(case.graph.nodes)), rng.randint(1, len(case.graph.nodes))))
    most = tuple(1 if v in once else 2 for v in range(len(case.graph.nodes)))
    result = solve(
        replace(case.graph, computed_once=once), case.budget, formulation=formulation, order=order, time_limit=60,
        threads=1, max_computations=2,
    )  # fmt: skip
    expected = least_duration(replace(case, max_computations=most), "general" if order == "free" else formulation)
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    assert not any(result.sequence.count(v) > 1 for v in once if expected is not None)


AGAIN = "recomputes what the graph marks as computed once: a (relu) (see Graph files: docs/graphs.md#graph-files)"


def test_methods_without_counts_are_named():
    found = moccasin_mzn.solve(ONCE, 9, strategy="recompute-all")
    assert found.details.notes == (AGAIN,)
    assert moccasin_mzn.solve(SKIP, 9, strategy="recompute-all").details.notes == ()


def test_validate_reports_repeated_computed_once(tmp_path, command):
    path, schedule = tmp_path / "graph.json", tmp_path / "schedule.json"
    write_graph(ONCE, path)
    for sequence, notes in (("xabcxad", [f"note: {AGAIN}"]),
                            ("xabcd", [])):  # fmt: skip
        schedule.write_text(json.dumps([*sequence]))
        status, out, _ = command("validate", path, schedule)
        assert status == 0 and out.splitlines()[2:] == notes


def test_a_merged_node_is_computed_once_if_one_of_its_members_is():
    chain = ComputationGraph(
        [*"abcd"], [1] * 4, [4] * 4, [(0, 1), (1, 2), (2, 3)], labels=["conv", "relu", "conv", "x"]
    )
    for once, expected in (((1,), (0,)), ((0, 1), (0,)), ((2,), (1,)), ((), ())):
        assert reduce_graph(replace(chain, computed_once=once)).graph.computed_once == expected


@pytest.mark.parametrize("suffix", ["json", "graphml", "dot"])
def test_computed_once_survives_files_and_commands(suffix, tmp_path, command):
    path, other = tmp_path / "graph.json", tmp_path / f"other.{suffix}"
    write_graph(ONCE, path)
    assert command("convert", path, "--to", suffix, "-o", other)[0] == 0
    assert read_graph(other).computed_once == (1,)
    status, out, _ = command("info", other)
    assert status == 0 and "computed once in any schedule" in out
    status, out, _ = command("info", other, "--json")
    assert '"computed_once": 1' in out


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ('["q"]', "computed_once[0]: node 'q' is not in the graph"),
        ('["a", "a"]', "computed_once names a twice"),
        ('"a"', "\"computed_once\" is 'a', expected a list of node ids"),
        ("[true]", "computed_once[0]: node True is not in the graph"),
    ],
)
def test_computed_once_rejects_unknown_nodes(given, complaint, tmp_path, command):
    path = tmp_path / "graph.json"
    write_graph(ONCE, path)
    path.write_text(path.read_text().replace('["a"]', given))
    status, out, err = command("info", path)
    assert (status, out, err) == (2, "", f"error: {Page.GRAPH_FILES.after(f'{path}: {complaint}')}\n")


def test_positions_are_checked():
    with pytest.raises(InputError, match="node 'no node' is not in the graph"):
        replace(SKIP, computed_once=("no node",))
    for wrong in ((5,), (-1,), (True,)):
        with pytest.raises(InputError, match="computed_once: .* is not a position 0..4"):
            replace(SKIP, computed_once=wrong)
