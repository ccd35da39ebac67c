"""Progress with addresses: what counts, what is searched for, and a sign of life."""

from __future__ import annotations

import io
import json
import re

from plan_graphs import paging_problem, u_graph

from moccasin_mzn.api.json_lines import JsonStream
from moccasin_mzn.api.request import Request
from moccasin_mzn.api.solve import answer, solve_instance, solve_with_arenas
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.addresses.reports import Reports
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.report.tables import ProgressLines
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import Options, SearchOptions


def u_shape(half: int, sizes) -> ComputationGraph:
    """A chain in which node v of the second half also reads its mirror image in the first half."""
    n = 2 * half
    chain = [(v, v + 1) for v in range(n - 1)] + [(v, n - 1 - v) for v in range(half - 1)]
    return ComputationGraph(range(n), [1] * n, sizes, chain, range(n))


def lines_of(problem, heard) -> str:
    out = io.StringIO()
    lines = ProgressLines(problem, out)
    for one in heard:
        lines(one)
    lines.flush()
    return out.getvalue()


def test_progress_counts_a_schedule_once_its_arena_is_within_the_budget():
    """An alignment of 4 wastes memory, so that the first schedule has no arena within the budget."""
    instance = Instance.build(u_shape(6, [5, 3, 7, 4, 6, 2, 5, 3, 6, 4, 7, 3]), "0.8", max_computations=20)
    heard = []
    request = Request(instance, Options(search="only", time_limit=4), alignment=4)
    result = answer(request, Call(heard.append))
    assert result.valid
    tries = [one for one in heard if one.phase == "addresses"]
    first = tries[0]
    assert (first.value, first.arenas, first.figures["duration"]) == (None, None, None)
    assert first.unplaced < result.duration
    over = [one for one in tries if one.arenas and one.arenas["memory"] > instance.budget]
    placed = [one for one in heard if one.answer is not None]
    assert placed[-1].answer == result.answer and all(one.arenas["memory"] <= instance.budget for one in placed)
    values = [one.value for one in heard if one.value is not None]
    assert values == sorted(values, reverse=True) and values[-1] == result.duration
    assert all(one.bound <= result.duration for one in heard)
    assert "arena not placed yet  bound +" in lines_of(instance, [first])
    assert re.search(r"its arena takes \d+, \d+ over the budget  bound \+", lines_of(instance, over[:1]))
    shown = io.StringIO()
    JsonStream(instance, shown).progress(first)
    line = json.loads(shown.getvalue())
    assert (line["phase"], line["duration"], line["unplaced"], line["arenas"]) == (
        "addresses", None, first.unplaced, None
    )  # fmt: skip


def test_a_sign_of_life_comes_while_nothing_improves():
    instance = Instance.build(u_shape(4, [4] * 8), "0.8")
    heard, asked = [], iter([False, False, True])
    reports = Reports(instance, Call(heard.append, lambda: next(asked)))
    schedule = solve_instance(instance, Options(search="only", time_limit=5))
    assert not reports.over() and not heard  # there is nothing to report yet
    reports.trying(schedule)
    reports.arena("memory", 99)
    assert not reports.over()
    assert [(one.phase, one.value, one.unplaced, one.arenas) for one in heard] == [
        ("addresses", None, schedule.value, {"memory": 99})
    ]
    assert reports.over() and len(heard) == 1  # two seconds have not gone by


def test_progress_of_plans_names_the_memory_whose_arena_is_over_its_budget():
    problem, heard = paging_problem(u_graph(size=3), 10), []
    options = SearchOptions(search="off", threads=1, seed=0, time_limit=60)
    result = solve_with_arenas(problem, PagingFormulation(), options, 4, Call(heard.append))
    assert result.status == "unknown" and {one.value for one in heard} == {None}
    assert heard[0].arenas is None and any(one.arenas and one.arenas["local"] == 11 for one in heard)
    assert "no schedule yet  bound " in (line := lines_of(problem, heard[:1])) and "arena not placed yet" in line
    tried = [one for one in heard if one.arenas and "local" in one.arenas]
    assert "its arena in local takes 11, 1 over the budget" in lines_of(problem, tried[:1])
