"""Plans: found, shown, run, kept in files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Literal, Unpack

from moccasin_mzn.api.driving import Drive, Interrupts, OnProgress
from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.arguments import checked
from moccasin_mzn.clock import Deadline
from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.extensions.platforms import CopyCosts, with_slow_memory
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.torch.trace import require_torch
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import Action, Memory, Platform, plan_of_sequence
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.errors import NoPlanError, PlanError
from moccasin_mzn.pytorch.gradients import ACCUMULATED, RETURNED, check_gradients
from moccasin_mzn.pytorch.infeasibility import (
    LeastFound,
    bound_within,
    called,
    infeasible_with_copies,
    least_in_seconds,
    least_schedules,
    prepare,
    unlimited,
    why_none,
)
from moccasin_mzn.pytorch.instructions import Linear, Peaks, peaks
from moccasin_mzn.pytorch.memories import Memories, OneMemory, Paging, memories_asked
from moccasin_mzn.pytorch.runtime import Runtime, planned_module
from moccasin_mzn.pytorch.steps import EagerStep, eager_step_or_none, runtime_of, share_and_overhead
from moccasin_mzn.pytorch.tracing import MEASURED, Costs, Traced
from moccasin_mzn.search.options import gap_of, model_options
from moccasin_mzn.search.result import Result
from moccasin_mzn.stop import Criteria, Stop
from moccasin_mzn.vocabulary import Axis, Durations, Gradients, SearchArguments, Status, Workspaces

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.steps import Verification
    from moccasin_mzn.report.shown import Drawing

LEAST = "least"
"""The budget that asks for the plan of least peak."""
SEARCH_SECONDS = 60.0
"""Time limit of the search where none is given."""
LEAST_SHARE = 0.6
"""Fraction of the time to seek the least peak; the rest is for a shorter plan of the same peak."""
_AT_ONCE = 1e-3
"""Seconds for a search that is over before it begins."""
_TRIES = 6
_SHOWN = 3
"""So many of the computations that are repeated are named in a report."""
_FOUND = ("budget", "status", "predicted_increase", "bound", "eager_peak", "least_proven", "overhead")
"""What is kept in files of what the search has found, besides the sequence."""
_PREDICTED = ("peaks", "unplanned")


@checked(others=model_options, as_given=("model", "inputs", "kwargs"))
def plan(
    model: torch.nn.Module,
    inputs: Sequence[PyTree],
    *,
    kwargs: Mapping[str, PyTree] | None = None,
    loss: Callable[[PyTree, PyTree], PyTree] | None = None,
    budget: str | int | float | Fraction | Budget,
    time_limit: float | None = SEARCH_SECONDS,
    threads: int | None = None,
    seed: int | None = None,
    order: Literal["input"] = "input",
    max_computations: int = 2,
    durations: Durations = MEASURED,
    workspaces: Workspaces = MEASURED,
    gradients: Gradients = RETURNED,
    paging: Paging | None = None,
    slow_memory: str | int | float | Fraction | Budget | None = None,
    stop: Stop | None = None,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
    **how: Unpack[SearchArguments],
) -> Plan:
    """Find what to recompute in a training step, so that it keeps within a budget. THIS RUNS THE NETWORK'S CODE.

    The network is traced as it is: in training mode or not, under autocast or not, with these parameters to train. Its
    operators are then measured one by one, on this machine as it is set now (threads, libraries). If a parameter or an
    input is on the meta device nothing is run or measured.

    Args:
        inputs: tensors and whatever else the network is called with: the step is run on them, from its own state, which
            is left as it was. Of tensors on the meta device only the forms matter.
        kwargs: the same by name.
        loss: of the network's outputs and a target, which is then the last of the inputs. None: the loss is an output
            of the network, or computed from its outputs by whoever calls the step.
        budget: of the allocator's memory above parameters, buffers and inputs: bytes, or a fraction of the peak of the
            step as it is, which is run for that; if it cannot be for lack of memory, of what is predicted of it; or
            "least": the least that a plan is found for in a part of the time; the rest is for the shortest one. For
            bytes and "least" the step as it is is run only where four times the memory that it takes is free.
        time_limit: seconds for the search.
        order: "input", that of the trace.
        max_computations: how often anything may be computed, if that is enough; or come into memory, with `paging`.
        durations: "measured", or "flop" to minimize floating-point operations.
        workspaces: "measured", or "none": then the budget is of what operators return, and they may take more.
        gradients: "returned": those of all parameters are there at the end of the backward pass; "accumulated": each is
            added to the parameter's `.grad` when it is there, and counts as long as that takes. `.grad` itself counts
            for nothing then: it is there before, but in the first step, see `Plan.first_peak`.
        paging: True: outputs may be written to host memory and read back, the host's on CUDA, which takes as long as is
            measured; or what that takes for each byte, in the unit of durations, such as {"out_time": 0.1}.
        slow_memory: its capacity, as a budget, which asks for paging by itself; None: as much as there may be.
        stop: see `moccasin_mzn.solve`; of the search, as the time limit; `Iterations` is refused, for durations are
            measured and differ from call to call.
        on_progress: called with a `moccasin_mzn.Progress` for every new incumbent and bound; see `moccasin_mzn.solve`.
        interrupts: see `moccasin_mzn.solve`.
        how: further options of `moccasin_mzn.solve`.

    Raises:
        NoPlanError: no plan within the budget was found; the message names what is proven.
        PlanError: the network cannot be planned.
        InputError: nonsense in an argument.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    require_torch()
    if order != "input":
        raise InputError(f"order {shown(order)}: plans are for the order of the trace, input")
    criteria = Criteria.of(stop, time_limit, gap_of(how.pop("until_gap", None)), default=SEARCH_SECONDS)
    criteria.refuse("plans of networks, whose operators are measured", "iterations")
    drive = Drive("pytorch.plan", on_progress, criteria, interrupts)
    check_gradients(gradients)
    arguments, tensors = Structure.of_call(inputs, kwargs)
    amount = _amount(budget)
    searching = {"time_limit": criteria.time_limit, "threads": threads, "seed": seed, **how}
    searching |= {} if criteria.gap is None else {"until_gap": criteria.gap}
    memory = memories_asked(paging, slow_memory, searching)
    if amount is None and not isinstance(memory, OneMemory):
        raise InputError(f"budget {LEAST} is for recomputation alone, it does not go with offloading to host memory")
    forms = [Form.of(tensor) for tensor in tensors]
    traced = Traced.of(Step(model, loss), arguments, forms, Costs(durations, workspaces), gradients)
    if amount is None:
        assert isinstance(memory, OneMemory)
        found, interrupted = _least(traced, memory, max_computations, drive)
        return drive.ended(_timed(found, inputs, kwargs or {}), interrupted)
    eager = eager_step_or_none(traced, inputs, kwargs or {}) if amount.fraction is not None else None
    found, interrupted = _searched(traced, amount, eager, memory, max_computations, drive)
    return drive.ended(_timed(found, inputs, kwargs or {}) if eager is None else found, interrupted)


def _amount(budget: str | int | float | Fraction | Budget) -> Budget | None:
    """Return a budget; None: the least."""
    if isinstance(budget, str) and budget.strip().lower() == LEAST:
        return None
    try:
        return Budget.of(budget)
    except InputError as error:
        raise InputError(f"{error}, or {LEAST}") from None


def _timed(found: Plan, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> Plan:
    """With increases as shares of the eager step's time, instead of the operators'."""
    if not found.recomputations or found.graph.duration_unit != "ns":
        return found
    share, overhead = share_and_overhead(
        found.traced, found.unplanned.whole, found.predicted_increase, found.runtime, inputs, kwargs
    )
    increase, bound = (overhead + share * value for value in (found.predicted_increase, found.bound))
    return replace(found, predicted_increase=increase, bound=bound, overhead=overhead)


def _peak(eager: EagerStep | None) -> int | None:
    return None if eager is None else eager.peak


def _overhead(traced: Traced, eager: EagerStep | None) -> float:
    return eager.overhead if eager is not None and traced.problem.graph.duration_unit == "ns" else 0.0


def _searched(
    traced: Traced, budget: Budget, eager: EagerStep | None, memory: Memories, most: int,
    drive: Drive,
) -> tuple[Plan, bool]:  # fmt: skip
    """The plan, and whether an interrupt has ended the search."""
    graph = traced.problem.graph
    order = graph.input_order()
    unplanned = peaks(traced.linear(order))
    amount = budget.resolve(unplanned.whole if eager is None else eager.peak)
    begin = time.monotonic()
    if unplanned.whole <= amount:
        overhead = _overhead(traced, eager)
        figures = unplanned, unplanned, amount, Status.OPTIMAL, overhead, overhead, _peak(eager)
        return Plan(traced, order, *figures, overhead=overhead), False
    asked = amount - max(0, unplanned.whole - simulate(graph, order).peak)
    search = memory.search(traced.device, graph.duration_unit, unplanned.whole)
    result: Result | None = None
    for _ in range(_TRIES):
        if asked < 1:
            break
        instance = Instance.build(graph, asked, max_computations=traced.problem.counts(most))
        result = search(instance, drive, begin)
        if result.answer is None:
            break
        found = peaks(traced.linear(result.answer))
        if found.whole <= amount:
            bound = bound_within(result, amount, memory, begin, drive.over)
            return _plan(traced, result, found, unplanned, amount, eager, bound), result.interrupted
        if result.interrupted or drive.over():
            break
        if isinstance(memory, OneMemory):
            asked = min(asked, result.peak)
        asked -= found.whole - amount
    if not isinstance(memory, OneMemory):
        raise NoPlanError(infeasible_with_copies(traced.problem, unlimited(traced, most), amount))
    interrupted = result is not None and result.interrupted
    least = least_in_seconds(traced, most, memory, interrupted, drive.over)
    if least.peaks.whole > amount:
        raise NoPlanError(why_none(traced, least, amount, result, _peak(eager) or unplanned.whole))
    return _from_least(traced, memory, least, unplanned, amount, drive, begin, eager)


def _plan(
    traced: Traced, result: Result, found: Peaks, unplanned: Peaks, amount: int, eager: EagerStep | None, bound: int
) -> Plan:
    least = step = result.instance.baseline.duration
    if eager is not None and traced.problem.graph.duration_unit == "ns":
        step = max(step, eager.nanoseconds)  # it does more than call operators, and finds their inputs in no cache
    overhead = _overhead(traced, eager)
    increase, proven = (overhead + (value - least) / step if step else 0.0 for value in (result.duration, bound))
    status = Status.OPTIMAL if result.duration <= bound else Status.FEASIBLE
    figures = found, unplanned, amount, status, increase, max(overhead, proven), _peak(eager)
    answer = tuple(result.answer or ())
    copied = not all(isinstance(each, int) for each in answer)
    computed = tuple(action.node for action in answer if action.source is None) if copied else answer
    return Plan(traced, computed, *figures, actions=answer if copied else (), overhead=overhead)


def _least(traced: Traced, memory: OneMemory, most: int, drive: Drive) -> tuple[Plan, bool]:
    """The plan of least peak that is found, and as short as is found then; and whether an interrupt has ended it."""
    instance = unlimited(traced, most)
    prepare(instance)
    begin = time.monotonic()
    deadline = Deadline(memory.options.time_limit, begin).part(LEAST_SHARE)
    found = least_schedules(instance, memory.options, deadline, drive.over)
    least = LeastFound.of(traced, found)
    unplanned = peaks(traced.linear(instance.order))
    plan, interrupted = _from_least(traced, memory, least, unplanned, least.peaks.whole, drive, begin)
    return replace(plan, least_proven=min(found.proven, plan.peaks.whole)), interrupted


def _from_least(
    traced: Traced, memory: OneMemory, known: LeastFound, unplanned: Peaks, amount: int,
    drive: Drive, begin: float, eager: EagerStep | None = None,
) -> tuple[Plan, bool]:  # fmt: skip
    """The shortest plan that is found within an amount that a schedule is known for, of no more than its peak."""
    least, simulation = known.least, simulate(traced.problem.graph, known.sequence)
    within = replace(least.instance, budget=simulation.peak)
    options = replace(memory.options, time_limit=_AT_ONCE) if least.interrupted else memory.options
    listener = drive.heard(within.graph)
    result = solve_instance(within, options, listener, begin, warm_start=known.sequence, stop=drive.over)
    result = replace(result, interrupted=result.interrupted or least.interrupted)
    found = peaks(traced.linear(result.sequence))
    if found.whole > amount:  # constants and copies live longer
        result, found = replace(result, answer=known.sequence, simulation=simulation), known.peaks
    bound = bound_within(result, amount, memory, begin, drive.over)
    return _plan(traced, result, found, unplanned, amount, eager, bound), result.interrupted


def _bytes(amount: int) -> str:
    return memory_text(amount, "byte")


@dataclass(frozen=True, eq=False)
class Plan:
    """What a training step recomputes, and what it takes: bytes above parameters, buffers and inputs."""

    traced: Traced = field(repr=False)
    sequence: tuple[int, ...] = field(repr=False)
    """Positions of nodes of `graph`, in the order of computing them."""
    peaks: Peaks
    unplanned: Peaks
    """Without recomputation."""
    budget: int
    status: Status
    """"optimal" or "feasible"."""
    predicted_increase: float
    """Increase of the step's time, as a fraction of the eager step's: what is recomputed, and `overhead`.

    The eager step's time is measured where the budget is a fraction or much memory is free, otherwise it is the planned
    step's less what is recomputed; where nothing is run it is that of the operators.
    """
    bound: float
    """Proven of the graph: no schedule within the budget has less, by the same measure."""
    eager_peak: int | None = None
    """Measured at the allocator without the plan; None: it was not."""
    least_proven: int | None = None
    """Bytes that are proven to be necessary for this graph, of a plan with the least budget; None: not sought."""
    overhead: float = 0.0
    """What a plan's code takes without recomputing anything, as a fraction of the eager step's time;
    it may be below 0. Measured where the eager step is, otherwise 0."""
    actions: tuple[Action, ...] = field(default=(), repr=False)
    """With offloading: what is computed and copied; host memory is `memory` 1. Empty: nothing is copied."""

    @property
    def predicted_peak(self) -> int:
        """Bytes at the allocator at the worst moment, operators' workspaces included, if they were measured."""
        return self.peaks.whole

    @property
    def predicted_storage_peak(self) -> int:
        """Bytes of what operators have returned, at the worst moment of that."""
        return self.peaks.storages

    @property
    def first_peak(self) -> int:
        """`predicted_peak` of a step that makes the parameters' `.grad`, where gradients are accumulated."""
        return self.peaks.first

    @property
    def predicted_slow_peak(self) -> int:
        """Bytes in host memory at the worst moment."""
        return self.peaks.slow

    @property
    def copies(self) -> int:
        """How many times what is computed is written to host memory or read back."""
        return sum(action.source is not None for action in self.actions)

    @property
    def estimated(self) -> tuple[str, ...]:
        """Operators that could not be measured by themselves: their time is estimated, and no workspace is counted."""
        return () if self.traced.costs is None else tuple(self.traced.costs.estimated)

    @property
    def linear(self) -> Linear:
        """The instructions of the plan."""
        return self.traced.linear(self.actions or self.sequence)

    @property
    def graph(self) -> ComputationGraph:
        """The computation graph that was planned."""
        return self.traced.problem.graph

    @property
    def recomputations(self) -> int:
        """How many computations are repeated."""
        return len(self.sequence) - len(set(self.sequence))

    def runtime(self, original: Callable[..., PyTree] | None = None) -> Runtime:
        """What runs the plan; `original` is called instead where no gradient is asked for."""
        return runtime_of(self.traced, self.linear, original)

    def module(self) -> torch.nn.Module:
        """A module to train with in place of the network, whose parameters it shares: `loss = plan.module()(x, y)`."""
        return planned_module(self.traced.step.model, self.runtime())

    def install(self, model: torch.nn.Module | None = None) -> None:
        """Let the network's own `forward` run the plan, until `remove`.

        Raises:
            PlanError: it is another network, has a plan already, the loss is part of the plan, or it has hooks.
        """
        own = self.traced.step.model
        if model is not None and model is not own:
            raise PlanError("this is not the network that was planned: make a plan for it")
        if self.traced.step.loss is not None:
            raise PlanError("the loss is part of the plan, the network returns none: use module()")
        if own._forward_hooks or own._forward_pre_hooks:
            raise PlanError("the network has forward hooks, which would be called twice: use module()")
        if isinstance(own.__dict__.get("forward"), Runtime):
            raise PlanError("the network has a plan already: remove it first")
        own.__dict__["forward"] = self.runtime(own.forward)

    def remove(self) -> None:
        """Give the network its own `forward` back.

        Raises:
            PlanError: no plan is installed.
        """
        installed = self.traced.step.model.__dict__.get("forward")
        if not isinstance(installed, Runtime):
            raise PlanError("no plan is installed")
        if getattr(installed.original, "__self__", None) is self.traced.step.model:
            del self.traced.step.model.__dict__["forward"]
        else:
            self.traced.step.model.__dict__["forward"] = installed.original

    def verify(self, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree] | None = None) -> Verification:
        """Run the step with the plan and without, from the same state, and compare; see `verifying`."""
        from moccasin_mzn.pytorch.steps import verified

        return verified(self.traced, self.runtime(), self.peaks, inputs, kwargs or {})

    @property
    def recomputed(self) -> dict[str, int]:
        """How many more times each computation that is repeated is computed, those of most time first.

        The keys are texts for people: operators with the module that calls them, and the node's name in `graph`.
        """
        more = Counter(self.sequence)
        nodes = [node for node, count in more.items() if count > 1]
        nodes.sort(key=lambda node: -(more[node] - 1) * self.graph.durations[node])
        return {called(self.traced.problem, node): more[node] - 1 for node in nodes}

    def plot(self, path: str | PathLike[str] | None = None, by: Axis = "event") -> Drawing | None:
        """Draw the plan as `Result.plot` draws a schedule: memory over time, and when each output is in it.

        Args:
            path: the file, .png, .svg, .pdf or .html; None: an interactive picture is returned.
            by: the unit of the horizontal axis, "event" or "stage".

        Raises:
            InputError: the drawing library is not installed, or the file cannot be written.
        """
        from moccasin_mzn.report.plots.picture import Picture
        from moccasin_mzn.report.shown import drawn

        graph = self.graph
        schedule = self.actions or plan_of_sequence(self.sequence)
        budget = max(self.budget, simulate(graph, self.sequence).peak) if not self.actions else None
        platform = Platform(graph, (Memory("memory", budget, graph.durations),))
        if self.actions:
            platform = with_slow_memory(platform, None, CopyCosts(), CopyCosts())
        return drawn(Picture(platform, schedule, graph.input_order(), by), path)

    def report(self) -> str:
        """A few lines for people."""
        before = self.unplanned.whole if self.eager_peak is None else self.eager_peak
        peak, share = _bytes(self.predicted_peak), self.predicted_peak / before if before else 1.0
        lines = [
            f"{self.status}: {self.recomputations} of {len(set(self.sequence))} computations are repeated",
            f"peak      {peak} of {_bytes(self.budget)}, {100 * share:.1f} % of {_bytes(before)} without the plan",
            f"kept      {_bytes(self.peaks.kept)} from the forward to the backward pass",
            f"duration  {self._duration_text()}",
        ]
        if self.least_proven is not None:
            lines[1] += f"; {_bytes(self.least_proven)} or more is proven to be needed"
        if self.recomputations:
            names = [name if more == 1 else f"{name} {more} times" for name, more in self.recomputed.items()]
            rest = len(names) - _SHOWN
            lines.append("again     " + "; ".join(names[:_SHOWN]) + (f"; {rest} more" if rest > 0 else ""))
        fixed = [f"{kind} {_bytes(amount)}" for kind, amount in self.graph.fixed_memory.items() if amount]
        if fixed:
            lines.append(f"besides   {', '.join(fixed)}; an optimizer's state comes on top of all that")
        if self.traced.gradients == ACCUMULATED:
            lines.insert(
                2, f"first     {_bytes(self.first_peak)} in the first step, which allocates the parameters' .grad"
            )
        if self.copies:
            copies = count_text(self.copies, "copy", "copies")
            lines.append(f"slow      {_bytes(self.predicted_slow_peak)} at most, {copies} there and back")
        if self.estimated:
            some = ", ".join(self.estimated[:3]) + (", ..." if len(self.estimated) > 3 else "")
            could = count_text(len(self.estimated), "operator")
            lines.append(f"estimated {could} could not be measured, the peak lacks what they take inside: {some}")
        return "\n".join(lines)

    def _duration_text(self) -> str:
        """What is recomputed takes, with what is proven of it, and what running a plan's code takes besides."""
        repeated, least = self.predicted_increase - self.overhead, self.bound - self.overhead
        proven = "proven least" if self.status == "optimal" else f"{100 * least:.2f} % or more is proven"
        text = f"{100 * repeated:+.2f} % by recomputation ({proven})"
        if not self.overhead:
            return text
        return f"{text}, {100 * self.overhead:+.2f} % by running a plan's code: {100 * self.predicted_increase:+.2f} %"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan as JSON; the network is not part of it."""
        from moccasin_mzn.pytorch.plan_files import write_plan

        found = {name: getattr(self, name) for name in _FOUND}
        predicted = {name: asdict(getattr(self, name)) for name in _PREDICTED}
        write_plan(path, self.traced, self.actions or self.sequence, {**found, **predicted})

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        model: torch.nn.Module,
        *,
        loss: Callable[[PyTree, PyTree], PyTree] | None = None,
    ) -> Plan:
        """Read a plan of a network, which is traced again to see that it is the same.

        Raises:
            InputError: the file cannot be read or is no plan.
            PlanError: the plan is for another network, or from another version of PyTorch.
        """
        from moccasin_mzn.pytorch.plan_files import read_plan

        traced, actions, found = read_plan(path, model, loss, (*_FOUND, *_PREDICTED))
        found |= {name: Peaks(**found[name]) for name in _PREDICTED} | {"status": Status(found["status"])}
        sequence = tuple(action.node for action in actions if action.source is None)
        copied = actions if len(sequence) < len(actions) else ()
        return cls(traced, sequence, **found, actions=copied)
