"""`deploy onnx --budget`: the schedule is searched for on the way, as `solve` would, and the model follows it."""

from __future__ import annotations

import json
import sys

import onnx
import pytest
from onnx import helper
from onnx_deploying import FLOAT, checked, node, operators, value

from moccasin_mzn.base.doc_links import Page

QUICK = ("--search", "only", "--time-limit", 20, "--threads", 1)
TIGHT = 12 * 16


def skipping(*first, drawn=False):
    """The first operator, of size 4, is read at once, by one of size 8, and at the end; what lies between is small. In
    the order of the file that takes 13, with the first operator computed again 12; a unit is 16 bytes."""
    nodes = [
        *(first or [node("Concat", ["x"] * 4, ["a"], axis=1)]),
        node("Concat", ["a", "a"], ["b"], axis=1),
        node("ReduceMax", ["b"], ["c"], axes=[1]),
        *([node("RandomUniformLike", ["c"], ["r"])] if drawn else []),
        node("Mul", ["a", "r" if drawn else "c"], ["d"]),
    ]
    given, result = value("x", FLOAT, [4, 1]), value("d", FLOAT, [4, 4])
    graph = helper.make_graph(nodes, "g", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def written(folder, model):
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path, folder / "new.onnx"


def test_one_command_plans_and_rewrites(tmp_path, command):
    model, new = written(tmp_path, skipping())
    status, out, _ = command("deploy", "onnx", model, "-o", new, "--budget", TIGHT, *QUICK, "--check")
    lines = out.splitlines()
    assert status == 0 and lines[0].startswith("optimal: ") and "; duration +" in lines[0]
    assert lines[1:4] == [
        f"{new}: 4 operators, 1 recomputation: 5 in the file, planned peak 192 B instead of 208 B",
        "outputs are equal, bit for bit",
        "order: that of the schedule",
    ]
    assert operators(checked(onnx.load(new)))[3:] == ["a__2 = Concat(x, x, x, x)", "d = Mul(a__2, c)"]


def test_what_check_needs_is_asked_for_before_the_search(tmp_path, command, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    model, new = written(tmp_path, skipping())
    status, out, err = command("deploy", "onnx", model, "-o", new, "--budget", TIGHT, *QUICK, "--check")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: --check needs the package onnxruntime: pip install ") and "[onnx,profile]" in err


@pytest.mark.full
def test_random_operators_are_computed_once_when_others_are_recomputed(tmp_path, command):
    model, new = written(tmp_path, skipping(drawn=True))
    status, out, _ = command("deploy", "onnx", model, "-o", new, "--budget", TIGHT, *QUICK, "--json")
    told = json.loads(out)
    assert (status, told["computations"], told["planned_peak"], told["status"]) == (0, 6, TIGHT, "optimal")
    assert told["duration"] == told["bound"] and told["tdi_percent"] == pytest.approx(
        100 * 64 / 244
    )  # a copies 64 bytes
    assert [line.split()[0] for line in operators(onnx.load(new))].count("r") == 1


@pytest.mark.full
def test_what_would_have_to_be_drawn_again_is_no_schedule(tmp_path, command):
    model, new = written(tmp_path, skipping(node("RandomUniform", [], ["a"], shape=[4, 4])))
    ask = ("deploy", "onnx", model, "-o", new, *QUICK)
    status, out, err = command(*ask, "--budget", TIGHT, "--if-none", "stop")
    assert (status, out, err.count("\n")) == (1, "", 1) and err.startswith("no schedule: ") and not new.exists()
    assert command(*ask, "--budget", TIGHT + 16)[0] == 0 and new.exists()
    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    assert command("import", "onnx", model, "-o", graph)[0] == 0  # and by hand it is the same
    assert command("solve", graph, "--budget", TIGHT, *QUICK, "--if-none", "stop", "--output", plan)[0] == 1


@pytest.mark.full
def test_deploy_onnx_searches_in_place(tmp_path, command):
    chain = [node("Sigmoid", ["x"], ["a"]), node("Sin", ["a"], ["b"]), node("Neg", ["b"], ["c"]),
             node("Add", ["a", "c"], ["d"])]  # fmt: skip
    info = [[value(name, FLOAT, [4, 1])] for name in "xd"]
    model, new = written(tmp_path, helper.make_model(helper.make_graph(chain, "g", *info), ir_version=10))
    ask = ("deploy", "onnx", model, "-o", new)
    status, out, err = command(*ask, "--budget", 32, *QUICK)
    assert (status, out, err.count("\n")) == (1, "", 1) and err.startswith("no schedule: node d (Add) alone needs 48 B")
    status, out, _ = command(*ask, "--budget", 32, *QUICK, "--in-place")
    assert status == 0 and "planned peak 32 B instead of 32 B" in out
    graph, plan = tmp_path / "graph.json", tmp_path / "plan.json"
    assert command("import", "onnx", model, "-o", graph)[0] == 0
    for made, other in ((["--in-place"], []), ([], ["--in-place"])):
        assert command("solve", graph, "--budget", "1.0", *QUICK, *made, "--output", plan)[0] == 0
        assert command(*ask[:3], plan, *ask[3:], *made)[0] == 0
        status, _, err = command(*ask[:3], plan, *ask[3:], *other)
        here = "give that" if made else "leave it out"
        without = "" if made else "out"
        told = Page.PLAN_FORMAT.after(f"error: {plan}: made with{without} --in-place: {here} here as well")
        assert (status, err) == (2, f"{told}\n")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ([], "expected a schedule, or --budget to make one within it"),
        (["--budget", "nothing"], "budget 'nothing'"),
        (["--budget", "0.9", "--max-computations", "0"], "max computations '0': expected a positive integer"),
        (["--budget", "0.9", "--time-limit", "-1"], "time limit"),
        (["schedule", "--budget", "0.9"], "expected a schedule, or --budget to make one within it"),
        (["schedule", "--solver", "highs"], "--solver is for a search: give --budget as well"),
        (["schedule", "--count-fixed"], "--count-fixed is for a search: give --budget as well"),
    ],
)
def test_deploy_onnx_with_a_search_refuses_bad_options(more, complaint, tmp_path, command):
    model, new = written(tmp_path, skipping())
    (tmp_path / "schedule").write_text("[]")
    more = [tmp_path / word if word == "schedule" else word for word in more]
    status, out, err = command("deploy", "onnx", model, *more, "-o", new)
    assert (status, out, err.count("\n")) == (2, "", 1) and complaint in err and not new.exists()


def test_the_order_is_not_overwritten(tmp_path, command):
    model, _ = written(tmp_path, skipping())
    order = tmp_path / "order.json"
    order.write_text("[]")
    status, _, err = command("deploy", "onnx", model, "--budget", "0.9", "--order", order, "-o", order)
    assert (status, err) == (2, f"error: {order}: is the order, and would be lost\n")
