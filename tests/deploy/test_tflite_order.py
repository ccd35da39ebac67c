"""TFLite models with operators that depend on more than what they read: inputs come first, and variables keep order."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from tflite_models import Builder, Stateful, choosing, dequantizing, streaming
from tflite_plans import INPUT, offsets_in, plan_along, taken, written

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.source import planned
from moccasin_mzn.deploy.tflite_model import planned_model
from moccasin_mzn.graphs.importers.tflite import INPUTS, RESULTS, graph_of, import_tflite, read_model, schema


@pytest.mark.parametrize("model", [dequantizing, streaming])
def test_inputs_are_there_before_operators_that_read_none(model, tmp_path):
    path, new = written(tmp_path, model()), tmp_path / "new.tflite"
    graph = import_tflite(path)
    given, first = graph.position_of(INPUTS), graph.position_of(0)
    assert (given, graph.sizes[given], graph.predecessors[given]) == (1, 0, (0,)) and given in graph.computed_once
    assert all(graph.predecessors[v] for v in range(1, len(graph.nodes))) and given in graph.predecessors[first]
    assert graph.working_sets[given] == graph.sizes[0] and 2 in graph.successors[given]
    found = solve(graph, 1.0, order="free", addresses=True, alignment=16, time_limit=5)
    assert found.status == "optimal"
    new.write_bytes(planned_model(read_model(path), planned(found.details)))
    assert taken(*offsets_in(new)) == found.arena
    caller = import_tflite(path, inputs_in_arena=False)
    assert caller.nodes == (*graph.nodes[2:],) and first - 2 == caller.position_of(0)


def test_no_budget_makes_room_where_the_input_is(tmp_path):
    """Unpacked before the input was written, the constant would need no more than 9 KiB."""
    graph = import_tflite(written(tmp_path, dequantizing()))
    assert solve(graph, 10 * 1024, order="free", addresses=True, alignment=16, time_limit=5).status == "optimal"
    assert solve(graph, 9 * 1024, order="free", addresses=True, alignment=16, time_limit=5).status == "infeasible"


def test_plans_in_which_inputs_come_late_are_refused(tmp_path):
    path = written(tmp_path, dequantizing())
    model, graph = read_model(path), import_tflite(path)
    given = graph.position_of(INPUTS)
    loose = replace(graph, edges=[edge for edge in graph.edges if edge[0] != given])
    ids = (0, 1, INPUT, INPUTS, 2, 3, RESULTS)
    with pytest.raises(InputError, match="input 0 comes after operator 1: inputs are written before a network runs"):
        planned_model(model, plan_along(loose, ids))


def test_variables_are_read_and_assigned_once_and_in_their_order(tmp_path):
    graph = import_tflite(written(tmp_path, streaming()))
    of = {label.split()[0]: v for v, label in enumerate(graph.labels)}
    assert {of[name] for name in ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")} < {
        *graph.computed_once
    }
    assert {(of["CALL_ONCE"], of["READ_VARIABLE"]), (of["ASSIGN_VARIABLE"], of[RESULTS])} < {*graph.edges}
    with pytest.raises(InputError, match="operator 4 assigns a variable that operator 2 reads before, and what it"):
        import_tflite(written(tmp_path, streaming(dependent=False)))


def test_variables_are_known_by_their_names_whatever_handle_is_read(tmp_path):
    """Assigned by one handle and read by another: in this order. Of another variable nothing is known to be kept."""
    net = Stateful()
    net.assign(net.handle(), net.convolution("first", net.input, 4))
    result = net.add("sum", net.read(net.handle()), net.input)
    graph = import_tflite(written(tmp_path, net.packed(result)))
    assign, read = graph.position_of(3), graph.position_of(5)
    assert {(assign, read), (graph.position_of(0), read), (graph.position_of(0), assign)} < {*graph.edges}
    net = Stateful()
    before = net.read(net.handle())
    net.assign(net.handle(), layer := net.convolution("first", net.input, 4))
    result = net.add("sum", before, layer)
    path = written(tmp_path, net.packed(result))
    with pytest.raises(InputError, match="operator 5 assigns a variable that operator 2 reads before, and what it"):
        import_tflite(path)
    net = Stateful()
    before = net.read(net.handle())
    net.assign(net.handle("other"), layer := net.convolution("first", net.input, 4))
    graph = import_tflite(written(tmp_path, net.packed(net.add("sum", before, layer))))
    assert (graph.position_of(2), graph.position_of(5)) not in graph.edges


def with_state_inside(outside=False):
    """Two subgraphs add the input to a variable; which of them runs, is an input.

    Args:
        outside: the variable is also read outside of them.
    """
    net = Stateful()
    yes = net._tensor("yes", (1,), net.s.TensorType.BOOL)
    net.graph.inputs = [net.input, yes]
    given = net.add("given", net.input, net.read(net.handle())) if outside else net.input
    chosen = net.either("chosen", [yes, given], 2, 3)
    late = net.convolution("last", net.convolution("wide", chosen, 40), 4)
    main = net.add("sum", chosen, late)
    begin = net.packed(main)  # adds the subgraph that comes first
    assert len(net.model.subgraphs) == 2 and begin
    for name in ("then", "else"):
        with net.subgraph(name):
            net.graph.inputs = [x := net._tensor(f"{name}/input", net.shape)]
            handle = net.handle()
            net.graph.outputs = [total := net.add("total", net.read(handle), x)]
            net.assign(handle, total)
    return Builder.packed(net, main)


def test_what_runs_subgraphs_with_state_is_computed_once(tmp_path):
    path = written(tmp_path, with_state_inside())
    graph, model = import_tflite(path), read_model(path)
    once = graph.position_of(1)
    assert graph.labels[once] == "IF 1" and once in graph.computed_once and (graph.position_of(0), once) in graph.edges
    ids = (INPUT, "input 1", INPUTS, 0, 1, 2, 3, 1, 4, RESULTS)
    loose = replace(graph, computed_once=())
    with pytest.raises(InputError, match="operator 1 depends on chance or on state, and is recomputed"):
        planned_model(model, plan_along(loose, ids))
    path = written(tmp_path, with_state_inside(outside=True))
    with pytest.raises(InputError, match="operator 4, IF, has variables in its subgraphs, and operator 2, READ_VARIAB"):
        import_tflite(path)


def test_what_runs_subgraphs_with_chance_is_computed_once(tmp_path):
    data = choosing()
    graph = import_tflite(written(tmp_path, data))
    assert graph.position_of(1) not in graph.computed_once
    model = read_model(written(tmp_path, data))
    code = copy(model.operatorCodes[0])
    code.builtinCode = code.deprecatedBuiltinCode = schema().BuiltinOperator.RANDOM_UNIFORM
    model.operatorCodes.append(code)
    model.subgraphs[2].operators[0].opcodeIndex = len(model.operatorCodes) - 1
    graph = graph_of(model)
    assert graph.labels[graph.position_of(1)] == "IF 1" and graph.position_of(1) in graph.computed_once


def test_variables_without_a_handle_are_refused(command, tmp_path):
    for given in (True, False):
        net = Stateful()
        kind = net.s.TensorType.RESOURCE
        handle = net._tensor("given", (), kind) if given else net._constant("constant", np.zeros(1))
        net.graph.inputs += [handle] if given else []
        path = written(tmp_path, net.packed(net.add("sum", net.read(handle), net.input)))
        for where in ("arena", "caller"):
            status, out, err = command("import", "tflite", path, "--inputs", where)
            assert (status, out, len(err.splitlines())) == (2, "", 1)
            assert "model.tflite: operator 1, READ_VARIABLE: no VAR_HANDLE puts out what it reads" in err
