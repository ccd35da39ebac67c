"""`solve --order free`: against brute force, against the input order, and from the command line."""

import json
import random

import oracle
import pytest
from cases import draw_case
from solving import solve

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.conclusion import conclude
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers import along, searchers
from moccasin_mzn.solvers.minizinc.run import SolverError

# The input order holds the wide b and B together, which takes 11; one after the other takes 9, and nothing twice.
#
#     a(1) -> b(5) -> c(1) -\
#     A(1) -> B(5) -> C(1) --> z(1)        input order a A b B c C z
TWO = ComputationGraph(
    ("a", "A", "b", "B", "c", "C", "z"), (3,) * 7, (1, 1, 5, 5, 1, 1, 1),
    ((0, 2), (2, 4), (1, 3), (3, 5), (4, 6), (5, 6)), order=tuple(range(7)),
)  # fmt: skip
# x is read by a and again by z: no order avoids to hold it beside the wide b, so it is computed twice.
SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)
# The same, but that nobody waits for d: there is more than one order.
FORK = ComputationGraph(
    (*SKIP.nodes, "d"), (*SKIP.durations, 1), (*SKIP.sizes, 0), (*SKIP.edges, (1, 5)), order=(0, 1, 5, 2, 3, 4)
)

SKIP_FREE = Instance.build(SKIP, 8, order="free")


def hard_graph(n=120, span=40):
    draw = random.Random(1)
    edges = sorted({(u, v) for v in range(1, n) for u in draw.sample(range(max(0, v - span), v), min(v, 2))})
    amounts = [[draw.randint(1, 99) for _ in range(n)] for _ in range(2)]
    return ComputationGraph(tuple(range(n)), tuple(amounts[0]), tuple(amounts[1]), tuple(edges), tuple(range(n)))


def assert_solved_as_by_brute_force(case):
    least = oracle.best_free_order(case.graph, case.budget, case.max_computations)
    result = solve(
        case.graph, case.budget, order="free", max_computations=case.max_computations, time_limit=120, threads=1
    )
    if least is None:
        assert (result.status, result.sequence) == ("infeasible", None)
        return
    assert (result.status, result.duration, result.bound) == ("optimal", least, least)
    assert judge(case.graph, result.sequence, case.budget).feasible
    assert all(result.sequence.count(v) <= case.max_computations for v in range(len(case.graph.nodes)))


def is_of_interest(case):
    """Neither the input order nor a node alone settles it, and so it takes a proof."""
    need, least = case.graph.largest_working_set().memory, oracle.best_free_order(case.graph, case.budget, 2)
    return need <= case.budget < simulate(case.graph, case.graph.input_order()).peak and (
        least is None or least > case.graph.total_duration
    )


@pytest.mark.full
def test_brute_force_finds_the_same_where_it_takes_a_proof():
    cases = (draw_case(seed, 5) for seed in range(60))
    assert_solved_as_by_brute_force(next(filter(is_of_interest, cases)))


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_finds_the_same(seed):
    assert_solved_as_by_brute_force(draw_case(1000 + seed, 5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_brute_force_finds_the_same_on_many_graphs(seed):
    assert_solved_as_by_brute_force(draw_case(2000 + seed, 5))


@pytest.mark.parametrize("seed", range(3))
def test_solve_in_a_free_order_is_never_worse_than_the_input_order(seed):
    draw = random.Random(seed)
    n = 14
    edges = [(u, v) for v in range(n) for u in range(v) if draw.random() < (0.7 if u == v - 1 else 0.15)]
    amounts = [[draw.randint(1, 9) for _ in range(n)] for _ in range(2)]
    graph = ComputationGraph(range(n), *amounts, edges, order=tuple(range(n)))
    given, free = (solve(graph, 0.8, order=order, search="only", time_limit=1) for order in ("input", "free"))
    if given.found:
        assert free.found and free.duration <= given.duration
    assert free.instance.budget == given.instance.budget


def test_an_order_that_fits_is_proven_optimal_as_nothing_is_computed_twice():
    result = solve(TWO, 8, order="free", time_limit=60, threads=1)
    assert (result.status, result.tdi_percent) == ("optimal", 0)
    assert sorted(result.sequence) == list(range(7))
    assert result.reason == "no schedule is shorter than every node computed once"
    assert result.instance.baseline.peak == simulate(TWO, range(7)).peak > 8


def test_a_fraction_is_of_the_peak_of_the_input_order():
    result = solve(TWO, "100%", order="free")
    assert (result.status, result.instance.budget) == ("optimal", simulate(TWO, range(7)).peak)
    assert result.reason == "the input order fits the budget with every node computed once"


@pytest.mark.full
def test_where_no_order_avoids_it_a_node_is_computed_twice_and_that_is_proven():
    result = solve(SKIP, 8, order="free", time_limit=60, threads=1, max_computations=[2, 2, 1, 1, 1])
    assert (result.status, result.duration, result.bound) == ("optimal", 14, 14)
    refuted = solve(SKIP, 8, order="free", max_computations=1, time_limit=60, threads=1)
    assert refuted.status == "infeasible"
    assert refuted.reason == "proven: no schedule in any order with at most 1 computation per node fits the budget 8"


def test_what_no_order_fits_is_refuted_without_a_model_where_nothing_may_be_recomputed():
    refuted = solve(SKIP, 8, order="free", max_computations=1, search="only", time_limit=20)
    assert (refuted.status, refuted.sequence, refuted.driver) == ("infeasible", None, None)
    most = [1, 1, 1, 2, 1, 1]  # to compute c again does not help, but what holds for orders is no proof then
    assert solve(FORK, 8, order="free", max_computations=most, search="only", time_limit=0.5).status == "unknown"


def test_without_a_model_flow_covers_prove_it_for_any_number_of_computations():
    result = solve(FORK, 8, order="free", search="only", time_limit=60)
    assert (result.status, result.duration, result.bound) == ("optimal", 15, 15)
    assert (result.driver, result.proved_by) == (None, "flow covers")
    assert result.reason == "proven: no schedule in any order with any number of computations is shorter"


def test_the_general_formulation_has_flow_covers_too():
    result = solve(FORK, 8, formulation="general", search="only", time_limit=60)
    assert (result.status, result.duration, result.proved_by) == ("optimal", 15, "flow covers")
    assert "in any order with any number of computations" in result.reason


def runner_of(board, options):
    """The call of `solve` for the problem of a board."""
    return Runner(board=board, options=options, form=options.form, searchers=searchers())


def test_where_there_is_one_order_its_proofs_hold_for_all():
    record = Board(Instance.build(SKIP, 8, order="free"), 0.0)
    search = runner_of(record, Options(search="only", time_limit=5))
    inside = Board(Instance.build(SKIP, 8), 0.0)
    inside.improve_bound(12, "local search")
    along._take_proof(search, inside)
    assert record.bound == 9
    inside.improve_bound(13, "relaxation")
    along._take_proof(search, inside)
    assert (record.bound, record.bound_source) == (13, "relaxation")
    assert along._only_order(search)
    assert not along._only_order(runner_of(Board(Instance.build(TWO, 8, order="free"), 0.0), Options()))


@pytest.mark.full
def test_the_general_formulation_takes_a_free_order_as_it_is():
    most = [2, 1, 1, 1, 1]
    result = solve(
        SKIP, 8, order="free", formulation="general", search="off", time_limit=60, threads=1, max_computations=most
    )
    assert (result.status, result.duration, result.formulation.name) == ("optimal", 14, "general")
    assert "in any order with at most 1 to 2" in result.reason


def test_what_is_proven_is_said_of_any_order():
    instance = Instance.build(SKIP, 8, order="free", max_computations=[2, 1, 2, 1, 1])
    record = Board(instance, 0.0)
    record.refute("cp-sat")
    status, reason = conclude(record, Options().form, "")
    assert (status, reason) == (
        "infeasible", "proven: no schedule in any order with at most 1 to 2 computations per node fits the budget 8"
    )  # fmt: skip


def test_a_warm_start_needs_no_stages():
    """It computes z's inputs in another order than the graph's, twice where it likes to."""
    graph = ComputationGraph(TWO.nodes, TWO.durations, TWO.sizes, TWO.edges, (1, 0, 3, 2, 5, 4, 6))
    start = (0, 2, 4, 1, 0, 3, 5, 6)
    with pytest.raises(InputError, match="out of place in stages of the input order"):
        solve(graph, 8, warm_start=start)
    assert solve(graph, 8, order="free", warm_start=start, search="only", time_limit=5).tdi_percent == 0
    with pytest.raises(InputError, match="warm start: node a is computed 4 times, at most 2 allowed"):
        solve(graph, 8, order="free", warm_start=(0, 0, *start))
    with pytest.raises(InputError, match="warm start: position 4: memory 11 is 3 over the budget 8"):
        solve(graph, 8, order="free", warm_start=(0, 1, 2, 3, 4, 5, 6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"formulation": "checkmate-milp"}, "order free: checkmate-milp keeps to stages of the input order"),
        ({"search": "off"}, "order free: search off leaves only a model, and that is the formulation general"),
        ({"solver": "cp-sat,gecode"}, "order free: 2 solvers cannot race on it, name one"),
        ({"solver": "nonesuch"}, "unknown solver 'nonesuch'"),
        ({"formulation": "checkmate-milp", "search": "off"}, "order free: checkmate-milp keeps to stages"),
    ],
)
def test_free_order_refuses_conflicting_options(arguments, message):
    with pytest.raises(InputError, match=message):
        solve(SKIP, 8, order="free", **arguments)


def test_the_staged_search_follows_the_best_schedule_and_without_one_the_drafts():
    search = runner_of(Board(SKIP_FREE, 0.0), Options(search="only"))
    search.shared.orders_done.add((0, 1, 2, 3, 4))
    assert along._next_order(search) is None
    search.shared.all_starts += [(0, 1, 2, 3, 4), (0, 2, 0, 1, 3, 4)]
    assert along._next_order(search) == (0, 2, 1, 3, 4)
    search.board.offer((0, 1, 2, 3, 0, 4), "test")
    assert along._next_order(search) is None


def test_without_the_solver_the_staged_search_goes_on_along_other_orders(monkeypatch):
    asked = []

    def run(self):
        asked.append((self.instance.order, self.options.search))
        if self.options.search != "only":
            raise SolverError("the solver fell over")

    monkeypatch.setattr(Runner, "run", run)
    search = runner_of(Board(SKIP_FREE, 0.0), Options(time_limit=1))
    along._along(search, (0, 1, 2, 3, 4), 0.1)
    along._along(search, (0, 1, 2, 3, 4), 0.1)
    assert asked == [((0, 1, 2, 3, 4), "on"), ((0, 1, 2, 3, 4), "only")]
    assert [str(error) for error in search.errors] == ["the solver fell over"]


@pytest.mark.full
def test_what_is_reported_on_the_way_ends_with_the_answer():
    heard = []
    graph = hard_graph()
    result = solve(graph, 0.6, order="free", time_limit=0.5, search="only", on_progress=heard.append)
    assert (result.status != "infeasible") and (result.found == (result.status != "unknown"))
    if result.found:
        assert judge(graph, result.sequence, result.instance.budget).feasible
        durations = [progress.value for progress in heard if progress.answer is not None]
        assert durations == sorted(durations, reverse=True) and durations[-1] == result.duration


@pytest.mark.full
def test_solve_command_in_a_free_order(command, tmp_path):
    graph, output = tmp_path / "two.json", tmp_path / "schedule.json"
    write_graph(TWO, graph)
    status, out, _ = command("solve", graph, "--budget", 8, "--order", "free", "--json", "--output", output, "--check")
    told = json.loads(out)
    assert (status, told["order"], told["status"], told["tdi_percent"]) == (0, "free", "optimal", 0)
    assert all(verdict for verdict in told["checks"])
    assert command("validate", graph, output)[0] == 0
    again = command("solve", graph, "--budget", 8, "--order", "free", "--json", "--warm-start", output)
    assert again[0] == 0 and json.loads(again[1])["sequence"] == told["sequence"]
    status, out, err = command("solve", graph, "--budget", 6, "--order", "free", "--json")
    assert (status, json.loads(out)["status"]) == (1, "infeasible")
    assert err.startswith("no schedule: ")


def test_the_command_line_refuses_what_takes_an_order(command, tmp_path):
    graph = tmp_path / "two.json"
    write_graph(TWO, graph)
    for arguments in (
        ("solve", graph, "--budget", 8, "--order", "free", "--formulation", "checkmate-milp"),
        ("info", graph, "--order", "free"),
    ):
        status, out, err = command(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), arguments
        assert "order free" in err


def test_solvers_race_in_any_order_on_the_general_formulation():
    found = solve(SKIP, 8, order="free", formulation="general", solver="cp-sat,gecode", time_limit=30)
    assert found.valid and found.status == "optimal"
