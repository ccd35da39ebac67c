"""Plans for `torch.compile`: a memory budget that is a bound for the compiled training step. ::

    compiled = torch.compile(model, backend=moccasin_mzn.pytorch.backend(budget=0.5))

AOTAutograd traces forward and backward pass as one graph and asks a function to part it in two. That function is here:
what it gives computes again what a schedule within the budget does, in the schedule's order. The operators run as with
the backend "aot_eager".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.formatting import memory_text
from moccasin_mzn.graphs.importers.torch.trace import quiet, require_torch
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import randomness
from moccasin_mzn.pytorch.aot_joint import AotStep, aot_step
from moccasin_mzn.pytorch.blame import infeasible
from moccasin_mzn.pytorch.computations import Computation, Computations, computations
from moccasin_mzn.pytorch.costs import MEASURED, Costs
from moccasin_mzn.pytorch.emission import graph_of, handed_on, placeholders_read
from moccasin_mzn.pytorch.instructions import Linear
from moccasin_mzn.pytorch.joint import TANGENT
from moccasin_mzn.pytorch.known_schedules import KnownSchedule, KnownSchedules
from moccasin_mzn.pytorch.liveness import peaks
from moccasin_mzn.pytorch.operator_costs import OperatorCosts
from moccasin_mzn.pytorch.plan_files import digest
from moccasin_mzn.pytorch.problem import Planned, planned
from moccasin_mzn.pytorch.program import linear
from moccasin_mzn.pytorch.refusal import NoPlanError, PlanError, compilation_error
from moccasin_mzn.pytorch.sequences import meant
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Result

if TYPE_CHECKING:
    from torch import fx

_TRIES = 6
_COSTS = OperatorCosts()
"""Of all operators that this process has measured."""
_KNOWN: dict[object, _Measured] = {}
"""By what tells traced steps apart."""


@dataclass(frozen=True, eq=False)
class _Measured:
    """What is remembered of a traced step: schedules, and its costs, so that all budgets are answered by the same."""

    durations: tuple[int, ...]
    workspaces: tuple[int, ...] | None
    unit: str
    schedules: KnownSchedules = field(default_factory=KnownSchedules)


@dataclass(frozen=True, eq=False)
class CompiledPlan:
    """What one compiled graph computes again; bytes above parameters, buffers and inputs, at the allocator."""

    budget: int
    predicted_peak: int
    unplanned_peak: int
    """Without recomputation."""
    recomputations: int
    predicted_increase: float
    """Of the duration over that without recomputation, as a fraction."""
    bound: float
    """Proven: no schedule has less increase within what this one was sought for; 0 where nothing is."""


@dataclass(eq=False)
class Partitioner:
    """What AOTAutograd asks to part a joint graph, as its `partition_fn`."""

    budget: Budget
    options: Options
    durations: str = MEASURED
    max_computations: int = 2
    plans: list[CompiledPlan] = field(default_factory=list)
    """Of the graphs that were parted."""

    def __call__(
        self, joint_module: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None, **others: Any,
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
            self.plans.append(step.told(schedule))
            return halves(step.step, step.linear(schedule.sequence))

    def schedule(self, step: CompiledStep) -> KnownSchedule:
        """The schedule of a step."""
        return step.scheduled()


def backend(
    budget: str | int | float | Any,
    *,
    time_limit: float | None = 60.0,
    threads: int | None = None,
    seed: int | None = None,
    max_computations: int = 2,
    durations: str = MEASURED,
    **how: Any,
) -> Callable[..., Any]:
    """A backend for `torch.compile` whose training steps take no more memory than a budget; inference runs as it is.

    Its attribute `plans` lists what was planned, one `CompiledPlan` for each compiled graph.

    Args:
        budget: of memory at the allocator above parameters, buffers and inputs: bytes, or a fraction of what the same
            compiled step takes without recomputation. It holds for each compiled graph: `fullgraph=True` makes sure
            that there is one.
        time_limit: seconds for each search.
        max_computations: how often anything may be computed, if that is enough.
        durations: of operators, "measured" when they are first seen, or told by their "flop".
        how: further options of `moccasin_mzn.solve`.

    Raises:
        InputError: nonsense in an argument. PlanError is raised by the first call of what is compiled.
    """
    require_torch()
    return as_backend(_partitioner(budget, durations, max_computations, time_limit, threads, seed, how))


def as_backend(partitioner: Partitioner) -> Callable[..., Any]:
    """A backend that parts joint graphs so, and runs the operators as they are."""

    def moccasin_mzn(graph_module: Any, inputs: Any, **_: Any) -> Any:
        from torch._dynamo.backends.common import aot_autograd
        from torch._dynamo.backends.debugging import boxed_nop

        compiler = aot_autograd(
            fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=partitioner, keep_inference_input_mutations=True
        )
        return compiler(graph_module, inputs)

    moccasin_mzn.plans = partitioner.plans  # type: ignore[attr-defined]
    return moccasin_mzn


def _partitioner(
    budget: Any, durations: str, most: int, time_limit: Any, threads: Any, seed: Any, how: Mapping[str, Any]
) -> Partitioner:
    Costs(durations)  # refuses nonsense
    options = Options.of({"time_limit": time_limit, "threads": threads, "seed": seed, "if_none": "more", **how})
    return Partitioner(Budget.of(budget), options, durations, most)


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
            graph = self.costs.told(planned(self.program)).graph
            _KNOWN[key] = _Measured(graph.durations, graph.workspaces, graph.duration_unit)
        return _KNOWN[key]

    @cached_property
    def problem(self) -> Planned:
        found, known = planned(self.program), self.measured
        graph = replace(found.graph, durations=known.durations, workspaces=known.workspaces, duration_unit=known.unit)
        return replace(found, graph=graph)

    @cached_property
    def costs(self) -> Costs:
        return Costs(self.asked.durations, table=_COSTS)

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
            raise NoPlanError(_refusal(self.problem, failed, amount))
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
        """The same for so many computations at most; each search is asked for less than the one before has found."""
        known, asked = self.measured.schedules, amount
        for _ in range(_TRIES):
            if asked < 1:
                break
            instance = Instance.build(self.problem.graph, asked, max_computations=most)
            result = solve_instance(instance, self.asked.options, begin=time.monotonic())
            if not result.found or result.sequence is None:
                return result if asked == amount else None
            bound = int(result.bound) if proves and asked == amount else 0
            found = self.known(result.sequence, bound, amount)
            known.found.append(found)
            if found.peak <= amount:
                break
            asked = min(asked, result.peak) - (found.peak - amount)
        return None

    def told(self, schedule: KnownSchedule) -> CompiledPlan:
        least = self.unplanned.duration
        increase, bound = ((value / least - 1) if least else 0.0 for value in (schedule.duration, schedule.bound))
        again = len(schedule.sequence) - len(set(schedule.sequence))
        budget = self.asked.budget.resolve(self.unplanned.peak)
        return CompiledPlan(budget, schedule.peak, self.unplanned.peak, again, increase, max(0.0, bound))


def _draws(meaning: object) -> bool:
    return isinstance(meaning, Computation) and any(randomness.draws(member.node) for member in meaning.members)


def _refusal(problem: Planned, result: Result | None, amount: int) -> str:
    lacking = None if result is None else result.shortfall
    if lacking is None:
        return f"budget {memory_text(amount, 'byte')}: no plan was found"
    seen = lacking.least_peak + amount - lacking.instance.budget
    return infeasible(problem, lacking.instance, amount, min(lacking.scope_floor, seen), seen)


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
