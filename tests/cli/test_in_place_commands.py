"""The option --in-place: what takes it, what it tells, and what refuses it."""

from __future__ import annotations

import json

import pytest

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate

GRAPH = ComputationGraph(
    ["a", "b", "c", "d"], [1] * 4, [3, 3, 2, 2], [(0, 1), (1, 2), (0, 3), (2, 3)], in_place=[[], [0], [1], [0, 2]]
)


def test_a_schedule_that_only_fits_in_place(command, graph, tmp_path):
    schedule, picture = tmp_path / "schedule.json", tmp_path / "picture.svg"
    given = ("--budget", 6, "--output", schedule, "--plot", picture, "--json")
    status, out, _ = command("solve", graph, "--in-place", *given)
    told = json.loads(out)
    assert status == 0 and told["in_place"] is True and picture.is_file()
    assert (told["status"], told["peak"], told["baseline_peak"], told["tdi_percent"]) == ("optimal", 6, 6, 0)
    assert command("validate", graph, schedule, "--in-place")[0] == 0
    status, out, _ = command("validate", graph, schedule)
    assert status == 1 and "memory 8 is 2 over the budget 6 while computing node c" in out
    assert command("solve", graph, "--budget", 6, "--json")[0] == 1


@pytest.mark.parametrize(("budget", "proven"), [(6, "optimal"), (4, "infeasible")])
def test_a_certificate_in_place(command, graph, tmp_path, budget, proven):
    """It says that it is of schedules in place, and of none that is not: then 6 is not enough."""
    path = tmp_path / "proof.json"
    status, _, _ = command("solve", graph, "--in-place", "--budget", budget, "--certificate", path)
    assert status == (proven == "infeasible")
    status, out, err = command("check-certificate", graph, path)
    assert (status, err) == (0, "") and f"proven: {proven}: " in out and "about: the graph in place\n" in out
    assert json.loads(command("check-certificate", graph, path, "--json")[1])["about"] == "in place"
    document = json.loads(path.read_text())
    del document["about"]
    path.write_text(json.dumps(document))
    told = command("check-certificate", graph, path)
    assert told[0] == (2 if proven == "optimal" else 0) and "in place" not in told[1]


def test_info_shows_what_may_be_overwritten_and_what_it_saves(command, graph):
    plain, in_place = (json.loads(command("info", graph, "--json", *more)[1]) for more in ((), ("--in-place",)))
    assert (plain["peak"], plain["least_budget_bound"], plain["may_overwrite"]) == (8, 7, 3)
    assert (in_place["peak"], in_place["least_budget_bound"], in_place["peak_not_in_place"]) == (6, 5, 8)
    assert "peak_not_in_place" not in plain
    assert "may overwrite an input, with --in-place" in command("info", graph)[1]
    assert "not in place" in command("info", graph, "--in-place")[1]


def test_exported_data_have_in_place(command, graph, tmp_path):
    data = tmp_path / "data.dzn"
    assert command("export", graph, "--budget", 5, "--in-place", "-o", data)[0] == 0
    assert "in_place = [true, true, true, true]" in " ".join(data.read_text().split())
    assert command("export", graph, "--budget", 5, "-o", data)[0] == 0
    assert "in_place" not in data.read_text()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (("--formulation", "checkmate-milp"), "in place: checkmate-milp does not handle that: leave out --in-place"),
    ],
)
def test_commands_without_in_place_refuse_it_in_one_line(command, graph, how, message):
    status, out, error = command("solve", graph, "--budget", 5, "--in-place", *how)
    assert (status, out, error) == (2, "", f"error: {Page.FEATURES.after(message)}\n")


@pytest.mark.parametrize("memories", [("--budget", 3, "--paging", "--page-out-time", "1"), ("--device", "gpu=3"),
                                      ("--memory", "fast=3")], ids=lambda words: words[-2])  # fmt: skip
def test_several_memories_run_in_place(command, graph, tmp_path, memories):
    """The peak in place is a budget within which nothing is computed twice or copied; the file knows that it is so."""
    plan, of = tmp_path / "plan.json", read_graph(graph)
    peak = simulate(of.run_in_place(), of.input_order()).peak
    assert peak < simulate(of, of.input_order()).peak
    words = [str(word).replace("=3", f"={peak}") if word != 3 else peak for word in memories]
    status, out, _ = command("solve", graph, *words, "--in-place", "--json", "--time-limit", 10, "-o", plan)
    found = json.loads(out)
    assert status == 0 and (found["status"], found["tdi_percent"]) == ("optimal", 0.0)
    assert command("validate", graph, plan, "--in-place")[0] == 0 and command("validate", graph, plan)[0] == 1
