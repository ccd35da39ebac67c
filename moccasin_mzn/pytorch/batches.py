"""The largest batch for which a plan is found within a budget, by bisection.

Graphs of other batch sizes mostly have the same nodes, so a schedule that was found for one batch is first tried for
the next; and where even the proven least is above the budget, nothing is sought.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moccasin_mzn.api.frontier.variants import fitting_schedule
from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import exact_memory_text, memory_text
from moccasin_mzn.base.log import note
from moccasin_mzn.base.vocabulary import Gradients, Status
from moccasin_mzn.bounds.least_budget import least_budget_bound, retained_bound
from moccasin_mzn.graphs.importers.torch.trace import require_torch
from moccasin_mzn.heuristics.compiled_searches import compiled_for, join
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import AUTO_COMPUTATIONS, Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.devices import forked_python_state, forked_random_state
from moccasin_mzn.pytorch.errors import NoPlanError, NoTimeError, check_grad_mode
from moccasin_mzn.pytorch.gradients import RETURNED
from moccasin_mzn.pytorch.infeasibility import LeastFound, least_in_time, left, unlimited
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.joint import Differentiate
from moccasin_mzn.pytorch.memories import OneMemory, memories_asked
from moccasin_mzn.pytorch.operator_costs import QuickCosts
from moccasin_mzn.pytorch.options import StepOptions
from moccasin_mzn.pytorch.planning import plan, traced_as_run
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.problem import SCOPE
from moccasin_mzn.pytorch.starts import least_start, start_within
from moccasin_mzn.pytorch.tracing import FLOP, MEASURED, Costs, Traced, without_memory
from moccasin_mzn.search.options import Effort, Options

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    MakeInputs = Callable[[int], Sequence[PyTree] | Mapping[str, PyTree]]

MOST = 1 << 20
"""No larger batch is tried, where nothing else is asked for."""
_SECONDS = 60.0
"""Time limit where none is given."""
_BISECTED, _CONFIRMED, _PLANNED = 0.35, 0.6, 0.6
"""Fractions of the time limit until which batches are tried, without workspaces and with them; and of what is left
then, for a plan."""
_SHARE, _WITHIN = 0.25, 0.2
"""Fraction of what is left for each batch that is not decided at once; and of this, for a schedule within the budget
alone."""
_AGAIN = 0.7
"""Fraction of the time limit until which a search for a plan of a larger batch is begun."""
_COMPUTATIONS = 2
_GROWTH = 8
"""While batches fit, the next one that is tried is this many times as large."""


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch for which a plan was found."""

    batch: int
    budget: int
    """Bytes."""
    predicted_peak: int
    """Bytes of the step with the plan."""
    plan: Plan | None = field(repr=False)
    """None: the network is on the meta device, and nothing can be run."""
    next_proven: int
    """Bytes that a batch of one more is proven to need in the traced order; if that is above the budget, no plan in
    that order is within it. 0: the next batch was not to be tried."""
    next_found: int
    """Bytes of the least plan that was found for a batch of one more."""
    tried: tuple[int, ...]
    """Batches that were tried, in this order."""

    def report(self) -> str:
        """Return some lines for people."""
        amounts = self.predicted_peak, self.budget, self.next_proven, self.next_found
        near = memory_text(self.next_found, "byte") == memory_text(self.budget, "byte")
        peak, budget, proven, found = ((exact_memory_text if near else memory_text)(each, "byte") for each in amounts)
        lines = [f"batch  {self.batch}: {peak} of {budget}"]
        if self.next_proven > self.budget:
            lines.append(f"next   {self.batch + 1}: proven to need {proven} {SCOPE}")
        elif self.next_found:
            least = f"{found} with the least, {proven} are proven to be needed {SCOPE}"
            lines.append(f"next   {self.batch + 1}: no plan was found, {least}")
        return "\n".join(lines)


@checked(as_given=("model", "budget"))
def largest_batch(
    model: torch.nn.Module,
    make_inputs: MakeInputs,
    budget: str | int | Budget,
    *,
    loss: Callable[..., PyTree] | None = None,
    differentiate: Differentiate = None,
    gradients: Gradients = RETURNED,
    most: int = MOST,
    time_limit: float = _SECONDS,
    threads: int | None = None,
    seed: int | None = None,
) -> LargestBatch:
    """Find the largest batch for which there is a plan within a budget. THIS RUNS THE NETWORK'S CODE.

    Args:
        make_inputs: returns the inputs for a batch of this many, as for `plan`: a sequence, or values by name. It is
            called for larger batches too, with tensors that have no memory where that can be.
        budget: of the step, as for `plan`; an amount.
        loss, differentiate, gradients: as for `plan`.
        most: the largest batch to try.
        time_limit: seconds for all of it: for trying batches, at most 60 %, and for the plan. Once that is over, the
            largest batch so far is the answer.

    Raises:
        NoPlanError: there is none for a batch of one, or none was found in time.
        PlanError: the network cannot be planned.
        InputError: nonsense in an argument.
    """
    effort, deadline = Effort(time_limit, threads, seed), Deadline(time_limit)
    require_torch()
    check_grad_mode()
    StepOptions(gradients=gradients)
    limit = Budget.of(budget)
    if limit.amount is None:
        raise InputError(f"budget {shown(budget)}: the largest batch is for an amount, such as 8GiB")
    if type(most) is not int or most < 1:
        raise InputError(f"most {shown(most)}: expected the largest batch to try, at least 1")
    memory = memories_asked(None, None, vars(effort))
    assert isinstance(memory, OneMemory)
    trials = _Trials(Step(model, loss), make_inputs, limit.amount, differentiate, gradients, memory.options, deadline)
    best, above = trials.bisected(most)
    found: Plan | None = None

    def planned(batch: int) -> Plan:
        args, kwargs = _inputs(make_inputs, batch)
        seconds = _PLANNED * left(deadline)
        if seconds <= 0:
            raise NoTimeError(_late(deadline, trials.tried))
        return plan(
            model, args, kwargs=kwargs, loss=loss, differentiate=differentiate, gradients=gradients,
            budget=limit, time_limit=seconds, threads=threads, seed=seed,
        )  # fmt: skip

    while not trials.without_memory:
        trials.measured = True
        best, above = trials.confirmed(best, most)
        try:
            found = planned(best.batch)
            break
        except NoPlanError as error:
            found = trials.plan_of(best.batch)
            if found is not None:
                break
            if isinstance(error, NoTimeError):
                raise
            above = replace(best, peak=max(best.peak, limit.amount + 1))
            trials.known[best.batch, True] = above
            best = Trial(best.batch - 1, 0, 0)
    while found is not None and above.batch <= most and above.proven <= limit.amount and not deadline.over(_AGAIN):
        try:  # the search has more time
            found = planned(above.batch)
        except NoPlanError:
            break
        best, above = above, trials.of(above.batch + 1)
    peak = best.peak if found is None else found.predicted_peak
    nothing = above.batch > most
    return LargestBatch(
        best.batch, limit.amount, peak, found, 0 if nothing else above.proven, 0 if nothing else above.peak,
        tuple(trials.tried),
    )  # fmt: skip


def _late(deadline: Deadline, tried: Sequence[int]) -> str:
    """That there was no time for a plan."""
    some = ", ".join(map(str, tried))
    return f"time_limit {deadline.seconds:g}: there was no time for a plan after batches were tried ({some})"


@dataclass(frozen=True)
class Trial:
    """What is known of a batch."""

    batch: int
    peak: int
    """Bytes of the plan of least peak that was found."""
    proven: int
    """Bytes that every plan takes."""


@dataclass(eq=False)
class _Trials:
    step: Step
    make_inputs: MakeInputs
    budget: int
    differentiate: Differentiate
    gradients: Gradients
    options: Options
    deadline: Deadline
    measured: bool = False
    """Count the workspaces of operators."""
    without_memory: bool = False
    """Nothing can be run."""
    known: dict[tuple[int, bool], Trial] = field(default_factory=dict)
    tried: list[int] = field(default_factory=list)
    costs: QuickCosts = field(default_factory=QuickCosts)
    schedules: list[tuple[Traced, tuple[int, ...]]] = field(default_factory=list)
    """Schedules that were within the budget, or nearest to it, the latest first."""
    fitting: dict[int, tuple[Traced, tuple[int, ...]]] = field(default_factory=dict)
    """Schedules within the budget, workspaces included, by batch."""

    def over(self) -> bool:
        """Is no more batch to be tried?"""
        return self.deadline.over(_CONFIRMED if self.measured or self.without_memory else _BISECTED)

    def plan_of(self, batch: int) -> Plan | None:
        """The plan that was found while the batch was tried; None if absent."""
        if batch not in self.fitting:
            return None
        traced, sequence = self.fitting[batch]
        order = traced.problem.graph.input_order()
        taken, unplanned = (peaks(traced.linear(each)) for each in (sequence, order))
        duration, least = (simulate(traced.problem.graph, each).duration for each in (sequence, order))
        increase = (duration - least) / least if least else 0.0
        status = Status.OPTIMAL if duration == least else Status.FEASIBLE
        return Plan(traced, sequence, taken, unplanned, self.budget, status, increase, 0.0)

    def bisected(self, most: int) -> tuple[Trial, Trial]:
        """The largest batch that fits, and the next one, which does not."""
        best = self._first()
        while best.batch < most and not self.over():
            trial = self.of(min(_GROWTH * best.batch, most))
            if not self._fits(trial):
                return self._between(best, trial)
            best = trial
        return best, Trial(min(best.batch, most) + 1, 0, 0)

    def confirmed(self, best: Trial, most: int) -> tuple[Trial, Trial]:
        """The same with the workspaces of operators, and traced as it runs where that can be."""
        now, step = self.of(max(1, best.batch)), 1
        if not self._fits(now):
            return self._between(self._first(), now)
        while now.batch < most and not self.over():
            trial = self.of(min(now.batch + step, most))
            if not self._fits(trial):
                return self._between(now, trial)
            now, step = trial, 2 * step
        return now, Trial(min(now.batch, most) + 1, 0, 0)

    def _first(self) -> Trial:
        one = self.of(1)
        if not self._fits(one):
            proven, least = (memory_text(amount, "byte") for amount in (one.proven, one.peak))
            raise NoPlanError(
                f"budget {memory_text(self.budget, 'byte')}: no plan was found for a batch of 1, which takes at least "
                f"{proven}, which is proven, and {least} with the least plan that was found; proofs are about plans "
                f"{SCOPE}"
            )
        return one

    def _between(self, best: Trial, above: Trial) -> tuple[Trial, Trial]:
        halve = False
        while (width := above.batch - best.batch) > 1 and not self.over():
            middle = self.of(best.batch + (width // 2 if halve else self._guess(best, above)))
            best, above = (middle, above) if self._fits(middle) else (best, middle)
            halve = 2 * (above.batch - best.batch) > width
        return best, above

    def _guess(self, best: Trial, above: Trial) -> int:
        """How much larger a batch than the best may be, if peaks, or where it is proven what is needed, grow evenly."""
        proven = above.proven > self.budget
        low, high = (best.proven, above.proven) if proven else (best.peak, above.peak)
        width = above.batch - best.batch
        guess = width * (self.budget - low) / max(1, high - low)
        return min(max(1, math.ceil(guess) if proven else math.floor(guess)), width - 1)

    def _fits(self, trial: Trial) -> bool:
        return trial.peak <= self.budget

    def of(self, batch: int) -> Trial:
        """Trace the step for a batch, and find the least peak, or one that is within the budget."""
        key = batch, self.measured
        if key not in self.known:
            self.tried.append(batch)
            try:
                self.known[key] = trial = self._tried(batch)
            except NoTimeError:
                if not (self.fitting if self.measured else self.known):
                    raise
                trial = self.known[key] = Trial(batch, self.budget + 1, 0)
            peak, proven = memory_text(trial.peak, "byte"), memory_text(trial.proven, "byte")
            note(f"batch {batch}: {'a plan' if self._fits(trial) else 'none'}, {peak}, proven {proven}")
        return self.known[key]

    def _tried(self, batch: int) -> Trial:
        traced = self._traced(batch)
        instance = unlimited(traced, _COMPUTATIONS)
        order = instance.order
        candidates = [tuple(order), *(found for other, found in self.schedules if _same_nodes(other, traced))]
        taken = {each: peaks(traced.linear(each)).whole for each in candidates}
        best = min(taken, key=taken.__getitem__)
        floor = min(max(retained_bound(instance), least_budget_bound(traced.problem.graph).memory), taken[best])
        if taken[best] <= self.budget and self.measured:
            self.fitting[batch] = traced, best
        if taken[best] <= self.budget or floor > self.budget:
            return Trial(batch, taken[best], floor)
        sequence, proven = self._sought(traced, instance)
        peak = peaks(traced.linear(sequence)).whole
        self.schedules.insert(0, (traced, sequence))
        if peak <= self.budget and self.measured:
            self.fitting[batch] = traced, sequence
        return Trial(batch, min(peak, taken[best]), min(max(floor, proven), peak, taken[best]))

    def _sought(self, traced: Traced, instance: Instance) -> tuple[tuple[int, ...], int]:
        """A schedule within the budget, or of least peak; and what is proven of the least."""
        limit = Deadline(_SHARE * left(self.deadline))
        loaded = join(limit.over, lambda: left(limit), *compiled_for(False))
        order = tuple(instance.order)
        constant = peaks(traced.linear(order)).whole - unlimited(traced, 1).baseline.peak
        asked = self.budget - max(0, constant)
        if asked > 0:
            within = start_within(traced.problem, asked, (AUTO_COMPUTATIONS,), limit=limit)
            if within is None and loaded:
                soon = Deadline(_WITHIN * left(limit))
                within = fitting_schedule(replace(instance, budget=asked), self.options.seed or 0, soon.over)
            if within is not None and peaks(traced.linear(within)).whole <= self.budget:
                return within, 0
        known = least_start(traced.problem, AUTO_COMPUTATIONS, limit=limit)
        least = least_in_time(instance, self.options, limit, known=known)
        return LeastFound.of(traced, least, limit.over).sequence, least.proven

    def _traced(self, batch: int) -> Traced:
        args, kwargs = _shapes(self.make_inputs, batch) if not self.measured else _inputs(self.make_inputs, batch)
        arguments, tensors = Structure.of_call(args, kwargs)
        forms = [Form.of(tensor) for tensor in tensors]
        self.without_memory = without_memory(self.step.model, forms)
        if self.measured:
            costs, budget = Costs(FLOP, MEASURED, self.costs, end=self.deadline), Budget(amount=self.budget)
            return traced_as_run(
                self.step, arguments, tensors, budget, self.gradients, self.differentiate, self.deadline
            ).priced(costs)
        return Traced.of(
            self.step, arguments, forms, None, self.gradients, differentiate=self.differentiate, limit=self.deadline
        )


def _same_nodes(one: Traced, other: Traced) -> bool:
    mine, its = one.problem.graph, other.problem.graph
    return mine.nodes == its.nodes and mine.predecessors == its.predecessors


def _inputs(make: MakeInputs, batch: int) -> tuple[Sequence[PyTree], Mapping[str, PyTree]]:
    made = make(batch)
    return ((), made) if isinstance(made, Mapping) else (made, {})


def _shapes(make: MakeInputs, batch: int) -> tuple[Sequence[PyTree], Mapping[str, PyTree]]:
    """The inputs without memory; where they cannot be made so, as they are."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with forked_random_state(), forked_python_state():
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                return _inputs(make, batch)
        except Exception:  # whatever the function does with their numbers
            return _inputs(make, batch)
