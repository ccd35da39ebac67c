"""TFLite models in a plan's order: TFLite Micro computes the same with them, in the arena that the plan says."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tflite_models import (
    Builder,
    choosing,
    dequantizing,
    joining,
    joining_inputs,
    joining_twice,
    skipping,
    streaming,
    two_results,
)
from tflite_plans import INPUT, offsets_in, plan_of, taken, written

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.source import planned
from moccasin_mzn.deploy.tflite_model import packed, planned_model
from moccasin_mzn.graphs.importers.tflite import RESULTS, graph_of, import_tflite, operator_name, read_model, schema
from moccasin_mzn.graphs.zero_copy import zero_copy_concat
from moccasin_mzn.problem.judges.schedules import simulate

MODELS = {"skipping": skipping, "two results": two_results}
QUICK = ("--time-limit", 2, "--threads", 1, "--search", "only")
EARLIER = {"skipping": (INPUT, 0, 1, 2, 3, "3.1", 4, 5, 0, 6, RESULTS), "two results": (INPUT, 1, 2, 3, 4, 0, RESULTS)}
"""Schedules: one that computes the first operator again, one in another order."""


@pytest.mark.parametrize("name", MODELS)
def test_operators_stand_in_order_and_tensors_that_live_together_do_not_overlap(name, tmp_path):
    path = written(tmp_path, MODELS[name]())
    model, graph, plan = plan_of(path, EARLIER[name])
    new = written(tmp_path, planned_model(model, plan), "new.tflite")
    model, offsets = offsets_in(new)
    subgraph = model.subgraphs[0]
    assert len(subgraph.operators) == len([step for step in plan.steps if type(step.node) is int])
    assert taken(model, offsets) == plan.arenas[0]


def run_micro(path, given, capfd):
    """Outputs by TFLite Micro, and the bytes that its arena has for tensors."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_file(str(path), arena_size=2**20)
    interpreter.set_input(given, 0)
    interpreter.invoke()
    capfd.readouterr()
    interpreter.print_allocations()
    told = "".join(capfd.readouterr())
    count = len(read_model(path).subgraphs[0].outputs)
    return [interpreter.get_output(k).copy() for k in range(count)], int(re.search(r"head (\d+) bytes", told)[1])


def run_lite(path, given):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
    interpreter.invoke()
    return [interpreter.get_tensor(one["index"]).copy() for one in interpreter.get_output_details()]


@pytest.mark.parametrize("name", MODELS)
def test_micro_computes_the_same_in_the_arena_of_the_plan(name, tmp_path, capfd):
    path = written(tmp_path, MODELS[name]())
    model, graph, plan = plan_of(path, EARLIER[name])
    new = written(tmp_path, planned_model(model, plan), "new.tflite")
    given = np.random.default_rng(2).normal(size=(1, 8, 8, 4)).astype(np.float32)
    expected, before = run_micro(path, given, capfd)
    found, after = run_micro(new, given, capfd)
    assert len(found) == 2 and all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert all(np.ptp(one) > 0 for one in found)
    assert after == plan.arenas[0]
    peak = simulate(graph, [graph.position_of(step.node) for step in plan.steps]).peak
    assert name != "skipping" or (plan.arenas[0] == peak and after < before)  # it is for this that one computes again


def runs_of_micro(path, runs, capfd):
    """Outputs of runs one after the other, each of some inputs, and the bytes that the arena has for tensors."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter, found = runtime.Interpreter.from_file(str(path), arena_size=2**20), []
    for given in runs:
        for at, each in enumerate(given):
            interpreter.set_input(each, at)
        interpreter.invoke()
        found.append(interpreter.get_output(0).copy())
    capfd.readouterr()
    interpreter.print_allocations()
    return found, int(re.search(r"head (\d+) bytes", "".join(capfd.readouterr()))[1])


@pytest.mark.parametrize("model", [streaming, choosing, dequantizing])
def test_state_and_choices_are_kept_in_the_arena_of_the_plan(model, tmp_path, capfd):
    path, new, random = written(tmp_path, model()), tmp_path / "new.tflite", np.random.default_rng(4)
    graph = import_tflite(path)
    found = solve(graph, 1.0, order="free", addresses=True, alignment=16, time_limit=5)
    assert found.status == "optimal"
    new.write_bytes(planned_model(read_model(path), planned(found.details)))
    runs = [[random.normal(size=(1, 8, 8, 4)).astype(np.float32)] for _ in range(3)]
    if model is choosing:
        runs = [[*given, np.array([at % 2 == 0])] for at, given in enumerate(runs)]
    expected, before = runs_of_micro(path, runs, capfd)
    outputs, after = runs_of_micro(new, runs, capfd)
    assert all(np.array_equal(one, other) for one, other in zip(outputs, expected, strict=True))
    assert not np.array_equal(expected[0], expected[1])
    assert after == -(-found.arena // 16) * 16 <= before  # sizes are rounded up


@pytest.mark.parametrize("name", MODELS)
def test_lite_computes_the_same(name, tmp_path):
    path = written(tmp_path, MODELS[name]())
    model, _, plan = plan_of(path, EARLIER[name])
    new = written(tmp_path, planned_model(model, plan), "new.tflite")
    given = np.random.default_rng(3).normal(size=(1, 8, 8, 4)).astype(np.float32)
    pairs = zip(run_lite(path, given), run_lite(new, given), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(("model", "budget"), [(joining, 1.0), (joining_inputs, 1.0), (joining_twice, 23 * 1024)])
def test_concatenations_that_copy_nothing_take_no_memory(model, budget, tmp_path, capfd):
    """What is joined lies where the output is: TFLite Micro computes the same in a smaller arena, the plan's."""
    path, new = written(tmp_path, model()), tmp_path / "new.tflite"
    copying = zero_copy_concat(import_tflite(path), 16)
    given = np.random.default_rng(5).normal(size=(1, 8, 8, 4)).astype(np.float32)
    expected, before = run_micro(path, given, capfd)
    how = {"addresses": True, "alignment": 16, "time_limit": 5}
    plain = solve(copying.original, budget, **how)
    found = solve(copying.original, budget, zero_copy_concat=True, **how)
    assert found.valid and copying.taken_out
    taken_out = {copying.original.nodes[v] for v in copying.taken_out}
    new.write_bytes(planned_model(read_model(path), planned(found.details), taken_out))
    outputs, after = run_micro(new, given, capfd)
    assert len(outputs) == len(expected) and all(
        np.array_equal(one, other) and np.ptp(one) > 0 for one, other in zip(outputs, expected, strict=True)
    )
    assert after == -(-found.arena // 16) * 16 < before
    assert plain.status == "infeasible" if budget != 1.0 else plain.arena > found.arena
    former, (made, offsets) = read_model(path), offsets_in(new)
    operators, tensors = made.subgraphs[0].operators, made.subgraphs[0].tensors
    names = {former.subgraphs[0].tensors[former.subgraphs[0].operators[at].outputs[0]].name for at in taken_out}
    joins = [of for of in operators if tensors[of.outputs[0]].name.split(b"#")[0] in names]
    assert len(joins) >= len(taken_out) and {operator_name(made, of) for of in joins} == {"CONCATENATION"}
    assert all(offsets[of.outputs[0]] == offsets[of.inputs[0]] for of in joins)
    again = len(operators) - len(former.subgraphs[0].operators)
    assert again == (3 if model is joining_twice else 0)  # both halves, and what joins them
    lite = zip(run_lite(path, given), run_lite(new, given), strict=True)
    assert all(np.array_equal(one, other) for one, other in lite)


def test_concatenations_that_change_numbers_stay():
    net = Builder()
    left, right = net.convolution("left", net.input, 4), net.convolution("right", net.input, 4)
    net.graph.outputs = [net.convolution("last", net.joined("both", [left, right]), 4)]
    assert zero_copy_concat(graph_of(net.model), 16).taken_out == {3: (1, 2)}
    options = net.graph.operators[2].builtinOptions
    options.fusedActivationFunction = net.s.ActivationFunctionType.RELU
    assert zero_copy_concat(graph_of(net.model)).kept == {3: "it is not known to leave numbers as they are"}
    options.fusedActivationFunction = 0
    for x, scale in ((left, 0.5), (right, 0.5), (net.graph.operators[2].outputs[0], 0.25)):
        net.graph.tensors[x].quantization = of = net.s.QuantizationParametersT()
        of.scale, of.zeroPoint = [scale], [0]
    assert zero_copy_concat(graph_of(net.model)).kept
    net.graph.tensors[net.graph.operators[2].outputs[0]].quantization.scale = [0.5]
    assert zero_copy_concat(graph_of(net.model)).taken_out


def test_deploy_tflite_without_copies(command, tmp_path, capfd):
    model, new, plan = written(tmp_path, joining()), tmp_path / "new.tflite", tmp_path / "plan.json"
    graph = tmp_path / "graph.json"
    status, out, err = command("deploy", "tflite", model, "--budget", "20KiB", "--zero-copy-concat", "-o", new, *QUICK)
    assert status == 0 and "2 of 3 concatenations taken out" in err and "0 operators recomputed" in out
    given = np.random.default_rng(6).normal(size=(1, 8, 8, 4)).astype(np.float32)
    expected, before = run_micro(model, given, capfd)
    found, after = run_micro(new, given, capfd)
    assert after < before and all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert command("import", "tflite", model, "-o", graph)[0] == 0
    question = ("--budget", "20KiB", "--zero-copy-concat", "--addresses", "--alignment", 16)
    assert command("solve", graph, *question, *QUICK, "-o", plan)[0] == 0
    assert command("validate", graph, plan, "--zero-copy-concat")[0] == 0
    assert command("deploy", "tflite", model, plan, "--zero-copy-concat", "-o", new)[0] == 0
    assert run_micro(new, given, capfd)[1] < before
    status, _, err = command("deploy", "tflite", model, plan, "-o", new)
    assert status == 2 and "the plan was made with --zero-copy-concat (alignment 16), this graph without" in err
    tiled = ("--budget", "20KiB", "--zero-copy-concat", "--tile", 2)
    status, _, err = command("deploy", "tflite", model, *tiled, "-o", new)
    assert status == 2 and "leave out --zero-copy-concat or --tile" in err


def test_a_plan_has_the_alignment_that_concatenations_are_taken_out_for(command, tmp_path):
    """Of 1,024 bytes none is followed at multiples of 48; at those of 1 and of 32 all are."""
    model, plan, graph = written(tmp_path, joining()), tmp_path / "plan.json", tmp_path / "graph.json"
    new = ("-o", tmp_path / "new.tflite")
    assert command("import", "tflite", model, "-o", graph)[0] == 0
    copying = ("solve", graph, "--budget", "40KiB", *QUICK, "-o", plan)
    for options, more in (((), ()), (("--addresses", "--alignment", 32), ()), (("--addresses", "--alignment", 48), ()),
                          (("--addresses", "--alignment", 32), ("--alignment", 64))):  # fmt: skip
        status, _, err = command(*copying, "--zero-copy-concat", *options)
        assert status == 0 and f"{0 if 48 in options else 2} of 3 concatenations taken out" in err
        status, _, err = command("validate", graph, plan, "--zero-copy-concat")
        assert status == 0
        status, _, err = command("deploy", "tflite", model, plan, "--zero-copy-concat", *more, *new)
        assert status == 0 and f"{0 if 48 in options else 2} of 3 concatenations taken out" in err
    status, _, err = command("deploy", "tflite", model, plan, "--zero-copy-concat", "--alignment", 48, *new)
    assert status == 2 and "alignment 48: " in err and "which is no multiple of it" in err
    assert command(*copying)[0] == 0
    status, _, err = command("deploy", "tflite", model, plan, "--zero-copy-concat", *new)
    assert status == 2 and "the plan was made without --zero-copy-concat, this graph with" in err


def test_micro_follows_the_offsets(tmp_path, capfd):
    """With offsets that overlap it computes something else: that it computes the same is not for want of following."""
    path = written(tmp_path, skipping())
    model, _, plan = plan_of(path, EARLIER["skipping"])
    data = planned_model(model, plan)
    new = written(tmp_path, data, "new.tflite")
    given = np.random.default_rng(2).normal(size=(1, 8, 8, 4)).astype(np.float32)
    expected, _ = run_micro(new, given, capfd)
    _, offsets = offsets_in(new)
    told = np.array(offsets, "<i4").tobytes()
    assert data.count(told) == 1
    wrong = np.array([min(offset, 16) for offset in offsets], "<i4").tobytes()
    found, _ = run_micro(written(tmp_path, data.replace(told, wrong), "wrong.tflite"), given, capfd)
    assert not all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_model_as_a_graph(tmp_path):
    graph = import_tflite(written(tmp_path, skipping()))
    pixels = 64
    assert graph.nodes == (INPUT, 0, 1, 2, 3, "3.1", 4, 5, 6, RESULTS) and graph.name == "model"
    assert graph.labels[:2] == (INPUT, "CONV_2D 0") and graph.labels[4:6] == ("SPLIT 3", "SPLIT 3.1")
    assert graph.output_of == (None,) * 5 + (4,) + (None,) * 4 and graph.computed_once == (0,)
    told = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (5, 6), (6, 7), (1, 8), (7, 8), (2, 9), (8, 9))
    assert set(graph.edges) == {*told, (3, 5), (4, 5)}
    assert graph.sizes == tuple(4 * pixels * channels for channels in (4, 24, 4, 40, 20, 20, 20, 24, 24, 0))
    assert graph.durations[1:4] == (pixels * 24 * 4, pixels * 4 * 9 * 24, pixels * 40 * 9 * 4)
    weights = 4 * (24 * 5 + 4 * (9 * 24 + 1) + 40 * 37 + 24 * (9 * 20 + 1)) + 4
    assert graph.fixed_memory == {"parameters": weights}
    caller = import_tflite(written(tmp_path, skipping()), inputs_in_arena=False)
    assert caller.nodes == graph.nodes[1:] and caller.fixed_memory == {"inputs": 4 * pixels * 4, "parameters": weights}


def half_precision():
    """As `skipping`, but with filters in half precision."""
    net = Builder()
    first = net.convolution("first", net.input, 24, kernel=1)
    wide = net.convolution("wide", net.convolution("small", first, 4), 40)
    left, right = net.halves("halves", wide)
    out = net.add("sum", first, net.convolution("back", net.add("both", left, right), 24))
    net.halved()
    return net.packed(out)


def test_weights_that_are_unpacked_once_are_parameters(tmp_path):
    path = written(tmp_path, half_precision())
    graph, pixels = import_tflite(path), 64
    assert graph.nodes == (INPUT, 4, 5, 6, 7, "7.1", 8, 9, 10, RESULTS) and "DEQUANTIZE 0" not in graph.labels
    filters = 24 * 4 + 4 * 9 * 24 + 40 * 9 * 4 + 24 * 9 * 20
    assert graph.fixed_memory["parameters"] == filters * (4 + 2) + 4 * (24 + 4 + 40 + 24) + 4
    peak = simulate(graph, graph.input_order()).peak
    assert peak == 4 * pixels * (24 + 40 + 40)  # the first is held past the widest and its halves
    model, _, plan = plan_of(path, (INPUT, 4, 5, 6, 7, "7.1", 8, 9, 4, 10, RESULTS))
    new = written(tmp_path, planned_model(model, plan), "new.tflite")
    model, offsets = offsets_in(new)
    assert len(model.subgraphs[0].operators) == 12
    assert all(offsets[int(x)] == -1 for operator in model.subgraphs[0].operators[:4] for x in operator.outputs)
    given = np.random.default_rng(3).normal(size=(1, 8, 8, 4)).astype(np.float32)
    pairs = zip(run_lite(path, given), run_lite(new, given), strict=True)
    assert all(np.array_equal(one, other) and np.ptp(one) > 0 for one, other in pairs)


def test_what_copies_costs_its_bytes():
    net = Builder()
    left, right = net.halves("halves", net.convolution("first", net.input, 4))
    net.graph.outputs = [net.add("sum", left, right)]
    pixels = 64
    assert graph_of(net.model).durations == (0, pixels * 4 * 9 * 4, 4 * pixels * 4, 0, pixels * 2, 0)


def test_what_depends_on_chance_is_computed_once():
    net = Builder()
    x = net.convolution("first", net.input, 4)
    net.graph.outputs = [net.add("sum", x, x)]
    assert graph_of(net.model).computed_once == (0,)
    code = net.model.operatorCodes[1]
    code.builtinCode = code.deprecatedBuiltinCode = net.s.BuiltinOperator.RANDOM_UNIFORM
    assert graph_of(net.model).computed_once == (0, 2)


def test_tflite_commands_import_and_deploy(command, tmp_path, capfd):
    model = written(tmp_path, skipping())
    graph, plan, new = (tmp_path / name for name in ("graph.json", "plan.json", "new.tflite"))
    assert command("import", "tflite", model, "-o", graph)[0] == 0
    question = ("--budget", "22KiB", "--addresses", "--alignment", 16)
    assert command("solve", graph, *question, *QUICK, "--output", plan)[0] == 0
    status, out, _ = command("deploy", "tflite", model, plan, "-o", new)
    assert status == 0 and "1 operator recomputed" in out and len(offsets_in(new)[0].subgraphs[0].operators) == 8
    status, out, _ = command(
        "deploy", "tflite", model, "--budget", "22KiB", "--budget-for", "tensors", "-o", new, *QUICK
    )
    assert status == 0 and "1 operator recomputed" in out
    other, damaged = written(tmp_path, two_results(), "other.tflite"), written(tmp_path, skipping()[:300], "cut.tflite")
    for arguments, message in (
        ((model, "-o", new), "expected a plan, or --budget"),
        ((model, plan, "--budget", "1KiB", "-o", new), "expected a plan, or --budget"),
        ((model, plan, "--alignment", 8, "-o", new), "--alignment 8: TFLite Micro wants multiples of 16"),
        ((other, plan, "-o", new), "plan of the graph"),
        ((graph, plan, "-o", new), "is no TFLite model"),
        ((damaged, plan, "-o", new), "damaged"),
        ((model, plan, "-o", model), "is the model, and would be lost"),
    ):
        before = new.read_bytes()
        status, _, err = command("deploy", "tflite", *arguments)
        assert status == 2 and message in err and len(err.splitlines()) == 1 and new.read_bytes() == before, err
    for tensors in ((), ("--budget-for", "tensors")):
        status, out, err = command("deploy", "tflite", model, "--budget", "1KiB", *tensors, "-o", new, *QUICK)
        assert (status, out, err.splitlines()[-1].startswith("no schedule: ")) == (1, "", True)
        assert len(err.splitlines()) == (1 if tensors else 3)
    assert new.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda net: net.model.subgraphs.append(net.s.SubGraphT()),
            "2 subgraphs, of which the operators of the first run 0",
        ),
        (lambda net: setattr(net.graph.tensors[0], "isVariable", True), "a model with state"),
        (lambda net: setattr(net.graph.tensors[3], "type", net.s.TensorType.STRING), r"tensor 3 .*no size is known"),
        (lambda net: setattr(net.graph.operators[0], "inputs", [0, 1, 99]), "damaged"),
        (
            lambda net: setattr(net.graph.tensors[1], "buffer", 0),
            r"tensor 1 \('only/w'\), read by operator 0, CONV_2D, has no data, and no operator puts it out",
        ),
        (
            lambda net: setattr(net.graph.operators[0], "outputs", [net._tensor("other", (1, 8, 8, 4))]),
            r"tensor 3 \('only'\), read by the network as its output, has no data",
        ),
    ],
)
def test_what_cannot_be_scheduled_is_refused(change, message, tmp_path):
    net = Builder()
    x = net.convolution("only", net.input, 4)
    change(net)
    with pytest.raises(InputError, match=message) as caught:
        import_tflite(written(tmp_path, net.packed(x)))
    assert "model.tflite" in str(caught.value)


def test_inputs_that_an_operator_need_not_have_and_constants_without_elements(tmp_path):
    net = Builder()
    x = net.convolution("first", net.input, 4)
    net.graph.operators[0].inputs[2] = -1
    y = net.add("sum", x, net._tensor("nothing", (0,)))
    assert import_tflite(written(tmp_path, net.packed(y))).nodes == (INPUT, 0, 1, RESULTS)


def test_messages_on_a_model_name_its_file(command, tmp_path):
    net = Builder()
    x = net.add("sum", net.input, net._tensor("from nowhere", (1, 8, 8, 4)))
    path = written(tmp_path, net.packed(x))
    for kind in ("tflite", "c"):
        status, out, err = command("deploy", kind, path, "--budget", "1.0", "-o", tmp_path / "new")
        assert (status, out, len(err.splitlines())) == (2, "", 1) and "model.tflite: tensor 1 ('from nowhere')" in err


def signature_of(subgraph, at):
    found = schema().SignatureDefT()
    found.subgraphIndex, found.signatureKey = at, f"signature {at}"
    for side in ("inputs", "outputs"):
        named = [schema().TensorMapT() for _ in getattr(subgraph, side)]
        for each, x in zip(named, getattr(subgraph, side), strict=True):
            each.name, each.tensorIndex = f"{side} {x}", int(x)
        setattr(found, side, named)
    return found


def test_only_signatures_of_the_subgraph_whose_tensors_are_numbered_anew_change(command, tmp_path):
    model, new = read_model(written(tmp_path, choosing())), tmp_path / "new.tflite"
    model.signatureDefs = [signature_of(subgraph, at) for at, subgraph in enumerate(model.subgraphs)]
    first = model.subgraphs[0].operators[0]
    first.inputs = [*first.inputs[:2], -1]  # nobody reads the bias: it is dropped
    path = written(tmp_path, packed(model))
    assert command("deploy", "tflite", path, "--budget", "40KiB", "--tile", 4, "-o", new, *QUICK)[0] == 0
    made = read_model(new)
    assert len(made.subgraphs[0].tensors) < len(model.subgraphs[0].tensors) and len(made.signatureDefs) == 3
    for of, subgraph in zip(made.signatureDefs, made.subgraphs, strict=True):
        assert [each.tensorIndex for each in of.inputs] == [*subgraph.inputs]
        assert [each.tensorIndex for each in of.outputs] == [*subgraph.outputs]


def test_only_signatures_of_the_subgraph_that_is_planned_have_what_is_recomputed(tmp_path):
    model, _, plan = plan_of(written(tmp_path, two_results()), (INPUT, 0, 1, 2, 3, 4, 0, RESULTS))
    (subgraph,) = model.subgraphs
    model.signatureDefs = [signature_of(subgraph, at) for at in range(2)]
    before = [int(x) for x in subgraph.outputs]
    path = written(tmp_path, planned_model(model, plan), "new.tflite")
    made = schema().ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    own, other = ([each.tensorIndex for each in of.outputs] for of in made.signatureDefs)
    assert own == [*made.subgraphs[0].outputs] != before and other == before


@pytest.mark.parametrize("tile", [(), ("--tile", "auto"), ("--tile", 4)])
def test_budgets_are_multiples_of_16(tile, command, tmp_path):
    """A peak that is none is rounded up, and an amount down: what that excludes is no schedule, and no error."""
    tile = ("--budget-for", "tensors", *tile)
    path, new = written(tmp_path, choosing()), tmp_path / "new.tflite"
    graph = import_tflite(path)
    assert simulate(graph, graph.input_order()).peak == 13 * 1024 + 1
    for budget, status in (("1.0", 0), (13 * 1024 + 16, 0), (13 * 1024 + 15, 1), (13 * 1024 + 1, 1), (15, 1)):
        found, out, err = command("deploy", "tflite", path, "--budget", budget, *tile, "-o", new, *QUICK)
        assert found == status and (f"arena {13 * 1024 + 16:,} bytes" in out) == (status == 0)
        assert status == 0 or (err.splitlines()[-1].startswith("no schedule: ") and "warm start" not in err)
        used = {"1.0": 13 * 1024 + 16, 15: 0}.get(budget, 13 * 1024)
        assert (f"budget: {used:,} bytes, as an arena takes a multiple of 16\n" in err) == (budget != 13 * 1024 + 16)
    status, out, _ = command("deploy", "tflite", path, "--budget", "1.0", *tile, "--count-fixed", "-o", new, *QUICK)
    assert status == 0 and f"arena {13 * 1024 + 16:,} bytes" in out


def test_results_come_last(tmp_path):
    path = written(tmp_path, two_results())
    model, _, plan = plan_of(path, (INPUT, 0, 1, 2, 3, 4, RESULTS, 0))
    with pytest.raises(InputError, match="the results are not the last of 8 steps"):
        planned_model(model, plan)
