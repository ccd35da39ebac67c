"""What the computations of a traced step cost on this machine, told to the graph that is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.importers.torch.memory import Member
from moccasin_mzn.graphs.importers.torch.nodes import storage_bytes
from moccasin_mzn.pytorch.computations import Computation
from moccasin_mzn.pytorch.joint import where
from moccasin_mzn.pytorch.operator_costs import OperatorCosts, measure_operators, nanoseconds_per_byte
from moccasin_mzn.pytorch.problem import Planned

if TYPE_CHECKING:
    from torch import fx

MEASURED, FLOP, NONE = "measured", "flop", "none"


@dataclass(frozen=True, eq=False)
class Costs:
    """Where durations and workspaces come from.

    Raises:
        InputError: `durations` is neither "measured" nor "flop", `workspaces` neither "measured" nor "none".
    """

    durations: str = MEASURED
    workspaces: str = MEASURED
    table: OperatorCosts = field(default_factory=OperatorCosts)
    known: dict[tuple[fx.Node, tuple[bool, ...]], int] = field(default_factory=dict, repr=False)
    """Workspaces that were asked for."""
    estimated: dict[str, None] = field(default_factory=dict, repr=False)
    """Operators that could not be called by themselves: their time is told by the bytes they touch, no workspace is."""

    def __post_init__(self) -> None:
        for what, value, possible in (
            ("durations", self.durations, (MEASURED, FLOP)), ("workspaces", self.workspaces, (MEASURED, NONE))
        ):  # fmt: skip
            if value not in possible:
                raise InputError(f"{what} {shown(value)}: expected one of {', '.join(possible)}")

    def workspace(self, node: fx.Node, mask: Sequence[bool] | None) -> int:
        """Bytes that a call of a traced operator takes beside what it returns."""
        if self.workspaces == NONE:
            return 0
        call = node, tuple(mask or ())
        if call not in self.known:
            cost = self.table.of(node, mask)
            self.known[call] = 0 if cost is None else cost.workspace
        return self.known[call]

    def told(self, problem: Planned) -> Planned:
        """The problem with these durations, in nanoseconds, and workspaces, in bytes, where they are measured."""
        if MEASURED not in (self.durations, self.workspaces):
            return problem
        graph = problem.graph
        made = {
            node: each
            for node, each in zip(graph.nodes, problem.meanings, strict=True)
            if isinstance(each, Computation)
        }
        members = {
            str(node): [Member(member.node.name, member.outputs) for member in each.members]
            for node, each in made.items()
        }
        made_by_name = {str(node): each for node, each in made.items()}
        called = {member.node: None for each in made.values() for member in each.members}
        costs = measure_operators(called, members, costs=self.table)
        copying = 2 * nanoseconds_per_byte(called, self.table)
        durations, workspaces = [], []
        unknown = (name for name, cost in costs.items() if not cost.measured)
        self.estimated.update((where(made_by_name[name].members[0].node), None) for name in unknown)
        for node in graph.nodes:
            each, cost = made.get(node), costs.get(str(node))
            durations.append(cost.nanoseconds + round(copying * _copied(each)) if each and cost else 0)
            workspaces.append(cost.workspace + _hidden(each) if each and cost else 0)
        if self.durations == MEASURED:
            graph = replace(graph, durations=tuple(durations), duration_unit="ns")
        if self.workspaces == MEASURED:
            graph = replace(graph, workspaces=tuple(workspaces))
        return replace(problem, graph=graph)


def _copied(made: Computation) -> int:
    """Bytes of what is copied before it is overwritten."""
    return sum(storage_bytes(root.value) for member in made.members for root in member.copied)


def _hidden(made: Computation) -> int:
    """Bytes that operators allocate for what they return, and that are given back after a smaller copy is made."""
    own = [root for root in made.makes if any(root.node is member.node for member in made.members)]
    return max((root.allocated - root.bytes for root in own), default=0)
