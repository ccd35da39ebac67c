"""A backend for `torch.compile`: its joint graphs as traced steps, schedules known for them, and their partition.

AOTAutograd gives forward and backward pass as one graph without side effects:

    primals_1, ..., tangents_1, ...  --->  what the forward pass returns, then a gradient for each primal, or none

What a network writes to its buffers stands at the end, as copies into primals; it belongs to the forward pass.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.base.stop import Criteria
from moccasin_mzn.base.vocabulary import Durations, SearchArguments
from moccasin_mzn.graphs.importers.torch.paths import PATH
from moccasin_mzn.graphs.importers.torch.trace import quiet, require_torch
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import devices
from moccasin_mzn.pytorch.call import Form, Structure
from moccasin_mzn.pytorch.computations import Computation, Computations, computations
from moccasin_mzn.pytorch.emission import graph_of, handed_on, placeholders_read
from moccasin_mzn.pytorch.errors import NoPlanError, PlanError, compilation_error
from moccasin_mzn.pytorch.infeasibility import infeasible
from moccasin_mzn.pytorch.instructions import Linear, peaks
from moccasin_mzn.pytorch.joint import BUFFER, INPUT, TANGENT, Joint, Placeholder, where
from moccasin_mzn.pytorch.operator_costs import MEASURED_COSTS
from moccasin_mzn.pytorch.options import StepOptions, refuse_counted
from moccasin_mzn.pytorch.plan_files import digest
from moccasin_mzn.pytorch.problem import StepProblem, planned
from moccasin_mzn.pytorch.program import linear
from moccasin_mzn.pytorch.tracing import MEASURED, Costs, meant
from moccasin_mzn.search.options import Options, model_options
from moccasin_mzn.search.result import Result

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.utils._pytree import PyTree


_TAG, _FORWARD, _WRITES_BACK = "partitioner_tag", "is_forward", "must_be_in_forward"
"""Keys and values by which AOTAutograd marks a node in its `meta`."""


@dataclass(frozen=True, eq=False)
class AotStep:
    """A joint graph."""

    joint: Joint
    results: tuple[object, ...]
    """What the forward pass is to return: traced nodes, and among them what is no tensor."""
    gradients: tuple[fx.Node | None, ...]
    """For each primal."""
    descriptions: tuple[object, ...]
    """What AOTAutograd knows of the results and the gradients, in this order."""

    @property
    def primals(self) -> list[fx.Node]:
        return self.joint.of_kind(BUFFER, INPUT)


def aot_step(graph_module: fx.GraphModule, outputs: int, static: Collection[int]) -> AotStep:
    """Read a joint graph; it is put in order: the forward pass, its copies into primals, the backward pass.

    Args:
        outputs: how many of its results belong to the forward pass.
        static: the primals, by number, that are there before the step and after it: parameters and buffers.

    Raises:
        PlanError: shapes may change, or it has what is no operator on tensors.
    """
    from torch.utils._pytree import arg_tree_leaves

    graph_module.graph.eliminate_dead_code()
    nodes = list(graph_module.graph.nodes)
    for node in nodes:
        _check(node)
    placeholders = [node for node in nodes if node.op == "placeholder"]
    returned = arg_tree_leaves(*nodes[-1].args)
    backward = _in_order(nodes)
    results, gradients = returned[:outputs], returned[outputs:]
    primals = [node for node in placeholders if not node.name.startswith("tangents")]
    wanted = {node for node, gradient in zip(primals, gradients, strict=False) if gradient is not None}
    given = {node: _placeholder(node, node in wanted, at in static) for at, node in enumerate(placeholders)}
    tensors = tuple(each for each in results if hasattr(each, "meta"))
    joint = Joint(
        graph_module, given, tensors, (True,) * len(tensors),
        tuple(each for each in gradients if each is not None), backward, Structure.of(())[0],
    )  # fmt: skip
    described = arg_tree_leaves(nodes[-1].meta.get("desc", [None] * len(returned)))
    return AotStep(joint, tuple(results), tuple(gradients), tuple(described))


def _check(node: fx.Node) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    if node.op == "get_attr" or node.op == "output":
        return
    for leaf in tree_leaves(node.meta.get("val")):
        symbolic = isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool))
        if symbolic or (isinstance(leaf, torch.Tensor) and any(type(size) is not int for size in leaf.shape)):
            raise PlanError("compiled for shapes that change, a plan is for fixed ones: compile with dynamic=False")
    if node.op == "placeholder":
        if not isinstance(node.meta.get("val"), torch.Tensor) or not node.name.startswith(("primals", "tangents")):
            raise PlanError(f"{node.name} of the compiled step is no tensor: it cannot be planned")
        return
    stack = list(node.meta.get("nn_module_stack", {}).values())
    if stack:
        node.meta[PATH] = str(stack[-1][0]).removeprefix("L['self']").removeprefix(".")
    if not isinstance(node.target, torch._ops.OpOverload) and node.target is not operator.getitem:
        raise PlanError(f"{where(node)} is no operator on tensors: it cannot be planned")


def _in_order(nodes: Sequence[fx.Node]) -> frozenset[fx.Node]:
    """Put the copies into primals to the end of the forward pass; the nodes of the backward pass."""
    calls = [node for node in nodes if node.op in ("call_function", "get_attr")]
    back = [node for node in calls if node.meta.get(_TAG) == _WRITES_BACK]
    last = max((at for at, node in enumerate(calls) if node.meta.get(_TAG) == _FORWARD), default=-1)
    tangents = {node for node in nodes if node.op == "placeholder" and node.name.startswith("tangents")}
    backward: set[fx.Node] = set()
    for at, node in enumerate(calls):
        late = at > last and node.op == "call_function" and node not in back
        if late or any(each in backward or each in tangents for each in node.all_input_nodes):
            backward.add(node)
    first = next((node for node in nodes if node in backward), nodes[-1])
    for node in calls:
        if node not in backward:
            first.prepend(node)
    return frozenset(backward)


def _placeholder(node: fx.Node, differentiable: bool, static: bool) -> Placeholder:
    import torch

    value = node.meta["val"]
    dtype = str(value.dtype).removeprefix("torch.")
    form = Form(tuple(value.shape), tuple(value.stride()), dtype, str(value.device), differentiable)
    if node.name.startswith("tangents"):
        return Placeholder(node.name, TANGENT, form)
    written = any(user.target is torch.ops.aten.copy_.default and user.args[0] is node for user in node.users)
    return Placeholder(node.name, BUFFER if written else INPUT, form, leaf=static)


# --- Schedules of one traced step that this process knows, so that answers to several budgets fit together ----

#     budget     1.0  0.8  0.6            a smaller budget is never answered with a larger peak,
#     peak       1.0  0.8  0.6  at most   a larger one never with a longer duration than a known schedule has
#
# Searches may end before they have proven what is best; then a search within a small budget can find a better schedule
# than one within a larger budget has. What was found for one budget is therefore weighed for the others as well.


@dataclass(frozen=True)
class KnownSchedule:
    """A schedule that can be run."""

    sequence: tuple[int, ...]
    duration: int
    peak: int
    """Bytes that it takes at the allocator, all counted."""
    bound: int = 0
    """Proven: no schedule within the budget of its search has less duration."""
    within: int = 0
    """The budget of its search, as the allocator sees it."""


@dataclass(eq=False)
class KnownSchedules:
    """What is known, and what was answered."""

    found: list[KnownSchedule] = field(default_factory=list)
    answers: dict[int, KnownSchedule] = field(default_factory=dict)
    """By budget in bytes."""

    def limit(self, budget: int) -> int:
        """The most that an answer to a budget may take: no more than one to a larger budget."""
        return min([budget, *(answer.peak for given, answer in self.answers.items() if given >= budget)])

    def candidates(self, budget: int) -> Iterator[KnownSchedule]:
        """What may answer: within the limit, and with no less of a peak than an answer to a smaller budget."""
        least = max((answer.peak for given, answer in self.answers.items() if given <= budget), default=0)
        most = self.limit(budget)
        return (each for each in self.found if least <= each.peak <= most)

    def best(self, budget: int) -> KnownSchedule | None:
        """The candidate of least duration; of several the one of least peak."""
        return min(self.candidates(budget), key=lambda each: (each.duration, each.peak), default=None)

    def settled(self, budget: int) -> bool:
        """Is it proven that no search can find a better answer?"""
        best, limit = self.best(budget), self.limit(budget)
        bounds = (each.bound for each in self.found if each.within >= limit)
        return best is not None and best.duration <= max(bounds, default=0)

    def answer(self, budget: int) -> KnownSchedule | None:
        """The best candidate, which is from now on what this budget is answered with."""
        best = self.best(budget)
        if best is not None:
            self.answers[budget] = best
        return best


# --- Plans for `torch.compile`: a memory budget that is a bound for the compiled training step.  --------------

#     compiled = torch.compile(model, backend=moccasin_mzn.pytorch.backend(budget=0.5))
#
# AOTAutograd traces forward and backward pass as one graph and asks a function to part it in two. That function is
# here:
# what it gives recomputes what a schedule within the budget does, in the schedule's order. The operators run as
# with
# the backend "aot_eager".


_TRIES = 6
_KNOWN: dict[object, _Measured] = {}
"""What this process remembers, by digest, settings and durations of a traced step."""


@dataclass(frozen=True, eq=False)
class _Measured:
    """What is remembered of a traced step: schedules, and its costs, so that all budgets are answered by the same."""

    durations: tuple[int, ...]
    workspaces: tuple[int, ...] | None
    unit: str
    schedules: KnownSchedules = field(default_factory=KnownSchedules)


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """What one compiled graph recomputes; bytes above parameters, buffers and inputs, at the allocator."""

    budget: int
    predicted_peak: int
    unplanned_peak: int
    """The peak without recomputation."""
    recomputations: int
    predicted_increase: float
    """Increase of the duration over that without recomputation, as a fraction."""
    bound: float
    """Proven: no schedule has less increase within what this one was sought for; 0 where nothing is."""


@dataclass(eq=False)
class Partitioner:
    """What AOTAutograd asks to part a joint graph, as its `partition_fn`."""

    budget: Budget
    options: Options
    durations: Durations = MEASURED
    max_computations: int = 2
    plans: list[CompiledPlan] = field(default_factory=list)
    """Plans of the graphs that were partitioned."""

    def __call__(
        self, joint_module: fx.GraphModule, inputs: object, *, num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None, **others: object,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:  # fmt: skip
        """The forward and the backward pass.

        Raises:
            PlanError: the step cannot be planned, or not within the budget.
        """
        import torch
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes(), quiet(), torch.no_grad():
            try:
                step = CompiledStep(
                    aot_step(joint_module, num_fwd_outputs, set(static_lifetime_input_indices or ())), self
                )
                schedule = self.schedule(step)
            except PlanError as error:
                raise compilation_error(error) from error
            self.plans.append(step.compiled_plan(schedule))
            return halves(step.step, step.linear(schedule.sequence))

    def schedule(self, step: CompiledStep) -> KnownSchedule:
        """The schedule of a step."""
        return step.scheduled()


@checked(others=model_options)
def backend(
    budget: str | int | float | Fraction | Budget,
    *,
    time_limit: float | None = 60.0,
    threads: int | None = None,
    seed: int | None = None,
    max_computations: int = 2,
    durations: Durations = MEASURED,
    **how: Unpack[SearchArguments],
) -> Callable[..., PyTree]:
    """A backend for `torch.compile` whose training steps take no more memory than a budget; inference runs as it is.

    Its attribute `plans` lists what was planned, one `CompiledPlan` for each compiled graph.

    Args:
        budget: of memory at the allocator above parameters, buffers and inputs: bytes, or a fraction of what the same
            compiled step takes without recomputation. It holds for each compiled graph: `fullgraph=True` makes sure
            that there is one.
        time_limit: seconds for each search.
        max_computations: how often anything may be computed, if that is enough.
        durations: of operators, "measured" when they are first seen, or estimated by their "flop".
        how: further options of `moccasin_mzn.solve`.

    Raises:
        InputError: nonsense in an argument. PlanError is raised by the first call of what is compiled.
    """
    require_torch()
    StepOptions(durations=durations, max_computations=max_computations)
    refuse_counted(Criteria(), how)
    options = Options.of({"time_limit": time_limit, "threads": threads, "seed": seed, "if_none": "more", **how})
    return as_backend(Partitioner(Budget.of(budget), options, durations, max_computations))


def as_backend(partitioner: Partitioner) -> Callable[..., PyTree]:
    """A backend that parts joint graphs so, and runs the operators as they are."""

    def moccasin_mzn(
        graph_module: fx.GraphModule, inputs: Sequence[torch.Tensor], **_: object
    ) -> Callable[..., PyTree]:
        from torch._dynamo.backends.common import aot_autograd
        from torch._dynamo.backends.debugging import boxed_nop

        compiler = aot_autograd(
            fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=partitioner, keep_inference_input_mutations=True
        )
        return compiler(graph_module, inputs)

    moccasin_mzn.plans = partitioner.plans  # type: ignore[attr-defined]
    return moccasin_mzn


@dataclass(frozen=True, eq=False)
class CompiledStep:
    """A joint graph and who asks for its schedule."""

    step: AotStep
    asked: Partitioner

    @cached_property
    def program(self) -> Computations:
        return computations(self.step.joint, self.costs.table.unsplit(self.step.joint.nodes))

    @cached_property
    def measured(self) -> _Measured:
        """What is remembered, measured now if there is nothing yet."""
        import torch

        asked, settings = self.asked, (torch.get_num_threads(), torch.backends.mkldnn.enabled)
        key = digest(self.step.joint), settings, asked.durations
        if key not in _KNOWN:
            graph = self.costs.applied(planned(self.program)).graph
            _KNOWN[key] = _Measured(graph.durations, graph.workspaces, graph.duration_unit)
        return _KNOWN[key]

    @cached_property
    def problem(self) -> StepProblem:
        found, known = planned(self.program), self.measured
        graph = replace(found.graph, durations=known.durations, workspaces=known.workspaces, duration_unit=known.unit)
        return replace(found, graph=graph)

    @cached_property
    def costs(self) -> Costs:
        return Costs(self.asked.durations, table=MEASURED_COSTS)

    @cached_property
    def unplanned(self) -> KnownSchedule:
        """The schedule without recomputation."""
        return self.known(self.problem.graph.input_order())

    def linear(self, sequence: Sequence[int]) -> Linear:
        return linear(self.program, meant(self.problem, sequence), self.costs.workspace, states_as_tensors=True)

    def known(self, sequence: Sequence[int], bound: int = 0, within: int = 0) -> KnownSchedule:
        duration = simulate(self.problem.graph, sequence).duration
        peak = peaks(self.linear(sequence)).whole
        return KnownSchedule(tuple(sequence), duration, peak, bound, within)

    def scheduled(self) -> KnownSchedule:
        """The schedule for the budget.

        Raises:
            PlanError: there is none, or none was found.
        """
        known = self.measured.schedules
        if not known.found:
            known.found.append(self.unplanned)
        amount = self.asked.budget.resolve(self.unplanned.peak)
        failed = None
        if not self._unbeaten(amount) and not known.settled(amount):
            failed = self._search(known.limit(amount))
        answer = known.answer(amount)
        if answer is None:
            raise NoPlanError(_refusal(self.problem, failed, amount, self.unplanned.peak))
        return answer

    def _unbeaten(self, amount: int) -> bool:
        return self.unplanned.peak <= self.measured.schedules.limit(amount)

    def _search(self, amount: int) -> Result | None:
        """Look for a schedule that takes no more than an amount; the result of a search that has none for this amount.

        States of the generator are in no graph, they take memory only where random numbers are drawn again. If that is
        too much, they are kept, which proves nothing where no schedule is found.
        """
        most = self.problem.counts(self.asked.max_computations)
        failed = self._sought(amount, most)
        if failed is None and not any(each.peak <= amount for each in self.measured.schedules.found):
            meanings = zip(most, self.problem.meanings, strict=True)
            kept = [1 if _draws(meaning) else count for count, meaning in meanings]
            self._sought(amount, kept, proves=False)
        return failed

    def _sought(self, amount: int, most: Sequence[int], *, proves: bool = True) -> Result | None:
        """The same for this many computations at most; each search is asked for less than the one before has found."""
        known, asked = self.measured.schedules, amount
        for _ in range(_TRIES):
            if asked < 1:
                break
            instance = Instance.build(self.problem.graph, asked, max_computations=most)
            result = solve_instance(instance, self.asked.options)
            if not result.found or result.sequence is None:
                return result if asked == amount else None
            bound = int(result.bound) if proves and asked == amount else 0
            found = self.known(result.sequence, bound, amount)
            known.found.append(found)
            if found.peak <= amount:
                break
            asked = min(asked, result.peak) - (found.peak - amount)
        return None

    def compiled_plan(self, schedule: KnownSchedule) -> CompiledPlan:
        least = self.unplanned.duration
        increase, bound = ((value / least - 1) if least else 0.0 for value in (schedule.duration, schedule.bound))
        again = len(schedule.sequence) - len(set(schedule.sequence))
        budget = self.asked.budget.resolve(self.unplanned.peak)
        return CompiledPlan(budget, schedule.peak, self.unplanned.peak, again, increase, max(0.0, bound))


def _draws(meaning: object) -> bool:
    return isinstance(meaning, Computation) and any(devices.draws(member.node) for member in meaning.members)


def _refusal(problem: StepProblem, result: Result | None, amount: int, eager: int) -> str:
    lacking = None if result is None else result.shortfall
    if lacking is None:
        return f"budget {memory_text(amount, 'byte')}: no plan was found"
    seen = lacking.least_peak + amount - lacking.instance.budget
    return infeasible(problem, lacking.instance, amount, min(lacking.scope_floor, seen), seen, eager)


def halves(step: AotStep, plan: Linear) -> tuple[fx.GraphModule, fx.GraphModule]:
    """A plan as AOTAutograd wants it: two graphs, the first of which also returns what the second one takes."""
    from torch import fx

    joint = step.joint
    tangents = [plan.given[node] for node in joint.of_kind(TANGENT)]
    outputs = iter(plan.outputs)
    results = [next(outputs) if isinstance(each, fx.Node) else each for each in step.results]
    gradients = iter(plan.gradients)
    each_gradient = [None if each is None else next(gradients) for each in step.gradients]
    kept = [*handed_on(plan), *placeholders_read(plan, plan.backward)]
    forward = graph_of(plan.forward, [plan.given[node] for node in step.primals], [*results, *kept], plan.given)
    backward = graph_of(plan.backward, [*kept, *tangents], each_gradient, plan.given)
    _describe(step, forward, backward, len(kept))
    return fx.GraphModule(joint.graph_module, forward), fx.GraphModule(joint.graph_module, backward)


def _describe(step: AotStep, forward: fx.Graph, backward: fx.Graph, kept: int) -> None:
    from torch._functorch._aot_autograd.descriptors import SavedForBackwardsAOTOutput

    own = len(step.results)
    saved = map(SavedForBackwardsAOTOutput, range(kept))
    forward.output_node().meta["desc"] = [*step.descriptions[:own], *saved]
    backward.output_node().meta["desc"] = list(step.descriptions[own:])
