"""A folder of C for a network: its plan, its files, and a test with what LiteRT's reference kernels output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from moccasin_mzn.deploy.c.network import Network
from moccasin_mzn.deploy.c.program import Program
from moccasin_mzn.deploy.c.reference import run
from moccasin_mzn.deploy.c.tensors import Tensor
from moccasin_mzn.deploy.c.writing import PREFIX, makefile, sources, test_program
from moccasin_mzn.deploy.source import placed
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.runtime_plan import RuntimePlan
from moccasin_mzn.search.options import Effort

if TYPE_CHECKING:
    from numpy import ndarray


def plan_in_order(graph: ComputationGraph, alignment: int, effort: Effort) -> RuntimePlan:
    """The plan that computes all once in the order of the model, in an arena as small as a search finds."""
    return placed(RuntimePlan.of(graph, plan_of_sequence(graph.input_order())), alignment, effort)


def folder_of(program: Program, sets: int = 1, seed: int = 0, prefix: str = PREFIX) -> dict[str, str]:
    """By name the files of a network that is deployed.

    Args:
        sets: sets of random inputs in the test.
        seed: of these inputs.
        prefix: of the names of files and of what they declare.

    Raises:
        InputError: LiteRT's reference kernels do not run the network, so that there is nothing to compare with; or the
            prefix is no identifier.
    """
    texts, given = sources(program, prefix), random_inputs(program.network, sets, seed)
    expected = run(program.network.model, given)
    test = test_program(program, [*zip(given, expected, strict=True)], prefix)
    return texts | {"test.c": test, "Makefile": makefile(prefix)}


def random_inputs(network: Network, sets: int, seed: int) -> list[list[ndarray]]:
    """Random inputs of a network: all values of int8, floating-point numbers from -1 to 1, half of them round."""
    random = np.random.default_rng(seed)

    def one(tensor: Tensor) -> ndarray:
        if tensor.kind == "FLOAT32":
            values = random.uniform(-1, 1, tensor.shape)
            values = np.where(random.random(tensor.shape) < 0.5, np.round(values * 200) / 200, values)
            return values.astype(np.float32)
        return random.integers(-128, 128, tensor.shape).astype(np.int8)

    def many(tensors: Sequence[Tensor]) -> list[ndarray]:
        return [one(tensor) for tensor in tensors]

    return [many(network.inputs) for _ in range(sets)]
