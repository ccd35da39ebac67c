"""The functions that the package offers: what they answer, how it is shown, and that they are imported when asked."""

import ast
import inspect
import json
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from fractions import Fraction
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import get_type_hints

import pytest
from tiny_graphs import DIAMOND, graph_of

import moccasin_mzn as mz
from moccasin_mzn.cli.main import run
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.report.shown import Answer
from moccasin_mzn.strategies import strategies

U_SHAPE = graph_of([1] * 6, [2] * 6, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)])
"""A forward chain 0 1 2 and a backward chain 3 4 5 that reads its outputs in reverse; 6 is enough for it, of 8."""
HEAVY = {"numba", "numpy", "ortools", "highspy", "minizinc", "networkx", "click", "rich", "pandas", "plotly"}
PAGING = {"out_time": 0.25, "in_time": "0.5", "out_energy": 2}
ASKED = (
    {"budget": 6},
    {"budget": 0.8, "order": "free", "search": "only", "time_limit": 1},
    {"budget": "80%", "addresses": True, "alignment": 2},
    {"budget": 1.0, "strategy": "keep-all"},
    {"budget": 1.0, "strategy": "keep-all", "addresses": True},
    {"budget": 6, "paging": PAGING, "slow_memory": 4, "goal": "energy"},
    {"budget": 6, "paging": mz.PagingCosts(), "order": "free", "formulation": "general", "addresses": True},
    {"devices": {"gpu": 6, "cpu": "inf:2"}, "copies": {"time": "0.5", "latency": 1}, "search": "only", "time_limit": 1},
    {
        "devices": {"gpu": mz.Device(mz.Budget(6))},
        "paging": {"out_time": 1},
        "slow_memory": 0,
        "search": "only",
        "time_limit": 1,
    },
)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys; import moccasin_mzn; dir(moccasin_mzn); print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("moccasin_mzn")} == {"moccasin_mzn"}


def test_every_name_is_there_for_people_and_for_type_checkers():
    assert set(mz.__all__) <= set(dir(mz))
    assert all(
        getattr(mz, name).__name__.rpartition(".")[2] == name and getattr(mz, name).__doc__ for name in mz.__all__
    )
    with pytest.raises(AttributeError, match="has no attribute 'solv'"):
        mz.solv  # noqa: B018
    assert re.fullmatch(r"\d+\.\d+.*", mz.__version__) and mz.__version__ == version("moccasin_mzn")
    assert "__version__" in dir(mz) and "__version__" not in vars(mz)
    blocks = (node for node in ast.parse(Path(mz.__file__).read_text()).body if isinstance(node, ast.If))
    block = next(blocks)
    imports = [one for one in block.body if isinstance(one, ast.ImportFrom)]
    checked = {name.name: getattr(import_module(one.module), name.name) for one in imports for name in one.names}
    assert checked == {name: getattr(mz, name) for name in mz.__all__}


@pytest.mark.parametrize("function", [mz.solve, mz.order, mz.frontier, mz.compare, mz.allocate])
def test_every_argument_is_explained_and_means_the_same_everywhere(function):
    everywhere = inspect.signature(mz.solve).parameters
    for name, parameter in inspect.signature(function).parameters.items():
        others = "The others are those of `solve`" in function.__doc__ and name in everywhere
        assert others or f"{name}:" in function.__doc__, name
        if name in everywhere and name not in ("time_limit", "seed", "warm_start", "model"):
            assert parameter.annotation == everywhere[name].annotation, name


@pytest.mark.few(2)
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "-".join(asked))
def test_solve_answers_whatever_is_asked(asked):
    result = mz.solve(U_SHAPE, **{"time_limit": 30, **asked}, threads=1, seed=1)
    assert isinstance(result, mz.Result) and result.valid and result.status in ("optimal", "feasible")
    assert result.bound <= (result.details.value if result.plan else result.duration) and result.reason
    assert set(result.sequence) == set(U_SHAPE.nodes) and result.duration >= 6
    if result.plan is None:
        simulation = judge(U_SHAPE, result.positions, result.details.instance.budget)
        assert (simulation.peak, simulation.duration) == (result.peak, result.duration)
        assert simulation.feasible
    frame = result.to_frame()
    assert {"node", "start", "end", "size"} <= set(frame.columns)
    assert ("offset" in frame.columns) == asked.get("addresses", False)
    assert ("memory" in frame.columns) == (result.plan is not None)
    assert len(frame) == len(result.details.simulation.intervals)
    for text in (repr(result), result._repr_html_()):
        assert "peak" in text and "duration" in text and "bound" in text and result.status in text


def test_the_answer_is_that_of_the_command_line(tmp_path, capsys):
    file = tmp_path / "u.json"
    mz.write_graph(U_SHAPE, file)
    assert run(["solve", str(file), "--budget", "6", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    result = mz.solve(file, 6)
    same = ("status", "duration", "peak", "duration_bound", "max_computations")
    assert {key: result.details.as_dict()[key] for key in same} == {key: told[key] for key in same}


def test_numbers_mean_what_they_say():
    tenth = mz.solve(DIAMOND, 1.0, paging={"out_time": 0.1}, search="only").details.problem.platform.links
    exact = mz.solve(DIAMOND, 1.0, paging=mz.PagingCosts(Fraction(1, 10), Fraction(1, 10)), search="only")
    assert tenth == exact.details.problem.platform.links
    assert not mz.solve(
        DIAMOND, devices={"a": None, "b": "0.9:2"}, copies={"time": "inf"}, search="only"
    ).details.problem.platform.links


def test_a_result_is_where_the_next_search_starts():
    first = mz.solve(U_SHAPE, 6, search="only")
    for start in (first, first.positions):
        assert mz.solve(U_SHAPE, 6, search="only", warm_start=start).duration <= first.duration
    with pytest.raises(mz.InputError, match="^warm start: "):
        mz.solve(U_SHAPE, 6, warm_start=first.positions[:-1])
    with pytest.raises(mz.InputError, match="warm start: the result has no answer of this kind"):
        mz.solve(U_SHAPE, 6, paging=PAGING, warm_start=first)


def test_listeners_hear_of_improvements():
    """Each of them is one and the same public type; the last one is what the result says."""

    def heard(function, *args, **given):
        events = []
        result = function(*args, **given, on_progress=events.append)
        assert events and all(type(one) is mz.Progress for one in events)
        assert all(one.gap is None or 0 <= one.gap <= 1 for one in events)
        return events, result

    events, result = heard(mz.solve, U_SHAPE, 6, search="only")
    last = [one for one in events if one.nodes][-1]
    assert (last.value, last.peak, list(last.nodes)) == (result.duration, result.peak, result.sequence)
    assert events[-1].bound == result.bound
    events, result = heard(mz.solve, U_SHAPE, 6, paging=PAGING, search="only", time_limit=2)
    last = [one for one in events if one.nodes][-1]
    assert (last.value, last.peak, list(last.nodes)) == (result.duration, result.peak, result.sequence)
    events, result = heard(mz.frontier, U_SHAPE, points=3, time_limit=5)
    assert {one.budget for one in events} <= set(range(9)) and any(one.nodes for one in events)
    events, result = heard(mz.order, U_SHAPE)
    assert (events[-1].value, events[-1].bound) == (result.peak, result.bound)
    events, result = heard(mz.compare, U_SHAPE, 1.0, only=["*-all"], time_limit=5)
    assert [(one.method, one.value) for one in events] == [
        (row.contender.label, row.result.duration if row.result.valid else None) for row in result.rows
    ]
    events, result = heard(mz.allocate, [mz.Buffer("a", 0, 2, 3), mz.Buffer("b", 1, 3, 2), mz.Buffer("c", 2, 4, 3)])
    assert (events[-1].value, events[-1].bound) == (result.size, result.bound)


def test_the_type_of_progress_says_what_it_has():
    hints = get_type_hints(mz.Progress)
    assert set(hints) == {
        "seconds",
        "value",
        "bound",
        "peak",
        "nodes",
        "source",
        "budget",
        "method",
        "peaks",
        "arenas",
        "unplaced",
    }
    assert not [name for name, kind in hints.items() if "Any" in str(kind)]
    with pytest.raises(FrozenInstanceError):
        mz.Progress(0.0, 1, 1).value = 2


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "budget: expected one, such as 0.8 or 1.5GiB"),
        ({"budget": 2.5}, "budget 2.5 is not a fraction of the peak, over 0 and up to 1; an amount has a unit: 1.5GiB"),
        ({"budget": 6, "alignment": 2}, "alignment goes with addresses"),
        ({"budget": 6, "slow_memory": 4}, "slow memory goes with paging or devices"),
        ({"budget": 6, "goal": "energy"}, "goal goes with paging or devices"),
        ({"budget": 6, "paging": {}}, "paging: give out_time, the duration of writing per size unit"),
        ({"budget": 6, "paging": {"time": 2}}, "paging: unknown cost 'time', expected some of out_time, in_time, "
         "out_energy, in_energy, power"),
        ({"budget": 6, "paging": {"out_time": float("nan")}}, "paging: out_time 'nan': expected a number of 0 or more, "
         "such as 0.25, or inf"),
        ({"budget": 6, "paging": 3}, "paging 3: expected PagingCosts or a mapping of costs by name"),
        ({"paging": PAGING}, "budget: expected one, of local memory"),
        ({"budget": 6, "devices": {"a": 1.0}}, "budget is for one memory: each device has its own"),
        ({"devices": {}}, "no device: expected one or more"),
        ({"devices": {"a": 6, "slow": 3}, "slow_memory": 1}, "slow memory goes with paging"),
        ({"budget": 6, "paging": PAGING, "strategy": "dtr"}, "paging with a strategy: its rule knows one memory"),
        ({"budget": 6, "paging": PAGING, "two_phase": True}, "two phase is for one memory"),
        ({"budget": 6, "strategy": "dtr", "solver": "cp-sat"}, "solver is for models, dtr is a strategy"),
        ({"budget": 6, "formulation": "stagd"}, "unknown formulation 'stagd', expected one of "),
        ({"budget": 6, "time_limit": -1}, "time limit -1 "),
        ({"budget": 6, "max_computations": "many"}, "max computations 'many': expected a positive integer"),
    ],
    ids=str,
)  # fmt: skip
def test_functions_reject_wrong_arguments_in_one_line(asked, message):
    with pytest.raises(mz.InputError) as caught:
        mz.solve(U_SHAPE, **asked)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_functions_without_a_schedule_return_an_answer():
    result = mz.solve(U_SHAPE, 5)
    assert result.status == "infeasible" and not result.valid
    assert (result.sequence, result.duration, result.peak, result.gap_percent) == (None, None, None, None)
    assert result.to_frame().empty and "infeasible" in result._repr_html_()
    with pytest.raises(mz.InputError, match="plot: there is no schedule: "):
        result.plot()


@pytest.mark.full
def test_results_draw_pictures(tmp_path):
    result, front = mz.solve(U_SHAPE, 6, search="only"), mz.frontier(U_SHAPE, budgets=[6, 1.0], search="only")
    for drawn in (result, front):
        shown = drawn.plot()._repr_html_()
        assert shown.startswith("<iframe srcdoc=") and "plotly" in shown and shown.count("<iframe") == 1
        assert '"' not in shown.removeprefix('<iframe srcdoc="').partition('" height=')[0]
        for name in ("picture.html", "picture.svg"):
            assert drawn.plot(tmp_path / name) is None and (tmp_path / name).stat().st_size > 1000
    assert (tmp_path / "picture.html").read_text() == front.plot().page
    plan = mz.solve(U_SHAPE, 6, paging=PAGING, search="only", time_limit=2)
    assert "local" in plan.plot().page and "slow" in plan.plot().page


@pytest.mark.parametrize(("package", "use"), [("pandas", Answer.to_frame), ("plotly", mz.Result.plot)])
def test_what_is_missing_is_named_with_its_extra(package, use, monkeypatch):
    result = mz.solve(U_SHAPE, 1.0)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(mz.InputError, match=rf"^{package} is missing: pip install .*\[(bench|plot)\]"):
        use(result)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mz.solve(U_SHAPE, 6),
        lambda: mz.solve(U_SHAPE, 6, paging=PAGING, slow_memory=4, search="only", time_limit=1),
        lambda: mz.solve(U_SHAPE, 1),
        lambda: mz.order(U_SHAPE, time_limit=1),
        lambda: mz.frontier(U_SHAPE, budgets=[6], time_limit=2, threads=1),
        lambda: mz.compare(U_SHAPE, 1.0, only=["keep-all"], time_limit=5),
        lambda: mz.allocate([mz.Buffer("a", 0, 2, 3), mz.Buffer("b", 1, 3, 2)]),
    ],
    ids=["schedule", "plan", "infeasible", "order", "frontier", "comparison", "allocation"],
)
def test_an_answer_has_a_value_for_each_of_its_properties(make):
    answer = make()
    values = {name: getattr(answer, name) for name, _ in inspect.getmembers(type(answer), inspect.isdatadescriptor)
              if not name.startswith("_")}  # fmt: skip
    assert ("gap_percent" in values) == ("bound" in values) == ("status" in values)
    if values.get("status") == "optimal":
        assert values["gap_percent"] == 0
    elif values.get("status") == "infeasible":
        assert values["gap_percent"] is None


def test_what_users_see_is_short_however_large_the_graph(tmp_path):
    n = 1500
    graph = mz.ComputationGraph(
        [f"n{v}" for v in range(n)], [1] * n, [2**30] * n, [(v, v + 1) for v in range(n - 1)], range(n),
        name="long", size_unit="byte", labels=["x"] * n, device_durations={"gpu": [1] * n},
    )  # fmt: skip
    assert repr(graph) == str(graph) == "ComputationGraph('long', 1,500 nodes, 1,499 edges, total size 1.46 TiB)"
    assert repr(graph_of([1], [3], [])) == "ComputationGraph(1 node, 0 edges, total size 3)"
    result = mz.solve(graph, 1.0, devices=None)
    plan = mz.solve(graph, paging={"out_time": 1}, budget=1.0, search="only", time_limit=2)
    front = mz.frontier(graph, budgets=[1.0], search="only", time_limit=5)
    order = mz.order(graph, time_limit=2)
    assert repr(result.details.problem) == f"Instance({graph}, budget 2,147,483,648, max_computations 2)"
    seen = [result.trace[0], result.intervals[0], result.details, plan.trace[0], plan.details.problem.platform,
            *plan.details.problem.platform.memories, *plan.details.problem.platform.links, *front.points, mz.Budget(6),
            mz.Goal(), mz.Device(), mz.PagingCosts(), mz.CopyCosts(), mz.Buffer("a", 0, 1, 2), mz.Gap(0, 1),
            ]  # fmt: skip
    for one in seen:
        assert len(repr(one)) < 400 and "\n" not in repr(one), type(one)
    for answer in (result, plan, front, order):
        assert max(map(len, repr(answer).splitlines())) < 200


def test_order_from_python():
    found = mz.order(U_SHAPE, time_limit=5)
    assert found.status == "optimal" and found.peak == found.bound <= found.input_peak and found.gap_percent == 0
    assert judge(U_SHAPE, found.positions, found.peak).feasible
    assert found.to_frame()["memory"].max() == found.peak and list(found.to_frame()["node"]) == found.sequence
    assert mz.solve(U_SHAPE, found.peak, order=found.positions).duration == 6
    assert "found by" in repr(found)


@pytest.mark.parametrize("several", [{}, {"paging": PAGING}, {"devices": {"gpu": None, "cpu": "inf:9"}}], ids=str)
def test_frontier_function_returns_points(several):
    front = mz.frontier(U_SHAPE, budgets=[6, 1.0], time_limit=6, threads=1, **several)
    frame = front.to_frame()
    assert list(frame["budget"]) == sorted(frame["budget"]) and frame["duration"].is_monotonic_decreasing
    assert (frame["duration"] >= frame["duration_bound"]).all() and "2 points" in front._repr_html_()


def test_compare_function_returns_rows():
    found = mz.compare(U_SHAPE, [0.8, "100%"], only=["*-all"], time_limit=5)
    assert [row.contender.label for row in found.rows] == ["keep-all", "recompute-all"] * 2
    assert {rule.name for rule in strategies()} >= set(found.to_frame()["contender"])
    assert "keep-all, 100%: +0.000 %" in repr(found)
    with pytest.raises(mz.InputError, match="matches none of"):
        mz.compare(U_SHAPE, 0.8, only=["no such"])


def test_allocate_function_returns_an_arena(tmp_path):
    buffers = [mz.Buffer("a", 0, 2, 3), mz.Buffer("b", 1, 3, 2), mz.Buffer("c", 2, 4, 3)]
    found = mz.allocate(buffers, alignment=1)
    assert (found.status, found.size, found.bound) == ("optimal", 5, 5)
    assert found.to_frame()["offset"].tolist() == list(found.offsets.values())
    file = tmp_path / "buffers.csv"
    file.write_text("id,lower,upper,size\na,0,2,3\nb,1,3,2\nc,2,4,3\n")
    assert mz.allocate(file).size == 5 and mz.allocate(file, capacity=4).status == "infeasible"
    with pytest.raises(mz.InputError, match="alignment 0 is not an integer"):
        mz.allocate(buffers, alignment=0)
