"""A traced step: what its computations cost on this machine, and the graph that is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from moccasin_mzn.base.clock import Deadline, nothing
from moccasin_mzn.base.log import underway
from moccasin_mzn.base.vocabulary import Durations, Workspaces
from moccasin_mzn.graphs.importers.torch.memory import Member
from moccasin_mzn.graphs.importers.torch.nodes import storage_bytes
from moccasin_mzn.machine.platforms import LOCAL, CopyCosts, with_slow_memory
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.platform import Action, Memory, Platform
from moccasin_mzn.pytorch.binding import Call
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.computations import Computation, Computations, computations
from moccasin_mzn.pytorch.devices import CPU, CUDA, kind_of_device
from moccasin_mzn.pytorch.errors import NoTimeError, PlanError
from moccasin_mzn.pytorch.gradients import ACCUMULATED, RETURNED
from moccasin_mzn.pytorch.guards import Guards
from moccasin_mzn.pytorch.instructions import Linear
from moccasin_mzn.pytorch.joint import Differentiate, Joint, Strides, trace_joint, where
from moccasin_mzn.pytorch.loops import check_plannable
from moccasin_mzn.pytorch.operator_costs import OperatorCosts, measure_operators, nanoseconds_per_byte
from moccasin_mzn.pytorch.operator_process import NO_DEADLINE, worker
from moccasin_mzn.pytorch.problem import Cut, StepProblem, planned
from moccasin_mzn.pytorch.program import Copied, Meaning, linear

if TYPE_CHECKING:
    import torch
    from torch import fx


MEASURED: Final = "measured"
FLOP: Final = "flop"
NONE: Final = "none"
MEASURING_SHARE, MEMORY_SHARE = 0.4, 1.05
"""Fractions: of the time that is left to time operators; of the whole time limit, until which each is called for the
memory that it takes."""


@dataclass(frozen=True, eq=False)
class Costs:
    """Where durations and workspaces come from; see `StepOptions`."""

    durations: Durations = MEASURED
    workspaces: Workspaces = MEASURED
    table: OperatorCosts = field(default_factory=OperatorCosts)
    deadline: Deadline = field(default_factory=Deadline, repr=False)
    """No operator is timed after it."""
    end: Deadline = field(default_factory=Deadline, repr=False)
    """No operator is called after it for the memory that it takes."""
    known: dict[tuple[fx.Node, tuple[bool, ...]], int] = field(default_factory=dict, repr=False)
    """Workspaces that were asked for."""
    estimated: dict[str, None] = field(default_factory=dict, repr=False)
    """Operators that could not be called by themselves: their time is estimated by the bytes they touch, their
    workspace is not."""
    untimed: dict[str, None] = field(default_factory=dict, repr=False)
    """Operators whose time is estimated, as there was none left to measure it."""

    def within(self, deadline: Deadline) -> Costs:
        """The same, measured within parts of a time limit."""
        end = None if deadline.seconds is None else MEMORY_SHARE * deadline.seconds
        return replace(self, deadline=deadline.part(MEASURING_SHARE), end=Deadline(end, deadline.begin))

    @property
    def measures(self) -> bool:
        """Is anything measured?"""
        return MEASURED in (self.durations, self.workspaces)

    def workspace(self, node: fx.Node, mask: Sequence[bool] | None) -> int:
        """Bytes that a call of a traced operator takes in addition to what it returns."""
        if self.workspaces == NONE:
            return 0
        call = node, tuple(mask or ())
        if call not in self.known:
            cost = self.table.of(node, mask, self.deadline)
            self.known[call] = 0 if cost is None else cost.workspace
        return self.known[call]

    def applied(self, problem: StepProblem) -> StepProblem:
        """The problem with these durations, in nanoseconds, and workspaces, in bytes, where they are measured."""
        if not self.measures:
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
        costs = measure_operators(called, members, costs=self.table, deadline=self.deadline, end=self.end)
        copying = 2 * nanoseconds_per_byte(called, self.table)
        durations, workspaces = [], []
        for name, found in costs.items():
            if not found.measured:
                nodes = [member.node for member in made_by_name[name].members]
                failed = any(self.table.of(node, None, self.deadline) is None for node in nodes)
                (self.estimated if failed else self.untimed)[where(nodes[0])] = None
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


# --- Whether a sequence of computations and copies can be run as a plan, which asks more than a schedule: the
# order of effects


def meant(problem: StepProblem, given: Sequence[int] | Sequence[Action]) -> list[Meaning]:
    """What the nodes of a schedule stand for, or the actions of a plan with offloading to host memory.

    Raises:
        PlanError: it is no schedule; something is computed more often than it may be, or for the first time in another
            order than the traced one, in which random numbers are drawn and statistics updated, but for what may be
            moved within the backward pass.
    """
    graph = problem.graph
    plan = [each if isinstance(each, Action) else Action(each) for each in given]
    local = Platform(graph, (Memory("local", None, graph.durations),))
    broken = judge_plan(with_slow_memory(local, None, CopyCosts(), CopyCosts()), plan).violations
    if broken:
        raise PlanError(f"no schedule of this network: {broken[0].message}")
    sequence = [action.node for action in plan if action.source is None]
    first = list(dict.fromkeys(sequence))
    position = {node: at for at, node in enumerate(graph.input_order())}
    firm = [v for v in first if not problem.movable[v]]
    begins = next(at for at, v in enumerate(first) if isinstance(problem.meanings[v], Cut))
    moved = any(position[one] > position[other] for one, other in pairwise(firm))
    if moved or any(problem.movable[v] for v in first[:begins]):
        raise PlanError("a plan computes all for the first time in the order of the trace: plan with order input")
    for node, count in Counter(sequence).items():
        if count > 1 and not problem.most[node]:
            raise PlanError(f"node {graph.nodes[node]} may be computed once only")
    found = [_meaning(problem, action) for action in plan]
    assert any(isinstance(each, Cut) for each in found)
    return found


def _meaning(problem: StepProblem, action: Action) -> Meaning:
    meaning = problem.meanings[action.node]
    if action.source is None:
        return meaning
    if not isinstance(meaning, Computation):
        raise PlanError(f"node {problem.graph.nodes[action.node]} is not computed, it cannot be copied")
    return Copied(meaning, back=action.memory == LOCAL)


# --- A step with all that is known of it before there is a plan -----------------------------------------------


@dataclass(frozen=True, eq=False)
class Traced:
    """A step, traced, and the graph that it comes to."""

    step: Step
    arguments: Structure
    forms: tuple[Form, ...]
    """Forms of the inputs."""
    joint: Joint = field(repr=False)
    program: Computations = field(repr=False)
    problem: StepProblem = field(repr=False)
    guards: Guards = field(repr=False)
    costs: Costs | None = field(default=None, repr=False)
    """None: durations are FLOP, and there are no workspaces."""
    gradients: str = RETURNED
    """See `accumulating`."""
    unsplit: frozenset[str] = frozenset()
    """Names of traced backward operators that make all their gradients at once, see `OperatorCosts.unsplit`."""
    differentiate: Differentiate = None
    """The outputs that get a gradient, as asked for."""

    @classmethod
    def of(
        cls, step: Step, arguments: Structure, forms: Sequence[Form], costs: Costs | None = None,
        gradients: str = RETURNED, unsplit: Collection[str] = (), differentiate: Differentiate = None,
        numbers: Sequence[torch.Tensor] | None = None, apart: Collection[int] = (), strides: Strides | None = None,
        limit: Deadline = NO_DEADLINE,
    ) -> Traced:  # fmt: skip
        """Trace a step, and measure its operators if that is asked for and can be.

        Args:
            unsplit: where nothing is measured, what is known of that.
            differentiate: the outputs that get a gradient, see `joint.differentiated`.
            numbers: the inputs, to run the step on; None: nothing is run, see `joint.trace_joint`.
            apart: what has its gradient returned summand by summand, see `joint.trace_joint`.
            strides: of gradients of outputs, see there.
            limit: for tracing.

        Raises:
            NoTimeError: the limit was over before the network was traced, or operators were called.
        """
        _check(step.model, forms)
        if costs is not None and without_memory(step.model, forms):
            costs = None
        if costs is not None:
            worker().begin()
        with underway("tracing the network"):
            joint = trace_joint(
                step, arguments, forms, differentiate, numbers, apart, strides, within(limit, "tracing the network")
            )
        whole = frozenset(unsplit)
        program = computations(joint, whole)
        guards = Guards.of(joint, Call(step, arguments))
        problem = planned(program, gradients == ACCUMULATED)
        traced = cls(
            step, arguments, tuple(forms), joint, program, problem, guards, None, gradients, whole, differentiate
        )
        return traced if costs is None else traced.measured(costs)

    def measured(self, costs: Costs) -> Traced:
        """The same step with its operators measured.

        Raises:
            NoTimeError: the end of measuring was there before all were called for the memory that they take.
        """
        found, whole = self, costs.table.unsplit(self.joint.nodes, costs.deadline, costs.end)
        if whole != self.unsplit:
            program = computations(self.joint, whole)
            problem = planned(program, self.gradients == ACCUMULATED)
            found = replace(self, program=program, problem=problem, unsplit=whole)
        return found._priced(costs)

    def priced(self, costs: Costs) -> Traced:
        """The same step with its operators measured if that can be done."""
        return self if without_memory(self.step.model, self.forms) else self.measured(costs)

    def _priced(self, costs: Costs) -> Traced:
        priced = costs.applied(self.problem)
        if any(kind_of_device(form.device) == CUDA for form in self.forms):
            worker().close()  # it holds memory of the device
        return replace(self, problem=priced, costs=costs)

    @property
    def device(self) -> str:
        """Whose memory is planned: that of the first tensor."""
        return next(iter(self.joint.given.values())).form.device

    def linear(self, sequence: Sequence[int] | Sequence[Action]) -> Linear:
        """The instructions of a schedule, or of a plan with offloading to host memory."""
        workspace = None if self.costs is None else self.costs.workspace
        return linear(self.program, meant(self.problem, sequence), workspace)


def within(limit: Deadline, doing: str) -> Callable[..., object]:
    """What raises an error once a time limit is over, called with an operator that is about to be called.

    It raises none where PyTorch only looks at a tensor, such as for its device: there the process would end.

    Args:
        doing: what takes the time, for the message.
    """

    def check(operator: torch._ops.OpOverload) -> None:
        returned = [str(each.type) for each in operator._schema.returns] if limit.over() else []
        if "Tensor" in returned and operator.namespace == "aten" and "detach" not in str(operator):
            raise NoTimeError(
                f"{doing} took {limit.elapsed():.1f} s of the {limit.seconds:g} s of the time limit and was not done: "
                "ask for more"
            )

    return nothing if limit.seconds is None else check


def without_memory(model: torch.nn.Module, forms: Sequence[Form]) -> bool:
    """Is a parameter, a buffer or an input on the meta device? Then nothing can be run."""
    state = (*model.parameters(), *model.buffers())
    return any(tensor.device.type == "meta" for tensor in state) or any(form.device == "meta" for form in forms)


def _check(model: torch.nn.Module, forms: Sequence[Form]) -> None:
    check_plannable(model)
    state = (*model.named_parameters(), *model.named_buffers())
    places = [*((name, str(tensor.device)) for name, tensor in state), *(("an input", form.device) for form in forms)]
    for name, device in places:
        if kind_of_device(device) not in (CPU, "meta", CUDA):
            raise PlanError(f"{name} is on {device}: plans are for the CPU and for CUDA")
        if kind_of_device(device) == CUDA and device != places[0][1]:
            raise PlanError(f"{name} is on {device}, {places[0][0]} on {places[0][1]}: a plan is for one device")
