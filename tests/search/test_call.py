"""One object has what a caller passes to a search; deadlines count from its beginning, its `stop` ends everything."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest
from few import few

import moccasin_mzn
from moccasin_mzn.api.least import with_rest
from moccasin_mzn.api.request import Request, StrategyOptions
from moccasin_mzn.api.solve import answer, solve_problem, solve_with_arenas
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.machine.memories import MemoriesGiven
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import Options, SearchOptions
from moccasin_mzn.strategies import find_strategy

PACKAGE = Path(moccasin_mzn.__file__).parent
GRAPH = random_layered(60, 1)
INSTANCE, FREE = (Instance.build(GRAPH, 0.8, order=order) for order in ("input", "free"))
PLANS, _ = MemoriesGiven(paging={"out_time": "0.25"}).problem(GRAPH, {}, budget=0.8, order="input")
ONLY = {"search": "only", "seed": 0}
DTR = StrategyOptions(strategy=find_strategy("dtr"))
DOORS = {
    "one memory": lambda call: answer(Request(INSTANCE, Options(**ONLY)), call),
    "any order": lambda call: answer(Request(FREE, Options(**ONLY)), call),
    "counted": lambda call: answer(Request(INSTANCE, Options(**ONLY, iterations=10**9)), call),
    "strategy": lambda call: answer(Request(INSTANCE, DTR), call),
    "addresses": lambda call: answer(Request(INSTANCE, Options(**ONLY), alignment=4), call),
    "plans": lambda call: solve_problem(PLANS, PagingFormulation(), SearchOptions(**ONLY), call),
    "arenas": lambda call: solve_with_arenas(PLANS, PagingFormulation(), SearchOptions(**ONLY), 1, call),
    "race": lambda call: answer(Request(INSTANCE, Options(solver="cp-sat,highs", seed=0)), call),
}  # fmt: skip


@pytest.mark.parametrize("door", few(list(DOORS), keep=("one memory", "counted", "strategy")))
def test_each_search_reports_to_its_caller_and_asks_it_whether_to_end(door):
    heard, asked = [], []

    def stop():
        asked.append(True)
        return bool(heard)

    result = DOORS[door](Call(heard.append, stop))
    assert heard and asked
    assert result.status in ("feasible", "unknown", "optimal", "over-budget") and not result.interrupted
    assert all(one.seconds <= two.seconds for one, two in zip(heard, heard[1:], strict=False))


@pytest.mark.parametrize("door", few(list(DOORS), keep=("one memory", "plans", "strategy")))
def test_seconds_count_from_the_beginning_of_the_call(door):
    heard = []
    result = DOORS[door](Call(heard.append, lambda: bool(heard), time.monotonic() - 20))
    assert heard[0].seconds > 19 and result.seconds.total > 19  # compiling does not count


@pytest.mark.parametrize(("spent", "limit"), [(0, 10), (6, 10), (9.5, 10), (20, 21), (0.5, 1)])
def test_time_for_a_least_budget_or_parts_is_taken_once(spent, limit):
    """The search that follows has the same call, whose deadline is that of the time limit, or a little later."""
    call = Call(begin=time.monotonic() - spent)
    given = 10 if limit == 21 else limit
    request = with_rest(Request(INSTANCE, Options(time_limit=given, **ONLY)), call.begin)
    assert request.options.time_limit == pytest.approx(max(limit, spent + min(1, given / 10)), abs=0.1)
    assert call.deadline(request.options.time_limit).remaining() > 0
    assert with_rest(Request(INSTANCE, Options(**ONLY)), call.begin).options.time_limit is None


def test_deadlines_and_beginnings():
    call = Call(begin=time.monotonic() - 5)
    assert call.deadline(None).remaining() is None and call.deadline(4.0).over() and not call.deadline(1e6).over()
    assert call.after(3).begin == call.begin + 3 and call.after(0) == call and not call.stop()


def test_no_function_passes_the_three_on_by_themselves():
    """In the rooms between the functions and the kernels: `Call` has listener, stop and beginning."""
    for path in [*(PACKAGE / "search").rglob("*.py"), *(PACKAGE / "api").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
                assert not names & {"enough", "on_progress"} or path.name == "least.py", (path, node.name)
                assert not ("listener" in names and names & {"stop", "begin"}), (path, node.name)
