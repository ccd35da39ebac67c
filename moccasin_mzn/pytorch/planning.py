"""The search for a plan: the shortest within a budget, or that of least peak."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Unpack, overload

from moccasin_mzn.api.driving import Drive, Interrupts, OnProgress
from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.log import note
from moccasin_mzn.base.stop import Criteria, Stop
from moccasin_mzn.base.vocabulary import (
    BudgetOf,
    Durations,
    EffortArguments,
    Gradients,
    SearchArguments,
    Shapes,
    Workspaces,
)
from moccasin_mzn.graphs.importers.torch.trace import require_torch
from moccasin_mzn.machine.problems import Amount
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.devices import CPU
from moccasin_mzn.pytorch.errors import NoTimeError, OtherCallError, PlanError, UntraceableError, check_grad_mode
from moccasin_mzn.pytorch.gradients import ACTIVATIONS, RETURNED, STEP
from moccasin_mzn.pytorch.instructions import gradient_bytes, peaks
from moccasin_mzn.pytorch.joint import Differentiate
from moccasin_mzn.pytorch.loops import Make
from moccasin_mzn.pytorch.measuring import free_memory
from moccasin_mzn.pytorch.memories import OneMemory, Paging, memories_asked
from moccasin_mzn.pytorch.operator_costs import MEASURED_COSTS
from moccasin_mzn.pytorch.operator_process import NO_DEADLINE, worker
from moccasin_mzn.pytorch.options import StepArguments, StepOptions, refuse_counted
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.region_planning import RegionEffort, Regions, plan_regions
from moccasin_mzn.pytorch.regions import RegionPlan
from moccasin_mzn.pytorch.searching import Searching
from moccasin_mzn.pytorch.steps import SAFELY, eager_peak_or_none, scratch_copy, step_times
from moccasin_mzn.pytorch.tracing import MEASURED, Costs, Traced, without_memory
from moccasin_mzn.pytorch.trust import INTERRUPTED, SWITCHED_OFF, Trust, room_for, trusted
from moccasin_mzn.search.options import gap_of, model_options

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree


ONE: Final = "one"
EACH: Final = "each"
LEAST = "least"
"""The budget that asks for the plan of least peak."""
SEARCH_SECONDS = 60.0
"""Time limit of the search where none is given."""
TIMING_SHARE = 0.1
"""Fraction of the time limit to run steps at the end."""
_AFTERWARDS = 0.5
"""What follows the search takes as a fraction of tracing, whatever else the machine does."""


class PlanArguments(StepArguments, EffortArguments, SearchArguments, total=False):
    """The arguments of `plan` that have a name."""

    kwargs: Mapping[str, PyTree] | None
    loss: Callable[..., PyTree] | None
    differentiate: Differentiate
    order: Literal["input"]
    paging: Paging | None
    slow_memory: Amount | None
    stop: Stop | None
    on_progress: OnProgress | None
    interrupts: Interrupts
    verify: bool


@overload
def plan(
    model: torch.nn.Module, inputs: Sequence[PyTree], *, regions: None = None, **how: Unpack[PlanArguments]
) -> Plan: ...


@overload
def plan(
    model: torch.nn.Module, inputs: Sequence[PyTree], *, regions: Regions, **how: Unpack[PlanArguments]
) -> RegionPlan: ...


@checked(others=model_options, as_given=("model", "inputs", "kwargs"))
def plan(
    model: torch.nn.Module,
    inputs: Sequence[PyTree],
    *,
    kwargs: Mapping[str, PyTree] | None = None,
    loss: Callable[..., PyTree] | None = None,
    differentiate: Differentiate = None,
    budget: str | int | float | Fraction | Budget,
    of: BudgetOf = STEP,
    time_limit: float | None = SEARCH_SECONDS,
    threads: int | None = None,
    seed: int | None = None,
    order: Literal["input"] = "input",
    max_computations: int = 2,
    durations: Durations = MEASURED,
    workspaces: Workspaces = MEASURED,
    gradients: Gradients = RETURNED,
    paging: Paging | None = None,
    slow_memory: Amount | None = None,
    regions: Regions | None = None,
    stop: Stop | None = None,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
    shapes: Shapes = "one",
    verify: bool = True,
    **how: Unpack[SearchArguments],
) -> Plan | RegionPlan:
    """Find what to recompute in a training step, so that it keeps within a budget. THIS RUNS THE NETWORK'S CODE.

    The network is traced as it is: in training mode or not, under autocast or not, with these parameters to train. Its
    operators are then measured one by one, on this machine as it is set now (threads, libraries). If a parameter or an
    input is on the meta device nothing is run or measured.

    Args:
        inputs: tensors and whatever else the network is called with: the step is run on them, from its own state, which
            is left as it was. Of tensors on the meta device only the forms matter.
        kwargs: the same by name.
        loss: a function of the network's outputs, such as `lambda out: out.loss`, or of them and a target, which is
            then the last of the inputs. None: the loss is an output of the network, or computed from its outputs by
            the caller of the step.
        differentiate: the outputs whose gradients the backward pass is called with: names such as "loss" or
            "hidden_states.0", positions, or "all". None: those called loss; else the only one that is a single number
            and requires a gradient; else all that require one. A gradient of another output is refused.
        budget: of the allocator's memory above parameters, buffers and inputs: bytes, or a fraction of the peak of the
            step as it is, which is run for that; if it cannot be for lack of memory, of what is predicted of it; or
            "least": the least that a plan is found for in a part of the time; the rest is for the shortest one. For
            bytes and "least" the step as it is is run only where four times the memory that it takes is free.
        of: what a fraction is of: "step", or "activations": then it is of what is above the gradients that stay to the
            end of the step, which no plan changes, and these are added.
        time_limit: seconds for all of it, imports and tracing included. Operators are timed for 40 % of what tracing
            leaves, those that touch most memory first; the time of others is estimated, see `Plan.estimated`. A tenth
            is for timing the step at the end, the search has the rest. Steps that there is no time for are not run. If
            tracing, or calling each operator for the memory that it takes, is not done in time, that is an error.
        order: "input", that of the trace; gradients are computed earlier or later where that alone is enough, or where
            no plan is made otherwise.
        max_computations: how often anything may be computed, if that is enough; or come into memory, with `paging`.
        durations: "measured", or "flop" to minimize floating-point operations.
        workspaces: "measured", or "none": then the budget is of what operators return, and they may take more.
        gradients: "returned": those of all parameters are there at the end of the backward pass; "accumulated": each is
            added to the parameter's `.grad` when it is there, and counts as long as that takes. `.grad` itself counts
            for nothing then: it is there before, but in the first step, see `Plan.first_peak`.
        paging: True: outputs may be written to host memory and read back, the host's on CUDA, which takes as long as is
            measured; or what that takes for each byte, in the unit of durations, such as {"out_time": 0.1}.
        slow_memory: its capacity, as a budget, which asks for paging by itself; None: as much as there may be.
        regions: None: the whole step is planned. "auto": the largest submodules that can be are planned, each on its
            own, under the budget of the whole step, which is run for that; what is between them runs as it is. Or names
            of submodules in which they are sought.
        stop: see `moccasin_mzn.solve`; of the search, as the time limit; `Iterations` is refused, for durations are
            measured and differ from call to call.
        on_progress: called with a `moccasin_mzn.Progress` at once, for every new incumbent and bound, and at least
            once a second, by another thread where nothing is new; its `source` then states what is being done. See
            `moccasin_mzn.solve`.
        interrupts: see `moccasin_mzn.solve`.
        shapes: "one": inputs of another shape, and another mode of the network (which parameters require a gradient,
            training mode, autocast), are refused; "each": when they come first, a plan is made for them by the same
            options, within the budget in bytes that this one has; where nothing has to be recomputed for that, the step
            runs as it is.
        verify: compare a planned step to the step as it is before the plan is trusted, from the same state, which is
            left as it was: where there are numbers and enough memory is free. Otherwise the first call of the plan is
            compared. False: neither.
        how: further options of `moccasin_mzn.solve`.

    Raises:
        NoPlanError: no plan within the budget was found; the message names what is proven, or what took the time.
        PlanError: the network cannot be planned, or its planned step is not equal to the step as it is.
        InputError: nonsense in an argument.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    began = time.monotonic()
    require_torch()
    check_grad_mode()
    if order != "input":
        raise InputError(f"order {shown(order)}: plans are for the order of the trace, input")
    StepOptions(budget, of, durations, workspaces, gradients, shapes, max_computations)
    again = partial(
        plan, model, loss=loss, differentiate=differentiate, time_limit=time_limit, threads=threads, seed=seed,
        max_computations=max_computations, durations=durations, workspaces=workspaces, gradients=gradients,
        paging=paging, slow_memory=slow_memory, stop=stop, on_progress=on_progress, interrupts=interrupts,
        verify=verify, **how,
    )  # fmt: skip
    criteria = Criteria.of(stop, time_limit, gap_of(how.pop("until_gap", None)), default=SEARCH_SECONDS)
    refuse_counted(criteria, how)
    drive, deadline = Drive("pytorch.plan", on_progress, criteria, interrupts), Deadline(criteria.time_limit, began)
    arguments, tensors = Structure.of_call(inputs, kwargs)
    amount = _amount(budget, of)
    options = {"time_limit": deadline.seconds, "threads": threads, "seed": seed, **how}
    options |= {} if criteria.gap is None else {"until_gap": criteria.gap}
    memory = memories_asked(paging, slow_memory, options)
    if amount is None and not isinstance(memory, OneMemory):
        raise InputError(f"budget {LEAST} is for recomputation alone, it does not go with offloading to host memory")
    costs = Costs(durations, workspaces, MEASURED_COSTS)
    step = Step(model, loss)
    with drive.signs_of_life(began):
        drive.begins("tracing the network", began)
        MEASURED_COSTS.forget_failures()
        if regions is not None:
            if amount is None or not isinstance(memory, OneMemory) or of != STEP or shapes != ONE:
                text = f"an amount or a fraction of the step, not {LEAST}, and with shapes {ONE}"
                raise InputError(f"regions go with recomputation alone, with {text}")
            with _gradients_on():
                parts = plan_regions(
                    step, inputs, kwargs or {}, differentiate=differentiate, budget=amount, regions=regions,
                    gradients=gradients, effort=RegionEffort(costs, memory.options, max_computations, drive, deadline),
                )  # fmt: skip
            return parts.checked(inputs, kwargs or {}) if verify else parts
        try:
            traced = traced_as_run(step, arguments, tensors, amount, gradients, differentiate, deadline)
        except UntraceableError as error:
            text = f'{error.reason}; to plan the parts that can be: plan(..., regions="auto")'
            raise UntraceableError(text, Page.REGIONS) from error
        tracing = deadline.elapsed()
        searching = Searching(traced, memory, max_computations, drive, began, end=deadline)
        if amount is not None and amount.fraction is not None and not deadline.short_of(tracing):
            drive.begins("running the step as it is", began)
            searching = replace(searching, eager_peak=eager_peak_or_none(traced, inputs, kwargs or {}))
        _refuse_impossible(searching, amount, of)
        drive.begins("measuring operators", began)
        searching = replace(searching, traced=traced.priced(costs.within(deadline)))
        drive.begins("searching for a plan", began)
        limit = _search_seconds(deadline, tracing)
        searching = replace(searching, memory=memories_asked(paging, slow_memory, {**options, "time_limit": limit}))
        if amount is None:
            found, interrupted = searching.of_least_peak()
        else:
            found, interrupted = searching.within(_limit(amount, of, searching.traced, searching.eager_peak))
        try:
            drive.begins("comparing a planned step", began)
            found = replace(found, trust=_trust(found, inputs, kwargs or {}, deadline) if verify else SWITCHED_OFF)
            if found.trust.known is not None:
                note(f"the planned step is {found.trust}")
            drive.begins("timing steps", began)
            found = _timed(found, inputs, kwargs or {}, deadline)
        except KeyboardInterrupt:
            interrupted = True
        interrupted = interrupted or found.trust is INTERRUPTED
    return drive.ended(replace(found, of=of, another=_for_calls(again) if shapes == EACH else None), interrupted)


def _gradients_on() -> AbstractContextManager[object]:
    import torch

    return torch.enable_grad()


def _search_seconds(deadline: Deadline, tracing: float) -> float | None:
    """When the search is to end, in seconds from the beginning of the call.

    Args:
        tracing: seconds that tracing has taken.
    """
    left = deadline.remaining()
    if deadline.seconds is None or left is None:
        return None
    afterwards = min(TIMING_SHARE * deadline.seconds + _AFTERWARDS * tracing, left / 2)
    return deadline.elapsed() + left - afterwards


def _refuse_impossible(searching: Searching, amount: Budget | None, of: BudgetOf) -> None:
    """Where it is known before anything is measured that no plan is within a budget.

    Raises:
        NoPlanError: it is.
    """
    eager = searching.eager_peak
    if amount is not None and (amount.fraction is None or eager is not None):
        limit = _limit(amount, of, searching.traced, eager)
        searching.refuse_impossible(limit.resolve(eager or 1))


def _for_calls(again: Callable[..., Plan]) -> Make:
    """What makes plans for other calls."""
    return lambda args, kwargs, budget: again(args, kwargs=kwargs, budget=budget)


def _limit(budget: Budget, of: BudgetOf, traced: Traced, eager_peak: int | None) -> Budget:
    """A budget in bytes where it is a fraction of the activations, else as it is."""
    if of == STEP:
        return budget
    plain = traced.linear(traced.problem.graph.input_order())
    stays, whole = gradient_bytes(plain), eager_peak or peaks(plain).whole
    return Budget(amount=stays + budget.resolve(max(1, whole - stays)))


def traced_as_run(
    step: Step, arguments: Structure, tensors: Sequence[torch.Tensor], amount: Budget | None,
    gradients: Gradients, differentiate: Differentiate, limit: Deadline = NO_DEADLINE,
) -> Traced:  # fmt: skip
    """The step traced as it runs, where it can be run for that, else on tensors without numbers; nothing is measured.

    It can where it is run for a fraction of its peak in any case, and where several times its memory is free; of a step
    that cannot be traced without numbers that is not known, so that it is several times the budget.

    Raises:
        NoTimeError: the limit was over before.
    """
    forms = [Form.of(tensor) for tensor in tensors]
    trace = partial(
        Traced.of, step, arguments, forms, gradients=gradients, differentiate=differentiate, limit=limit
    )  # fmt: skip
    if without_memory(step.model, forms):
        return trace()
    worker().begin()
    free = free_memory(forms[0].device if forms else CPU)
    if amount is None or amount.fraction is None:
        try:
            seen = trace()
            need = peaks(seen.linear(seen.problem.graph.input_order())).whole
        except NoTimeError:
            raise
        except PlanError:
            if amount is None:
                raise
            need = amount.resolve(0)
        if free is None or SAFELY * need > free:
            return trace()
    try:
        return trace(numbers=tensors)
    except PlanError:
        raise
    except Exception:  # too little memory, an operator that can only be traced without numbers, or the network's own
        return trace()


def _amount(budget: str | int | float | Fraction | Budget, of: BudgetOf) -> Budget | None:
    """Return a budget; None: the least."""
    found = _read(budget)
    if of == ACTIVATIONS and (found is None or found.fraction is None):
        raise InputError(f"budget {shown(budget)}: of {ACTIVATIONS} there is a fraction, such as 0.5")
    return found


def _read(budget: str | int | float | Fraction | Budget) -> Budget | None:
    if isinstance(budget, str) and budget.strip().lower() == LEAST:
        return None
    try:
        return Budget.of(budget)
    except InputError as error:
        raise InputError(f"{error}, or {LEAST}") from None


def _timing(deadline: Deadline) -> Deadline:
    """For running steps at the end."""
    left = deadline.remaining()
    if deadline.seconds is None or left is None:
        return Deadline()
    return Deadline(min(left, TIMING_SHARE * deadline.seconds))


def _trust(found: Plan, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], deadline: Deadline) -> Trust:
    """What comes of comparing a planned step to the step as it is; of long steps that is left to the first call."""
    traced, graph = found.traced, found.graph
    if without_memory(traced.step.model, traced.forms):
        return Trust(left_out="there are no numbers to run it on")
    two = 2 * graph.total_duration / 1e9 if graph.duration_unit == "ns" else 0.0
    if deadline.short_of(two):
        return Trust(left_out="two steps take longer than what is left of the time limit")
    if (reason := room_for(found.step_bytes, traced.device, found.eager_peak is not None)) is not None:
        return Trust(left_out=reason)
    copies = partial(scratch_copy, traced, inputs, kwargs)
    try:
        return trusted(copies, found.runtime(), traced.step, [traced.joint])
    except OtherCallError as error:
        raise PlanError(
            f"the first call of the network changes what later ones read or take, such as the ranges of observers, so "
            f"that a plan is not for the first one: call the network once, then plan ({error.reason})"
        ) from error
    except KeyboardInterrupt:
        return INTERRUPTED


def _timed(found: Plan, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], deadline: Deadline) -> Plan:
    """With increases as fractions of the eager step's time, instead of the operators'; steps are run for a part of the
    time limit."""
    known = found.eager_peak is not None
    if found.graph.duration_unit != "ns" or not (found.changes or known):
        return found
    free = free_memory(found.traced.device)
    if deadline.over():
        return found
    times = step_times(
        found.traced, found.runtime(), found.predicted_increase, inputs, kwargs,
        eager=known or (free is not None and SAFELY * found.unplanned.whole <= free), deadline=_timing(deadline),
    )  # fmt: skip
    increase, bound = (times.overhead + times.share * value for value in (found.predicted_increase, found.bound))
    return replace(
        found, predicted_increase=increase, bound=bound, overhead=times.overhead, measured_increase=times.increase
    )
