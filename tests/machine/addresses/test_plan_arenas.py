"""Plans with offsets: arenas in every memory, within its budget, and what `validate` says of damaged ones."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import pytest
from paging_cases import best, draw_problem
from plan_graphs import WRITTEN, paging_problem, u_graph
from platform_support import DIAMOND, PLAN, platform

from moccasin_mzn.api.solve import solve_problem, solve_with_arenas
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.machine.addresses.arrange_plans import plan_with_arenas
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.files.plans import read_plan
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.placing import placings_of
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, plan_of_sequence
from moccasin_mzn.problem.validate import validate_plan
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import Effort, SearchOptions

ALONE = SearchOptions(search="off", threads=1, seed=0, time_limit=60)


def assert_arenas(result, alignment: int = 1) -> None:
    """Every copy lies at a multiple of the alignment within its memory's budget, and no two that live together meet."""
    where, graph = result.problem.platform, result.problem.platform.graph
    intervals = judge_plan(where, result.plan, result.problem.goal).intervals
    offsets = result.problem.offsets(result.arenas, result.simulation)
    for of, offset in zip(intervals, offsets, strict=True):
        budget = where.memories[of.memory].budget
        assert offset >= 0 and offset % alignment == 0
        assert budget is None or not graph.sizes[of.node] or offset + graph.sizes[of.node] <= budget
    for (one, low), (other, high) in combinations(zip(intervals, offsets, strict=True), 2):
        if one.memory == other.memory and one.start <= other.end and other.start <= one.end:
            apart = low + graph.sizes[one.node] <= high or high + graph.sizes[other.node] <= low
            assert apart or not graph.sizes[one.node] or not graph.sizes[other.node]


def check(seed: int, alignment: int) -> None:
    problem = draw_problem(seed, 4)
    found = best(problem, "staged")
    expected = found and found.totals[OBJECTIVES.index(problem.goal.objective)]
    result = solve_with_arenas(problem, PagingFormulation(), ALONE, alignment)
    if result.found:
        assert_arenas(result, alignment)
        assert judge_plan(problem.platform, result.plan, problem.goal).feasible
        assert result.bound <= expected <= result.value
        assert result.status in ("optimal", "feasible")
        assert result.status == "feasible" or result.value == expected
    else:
        assert result.status == ("infeasible" if expected is None else "unknown")
        assert result.arenas is None
    if alignment == 1 and expected is not None:
        assert result.found  # so small, none of them wastes memory


@pytest.mark.full
@pytest.mark.parametrize(("seed", "alignment"), [(5, 1)])
def test_plans_with_arenas_are_within_those_of_brute_force(seed, alignment):
    check(seed, alignment)


@pytest.mark.slow
@pytest.mark.parametrize("alignment", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_more_plans_with_arenas_are_within_those_of_brute_force(seed, alignment):
    check(seed, alignment)


@pytest.mark.full
def test_an_arena_over_the_budget_is_searched_again_with_less():
    """Four outputs of 3 take 15 at an alignment of 4. Three take 11, and that costs a write and a read back."""
    problem = paging_problem(u_graph(size=3), 12)
    result = solve_with_arenas(problem, PagingFormulation(), ALONE, 4)
    assert_arenas(result, 4)
    assert (result.status, result.value, result.bound) == ("feasible", 44, 42)
    assert result.problem == problem
    assert result.simulation == judge_plan(problem.platform, result.plan, problem.goal)
    assert "whose arenas are within the budgets" in result.reason
    assert result.arenas.arenas[0].size == 11


@pytest.mark.slow
def test_where_no_arena_fits_nothing_is_claimed():
    problem = paging_problem(u_graph(size=3), 10)
    result = solve_with_arenas(problem, PagingFormulation(), ALONE, 4)
    assert (result.status, result.plan, result.arenas) == ("unknown", None, None)
    assert result.reason == (
        "the arena in local is 1 over the budget 10; no schedule was found whose arenas fit"
    )  # fmt: skip
    assert result.as_dict()["valid"] is False


@pytest.mark.slow
def test_slow_memory_has_an_arena_too():
    """Two copies of 3 in slow memory take 7 at an alignment of 4; where there are only 6, one is computed again."""
    problem = paging_problem(u_graph(size=3, half=4), 11, capacity=6)
    result = solve_with_arenas(problem, PagingFormulation(), ALONE, 4)
    assert_arenas(result, 4)
    assert (result.status, result.bound, result.value) == ("feasible", 60, 65)
    assert [arena.size for arena in result.arenas.arenas] == [11, 3]


def test_time_that_is_left_goes_to_the_search():
    """The first half of the time gave a plan that recomputes; the second begins there and finds a better one."""
    problem = paging_problem(u_graph(), 6)
    recomputes = plan_of_sequence((0, 1, 2, 3, 4, 0, 5))
    asked = []

    def search(other, seconds, listener, start):
        asked.append((other, start))
        options = replace(ALONE, search="only", time_limit=0.001)
        begun = WRITTEN if start else recomputes
        return solve_problem(other, PagingFormulation(), options, Call(listener), begun)

    result = plan_with_arenas(problem, search, effort=Effort(100))
    assert asked == [(problem, None), (problem, recomputes)]
    assert (result.value, result.plan, result.status) == (44, WRITTEN, "optimal")
    assert result.arenas.fit(problem.platform)
    assert [point.value for point in result.trace] == [49, 44]
    assert list(result.trace) == sorted(result.trace, key=lambda point: point.seconds)


def test_alignment_rejects_other_values():
    with pytest.raises(InputError, match="alignment 0 is not an integer from 1 to 9007199254740992"):
        solve_with_arenas(paging_problem(u_graph(), 8), PagingFormulation(), ALONE, 0)


def test_buffers_are_the_copies_of_one_memory():
    simulation = judge_plan(platform(), PLAN)
    local, slow = (placing.buffers for placing in placings_of(platform(), simulation))
    assert [(b.name, b.start, b.end, b.size) for b in local] == [
        ("a", 1, 4, 8), ("b", 3, 5, 4), ("c", 4, 7, 2), ("a#2", 5, 7, 8), ("d", 6, 7, 1)
    ]  # fmt: skip
    assert [(b.name, b.start, b.end, b.size) for b in slow] == [("a", 2, 6, 8)]


# Files


@pytest.fixture
def answer(tmp_path, command):
    """The graph's path, and the document of a plan with offsets."""
    path = tmp_path / "graph.json"
    write_graph(u_graph(), path)
    options = ("--budget", 6, "--paging", "--page-out-time", 0.25, "--addresses", "--alignment", 2, "--threads", 1)
    status, out, err = command("solve", path, *options, "--search", "off", "--check", "--json")
    assert status == 0, err
    return path, json.loads(out)


@pytest.mark.full
def test_offsets_in_every_interval_and_arenas_by_memory(answer, tmp_path, command):
    path, document = answer
    assert (document["status"], document["duration"], document["alignment"]) == ("optimal", 44, 2)
    assert all(interval["offset"] % 2 == 0 for interval in document["intervals"])
    assert {name: arena["arena"] for name, arena in document["arenas"].items()} == document["peaks"]
    assert [line for line in document["checks"] if "in slow" in line] == [
        "addresses.mzc.mzn: CORRECT: arena 2, peak 2, in slow"
    ]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    status, out, _ = command("validate", path, file)
    assert status == 0 and [line.partition(" for ")[0] for line in out.splitlines()[1:]] == [
        "arena in local 6",
        "arena in slow 2",
    ]
    verdicts = [line.partition(" intervals, ")[2] for line in out.splitlines()[1:]]
    assert verdicts[0] == "no overlap, offsets are multiples of 2, within the budget 6"

    def said() -> str:
        file.write_text(json.dumps(document))
        status, out, _ = command("validate", path, file)
        assert status == 1
        return out

    first, second = document["intervals"][:2]
    second["offset"] = first["offset"]
    text = f"position {second['start']}: the outputs of nodes n0 and n1 overlap in local at addresses 0..1 and 0..1"
    assert said().startswith(f"invalid: {text}")
    second["offset"] = 3
    assert "the interval of node n1 in local: offset 3 is not a multiple of 2" in said()
    second["offset"] = 100
    assert "arena in local claimed is 6, but the intervals end at 102" in said()
    document["arenas"]["local"]["arena"] = 102
    assert "arena 102 in local is 96 over the budget 6" in said()


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (lambda told: told.pop(), "wrong-interval", "position 4: the copy of node d in local has no offset"),
        (lambda told: told.append(told[0]), "wrong-interval",
         "position 1: the copy of node a in local is given twice"),
        (lambda told: told[0].update(start=2), "wrong-interval",
         "position 2: the copy of node a in local begins where there is none"),
        (lambda told: told[0].update(end=3), "wrong-interval",
         "position 1: the copy of node a in local ends at 3, but its last read is at 4"),
    ],
)  # fmt: skip
def test_intervals_that_are_not_those_of_the_plan(tmp_path, damage, kind, message):
    problem = PlanProblem(Instance.build(DIAMOND, 100), platform())
    start = plan_of_sequence(range(4))
    result = solve_with_arenas(problem, PagingFormulation(), replace(ALONE, search="only"), 1, warm_start=start)
    document = result.as_dict()
    damage(document["intervals"])
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    violations = validate_plan(read_plan(path, DIAMOND)).violations
    assert (violations[0].kind, violations[0].message) == (kind, message)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"intervals": [3]}, "intervals: expected a list of objects"),
        ({"intervals": [{"node": "x", "offset": 0}]}, r"intervals\[0\]: .*x"),
        ({"intervals": [{"node": "a", "memory": "m", "start": 1, "end": 1, "offset": 0}]},
         r"intervals\[0\]: unknown memory 'm'"),
        ({"intervals": [{"node": "a", "memory": "local", "start": 1, "end": 1, "offset": -1}]},
         r"intervals\[0\].offset is -1, expected an integer >= 0"),
        ({"arenas": [3]}, "arenas: expected an object of objects"),
        ({"alignment": "x"}, "alignment is 'x', expected an integer >= 0"),
    ],
)  # fmt: skip
def test_broken_offsets_are_refused(tmp_path, changed, message):
    problem = PlanProblem(Instance.build(DIAMOND, 100), platform())
    options = replace(ALONE, search="only")
    result = solve_with_arenas(
        problem, PagingFormulation(), options, 1, warm_start=plan_of_sequence(range(4))
    )  # fmt: skip
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**result.as_dict(), **changed}))
    with pytest.raises(InputError, match=message):
        read_plan(path, DIAMOND)
