"""Sizes of the traced graph and measured workspaces tell what a run of the traced program takes at the allocator."""

from __future__ import annotations

import pytest
import torch
from execution_nets import NETS
from torch import fx

from moccasin_mzn.graphs.importers.torch import graph as torch_module
from moccasin_mzn.graphs.importers.torch import trace as torch_trace
from moccasin_mzn.graphs.importers.torch.graph import real_tensor
from moccasin_mzn.graphs.importers.torch.memory import STATE
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch.measuring import allocator_peak, storage_peak
from moccasin_mzn.pytorch.operator_costs import measure_operators

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")
WEIGHT = 4
"""Bytes of the cross entropy's second output, which the graph holds as long as the loss; a run frees it earlier."""


def network(name):
    """Makes one, for the importer: `test_run_of_a_trace:resnet`."""
    torch.manual_seed(0)
    return NETS[name].make(True)


def mlp():
    return network("mlp")


def resnet():
    return network("resnet")


def llama():
    return network("llama")


def spelled(tensor):
    return "x".join(map(str, tensor.shape)) + (":int64" if tensor.dtype == torch.int64 else "")


@pytest.mark.parametrize("make", [mlp, resnet, llama])
def test_the_input_order_takes_what_a_run_takes(make):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        inputs = [spelled(tensor) for tensor in NETS[make.__name__].data(True)]
        trace = torch_trace.trace_network(f"{__file__}:{make.__name__}", inputs, training=True)
        graph = torch_module.graph_of(trace)
        order = graph.input_order()
        held = simulate(graph, order).memory
        with torch.no_grad():
            costs = measure_operators(trace.graph_module.graph.nodes, trace.members, repeats=1)
            workspaces = [costs[graph.nodes[v]].workspace if graph.nodes[v] in costs else 0 for v in order]
            tensors = [
                real_tensor(node.meta["val"], STATE)
                for node in trace.graph_module.graph.nodes
                if node.op == "placeholder"
            ]

            def run():
                return fx.Interpreter(trace.graph_module).run(*tensors)

            run()
            assert max(held) - WEIGHT == storage_peak(run)
            together = max(map(sum, zip(held, workspaces, strict=True)))
            assert together - WEIGHT == allocator_peak(run)
    finally:
        torch.set_num_threads(before)
