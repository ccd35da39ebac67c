"""What the computations of a traced step take on this machine, and the instructions of a plan, workspaces included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.torch_memory import Member
from moccasin_mzn.graphs.importers.torch_nodes import mask_position
from moccasin_mzn.pytorch import randomness
from moccasin_mzn.pytorch.computations import Computation
from moccasin_mzn.pytorch.joint import Joint
from moccasin_mzn.pytorch.operator_costs import OperatorCosts, measure_operators
from moccasin_mzn.pytorch.problem import Planned
from moccasin_mzn.pytorch.program import Instruction

if TYPE_CHECKING:
    from torch import fx


def measured_problem(problem: Planned, joint: Joint, costs: OperatorCosts, durations: str) -> Planned:
    """The problem with measured workspaces, and with measured durations (nanoseconds) unless they are to be "flop"."""
    graph = problem.graph
    members = {
        str(name): [Member(each.node.name, each.outputs) for each in made.members]
        for name, made in zip(graph.nodes, problem.meanings, strict=True)
        if isinstance(made, Computation)
    }
    found = measure_operators(joint.nodes, members, costs=costs)
    costs_of = [found.get(str(name)) for name in graph.nodes]
    workspaces = tuple(0 if cost is None else cost.workspace for cost in costs_of)
    if durations == "measured":
        nanoseconds = tuple(0 if cost is None else cost.nanoseconds for cost in costs_of)
        graph = replace(graph, durations=nanoseconds, duration_unit="ns")
    return replace(problem, graph=_with_workspaces(graph, workspaces))


def _with_workspaces(graph: ComputationGraph, workspaces: Sequence[int]) -> ComputationGraph:
    return replace(graph, workspaces=tuple(workspaces) if any(workspaces) else None)


@dataclass(eq=False)
class Workspaces:
    """How much memory an instruction takes while it runs, beside what it makes: bytes."""

    costs: OperatorCosts
    known: dict[tuple[fx.Node, tuple[bool, ...] | None], int] = field(default_factory=dict)

    def __call__(self, instruction: Instruction) -> int:
        node = instruction.node
        if instruction.target is randomness.replayed:
            return max(self._of(node, None), randomness.state_bytes())
        if node is None:
            return 0
        at = mask_position(node)
        return self._of(node, None if at is None else tuple(instruction.args[at]))

    def _of(self, node: fx.Node | None, mask: tuple[bool, ...] | None) -> int:
        import torch

        if node is None:
            return 0
        if (node, mask) not in self.known:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                cost = self.costs.of(node, mask)
            self.known[node, mask] = 0 if cost is None else cost.workspace
        return self.known[node, mask]
