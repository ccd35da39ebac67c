"""Networks as C without copies of what is joined: outputs are those of LiteRT's reference kernels, with sanitizers."""

from __future__ import annotations

import c_programs
import int8_networks
import pytest

from moccasin_mzn.deploy.c.program import program_of
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.graphs.zero_copy import zero_copy_concat
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")


def joined_rows() -> bytes:
    """Rows of three layers joined, two of them before, and read twice; channels of two others, which alternate."""
    net = int8_networks.Builder(3, 1, 6, 8, 3)

    def join(parts: list[int], axis: int) -> int:
        shape = net.shape(parts[0])
        shape[axis] = sum(net.shape(x)[axis] for x in parts)
        scale, zero = net.scale(parts[0]), int(net.graph.tensors[parts[0]].quantization.zeroPoint[0])
        for x in parts:  # all are quantized as the output is
            net.graph.tensors[x].quantization.scale = [scale]
            net.graph.tensors[x].quantization.zeroPoint = [zero]
        return net.operator("CONCATENATION", parts, net.tensor(shape, scale, zero), "ConcatenationOptions", axis=axis)

    left, right, third = (net.convolution(net.input, 8, 3) for _ in range(3))
    both = join([left, right], 1)
    three = join([both, third], 1)
    early, late = net.convolution(three, 2), net.convolution(three, 2, 3)
    middle = net.convolution(net.convolution(early, 4, 3), 2)
    return net.packed(net.convolution(join([middle, late], 3), 2))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return c_programs.network(joined_rows(), tmp_path_factory.mktemp("joined"))


def program(network, sequence=None):
    """The program without concatenations; in the order of the model, or of ids."""
    found = zero_copy_concat(network.graph)
    graph, nodes = found.graph, found.original.nodes
    taken_out = {nodes[v]: tuple(nodes[u] for u in leaves) for v, leaves in found.taken_out.items()}
    positions = graph.input_order() if sequence is None else [graph.position_of(node) for node in sequence]
    plan = RuntimePlan.of(graph, plan_of_sequence(positions))
    return found, program_of(network, graph, placed(plan, 1, Effort(0.5)), taken_out)


def test_what_is_joined_is_read_where_it_lies(network, tmp_path):
    found, made = program(network)
    assert {len(leaves) for leaves in found.taken_out.values()} == {2, 3} and len(found.kept) == 1
    whole = c_programs.in_order(network)
    assert made.arena < whole.arena and len(made.calls) == len(whole.calls) - 2
    assert c_programs.run(made, tmp_path, sets=10) == f"10 of 10 outputs are equal, arena {made.arena} bytes\n"


def test_what_is_joined_may_be_recomputed(network, tmp_path):
    """Between its readers: then its inputs are side by side again, elsewhere perhaps."""
    graph = zero_copy_concat(network.graph).graph
    ids = [graph.nodes[v] for v in graph.input_order()]
    joined = {u for row in graph.adjacent for group in row for u in group}
    again = [graph.nodes[u] for u in sorted(joined)]
    late = [v for v, row in enumerate(graph.adjacent) if row][-1]
    at = ids.index(graph.nodes[late])
    found, made = program(network, [*ids[:at], *again, *ids[at:]])
    assert len(made.calls) == len(program(network)[1].calls) + len(again)
    assert c_programs.run(made, tmp_path, sets=5) == f"5 of 5 outputs are equal, arena {made.arena} bytes\n"


def test_deploy_c_without_copies(command, tmp_path):
    model, folder = tmp_path / "model.tflite", tmp_path / "c"
    model.write_bytes(joined_rows())
    status, out, err = command("deploy", "c", model, "--zero-copy-concat", "-o", folder, "--time-limit", 1)
    assert status == 0 and "2 of 3 concatenations taken out" in err and "arena" in out
    quick = ("--budget", "100%", "--time-limit", 2, "--threads", 1, "--search", "only")
    assert command("deploy", "c", model, "--zero-copy-concat", "-o", folder, *quick)[0] == 0
    status, _, err = command("deploy", "c", model, "--zero-copy-concat", "-o", folder, *quick, "--tile", 2)
    assert status == 2 and "leave out --zero-copy-concat or --tile" in err
