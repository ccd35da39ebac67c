"""The whole chain, through the real MiniZinc and the real solvers."""

import json

import pytest
from few import few
from solving import solve

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.moccasin import Moccasin
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import judge, simulate

# x is read by a and again by z: keeping it while the wide b is computed needs 10, dropping and recomputing it 8.
#
#     x(2) -> a(1) -> b(7) -> c(1) -> z(1)
#      \______________________________/
SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)


@pytest.mark.few(2)
@pytest.mark.parametrize("solver", ["cp-sat", "gecode"])
@pytest.mark.parametrize("formulation", ["staged", "general"])
@pytest.mark.parametrize("precedence", few(["served-by", "reservoir"], keep=1))
def test_the_skip_connection_is_recomputed(solver, formulation, precedence):
    result = solve(SKIP, 8, solver=solver, formulation=formulation, precedence=precedence, search="off", threads=2)
    assert (result.status, result.duration, result.bound, result.peak) == ("optimal", 14, 14, 8)
    assert [SKIP.nodes[v] for v in result.sequence] in (["x", "a", "b", "c", "x", "z"], ["x", "a", "b", "x", "c", "z"])
    assert result.valid
    assert result.tdi_percent == pytest.approx(100 * 5 / 9)
    assert result.gap_percent == 0


def test_an_order_that_fits_is_optimal_at_once():
    result = solve(SKIP, 10)
    assert (result.status, result.duration, result.tdi_percent) == ("optimal", 9, 0)
    assert result.sequence == (0, 1, 2, 3, 4)


def test_a_node_that_alone_is_over_the_budget_is_named():
    result = solve(SKIP, 7)
    assert (result.status, result.sequence, result.valid) == ("infeasible", None, False)
    assert result.reason == "node b alone needs 8 for its inputs and its output, 1 over the budget 7"


def test_amounts_that_look_like_percent_are_answered_with_a_hint(command, tmp_path):
    large = ComputationGraph(SKIP.nodes, SKIP.durations, tuple(1_000 * size for size in SKIP.sizes), SKIP.edges)
    write_graph(large, tmp_path / "large.json")
    status, out, err = command("solve", tmp_path / "large.json", "--budget", 80)
    assert status == 1 and "; 80 percent of the input order's peak is the budget 80%" in out
    assert "least peak seen" in out and "125 times the budget" in out
    status, out, err = command("solve", tmp_path / "large.json", "--budget", "80%")
    assert status == 0 and "percent" not in out + err
    assert "percent" not in solve(large, 7_000).reason


@pytest.mark.few(1)
@pytest.mark.parametrize("two_phase", [True, False])
def test_infeasible_is_proven(two_phase):
    result = solve(SKIP, 8, max_computations=1, two_phase=two_phase, search="off", time_limit=60)
    assert (result.status, result.duration, result.gap_percent) == ("infeasible", None, None)
    assert result.reason == (
        "proven: no schedule in stages of the input order with at most 1 computation per node fits the budget 8; "
        "a stage ends with the first computation of its node, and stages keep the input order: another order "
        "(--order free) or more computations per node (--max-computations) may fit"
    )


@pytest.mark.full
def test_the_scope_of_a_proof_in_stages_is_reported():
    crossed = ComputationGraph(  # x y p q: 6; x p y q: 5
        nodes=("x", "y", "p", "q"),
        durations=(1, 1, 1, 1),
        sizes=(2, 2, 1, 1),
        edges=((0, 2), (1, 3)),
        order=(0, 1, 2, 3),
    )
    outside = "stages keep the input order: another order"
    limits = {"search": "off", "max_computations": 1, "time_limit": 60}
    kept = solve(crossed, 4, **limits)
    assert kept.status == "infeasible" and outside in kept.reason
    assert solve(crossed, 4, order="free", **{**limits, "search": "on"}).status == "optimal"  # as it says
    assert outside not in solve(crossed, 2).reason
    any_order = solve(SKIP, 8, formulation="general", **limits)
    assert any_order.reason == "proven: no schedule with at most 1 computation per node fits the budget 8"


def test_counts_of_computations_per_node():
    assert solve(SKIP, 8, max_computations=[2, 1, 1, 1, 1], time_limit=60).status == "optimal"
    assert solve(SKIP, 8, max_computations=[1, 2, 2, 2, 2], time_limit=60).status == "infeasible"


def test_one_phase_and_two_phases_agree():
    assert solve(SKIP, 8, two_phase=False, search="off", time_limit=60).duration == 14


@pytest.mark.full
def test_progress_ends_with_the_answer():
    heard = []
    result = solve(SKIP, 8, search="off", time_limit=60, on_progress=heard.append)
    assert heard[0].phase == "peak"
    assert heard[-1].phase == "duration"
    assert heard[-1].value == result.duration
    assert all(progress.bound <= result.duration for progress in heard)
    assert sorted(progress.seconds for progress in heard) == [progress.seconds for progress in heard]


def test_the_time_of_flattening_is_left_out_where_the_solver_was_stopped_before_minizinc_reported_it():
    result = solve(random_layered(100, seed=1), 0.9, solver="gecode", search="off", time_limit=2)
    assert result.status == "unknown" and result.seconds.flatten is None and result.seconds.solve > 0
    assert "flatten " not in str(result.seconds) and "solve with flattening " in str(result.seconds)
    assert result.as_dict()["seconds"]["flatten"] is None
    solved = solve(SKIP, 8, solver="gecode", search="off", time_limit=60)
    assert solved.seconds.flatten > 0 and f"flatten {solved.seconds.flatten:.2f}" in str(solved.seconds)


def test_the_answer_as_an_object():
    result = solve(SKIP, 8, time_limit=60)
    told = json.loads(json.dumps(result.as_dict()))
    simulation = simulate(SKIP, result.sequence)
    assert (told["peak"], told["duration"]) == (simulation.peak, simulation.duration)
    assert [(i["node"], i["start"], i["end"]) for i in told["intervals"]] == [
        (SKIP.nodes[i.node], i.start, i.end) for i in simulation.intervals
    ]
    assert told["seconds"].keys() == {"read", "flatten", "solve", "total"}
    assert told["baseline_peak"] == 10
    assert told["max_computations"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"solver": "nonesuch"}, "unknown solver 'nonesuch', MiniZinc knows cp-sat, .*gecode"),
        ({"formulation": "x"}, "unknown formulation 'x'"),
        ({"precedence": "x"}, "unknown precedence 'x'"),
        ({"time_limit": 0}, "time limit 0 is not a positive number"),
        ({"time_limit": float("nan")}, "time limit nan is not a positive number"),
        ({"threads": 0}, "threads 0 is not a positive integer"),
        ({"seed": -1}, "seed -1 is not an integer in 0"),
        ({"max_computations": 0}, "max_computations of node x: 0 is not"),
        ({"order": "no/such/file"}, "no/such/file: "),
    ],
)
def test_solve_rejects_wrong_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        solve(SKIP, 8, **arguments)


def test_solve_names_a_missing_minizinc(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="MiniZinc is not on PATH; install it"):
        solve(SKIP, 8)


def test_a_lying_solver_is_caught(monkeypatch):
    """What a solver claims counts only if the simulator agrees."""
    genuine = Moccasin.sequence
    monkeypatch.setattr(Moccasin, "sequence", lambda form, data, values: genuine(form, data, values)[1:])
    with pytest.raises(
        InputError, match="cp-sat returned a schedule that the simulator rejects: position 1: node a reads"
    ):
        solve(SKIP, 8, search="off", time_limit=60)


PUBLISHED = [
    ("random_layered_n100", 0.9, 0.789),
    ("random_layered_n100", 0.8, 2.296),
    ("checkmate_fcn8_train", 0.9, 0.029),
    ("checkmate_fcn8_train", 0.8, 0.136),
    pytest.param("checkmate_resnet50_train", 0.9, 0.108, marks=pytest.mark.slow),
    pytest.param("checkmate_resnet50_train", 0.8, 0.279, marks=pytest.mark.slow),
    pytest.param("random_layered_n250", 0.9, 0.904, marks=pytest.mark.slow),
]


@pytest.mark.full
@pytest.mark.parametrize("search", ["on", "off"])
@pytest.mark.parametrize(("name", "fraction", "tdi_percent"), few(PUBLISHED, keep=PUBLISHED[3:4]))
def test_published_graphs_to_the_optimum(shared, name, fraction, tdi_percent, search):
    graph = read_graph(shared / "data" / f"{name}.json")
    result = solve(graph, fraction, search=search, time_limit=400)
    assert (result.status, round(result.tdi_percent, 3)) == ("optimal", tdi_percent)
    assert judge(graph, result.sequence, result.instance.budget).feasible
