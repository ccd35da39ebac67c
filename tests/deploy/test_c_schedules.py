"""Random networks with branches, cut anywhere, in random schedules with recomputation: C puts out the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ai_edge_litert")

import c_programs
import int8_networks

from moccasin_mzn.deploy.c.program import program_of
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

pytestmark = pytest.mark.skipif(c_programs.compiler is None, reason="no C compiler")
FEW, MANY = 3, 60
"""Random networks, by default and in all."""


def random_network(random: np.random.Generator) -> bytes:
    """Some layers, each of one or two of those before; the last two are outputs."""
    net = int8_networks.Builder(int(random.integers(2**31)), 1, *map(int, random.integers(5, 12, 2)), 3)
    made = [net.input]
    for _ in range(int(random.integers(3, 8))):
        x = made[int(random.integers(max(0, len(made) - 3), len(made)))]
        alike = [y for y in made if y != x and net.shape(y) == net.shape(x)]
        kind = int(random.integers(6))
        if kind == 0 and alike:
            made.append(net.add(x, alike[int(random.integers(len(alike)))], "RELU" if random.integers(2) else "NONE"))
        elif kind == 1 and alike:
            y = alike[0]
            z = net.operator("QUANTIZE", (y,), net.tensor(net.shape(y), net.scale(x), zero_of(net, x)))
            out = net.tensor([*net.shape(x)[:3], net.shape(x)[3] + net.shape(z)[3]], net.scale(x), zero_of(net, x))
            made.append(net.operator("CONCATENATION", (x, z), out, "ConcatenationOptions", axis=3))
        elif kind == 2:
            made.append(net.convolution(x, net.shape(x)[3], 3, int(random.integers(1, 3)), deep=True))
        else:
            size, stride = int(random.integers(1, 4)), int(random.integers(1, 3))
            made.append(
                net.convolution(x, int(random.integers(2, 7)), size, stride, relu="NONE" if kind == 3 else "RELU")
            )
    last = net.dense(net.reshaped(net.mean(made[-1]), 1, net.shape(made[-1])[3]), 5)
    return net.packed(*((last, made[-1]) if random.integers(2) else (last,)))


def zero_of(net: int8_networks.Builder, x: int) -> int:
    return int(net.graph.tensors[x].quantization.zeroPoint[0])


def judge(seed: int, folder) -> None:
    random = np.random.default_rng(seed)
    net = c_programs.network(random_network(random), folder)
    graph = net.cut(net.graph, c_programs.random_cuts(net, random))
    sequence = list(graph.input_order())
    for _ in range(int(random.integers(0, 6))):  # what is there is computed once more, wherever that is
        at = int(random.integers(1, len(sequence)))
        sequence.insert(at, sequence[int(random.integers(at))])
    plan = placed(RuntimePlan.of(graph, plan_of_sequence(sequence)), int(random.integers(1, 5)), Effort(0.1))
    program = program_of(net, graph, plan)
    found = c_programs.run(program, folder, sets=2, seed=seed)
    assert found == f"2 of 2 outputs are equal, arena {max(1, program.arena)} bytes\n"


@settings(max_examples=FEW)
@given(seed=st.integers(0, 2**32))
def test_schedules_of_parts_put_out_the_same(seed, tmp_path_factory):
    judge(seed, tmp_path_factory.mktemp("c"))


@pytest.mark.full
@settings(max_examples=MANY)
@given(seed=st.integers(0, 2**32))
def test_many_schedules_of_parts_put_out_the_same(seed, tmp_path_factory):
    judge(seed, tmp_path_factory.mktemp("c"))
