"""Will it fit: what a training step takes, found without running it.

The step is run on tensors without memory (see `dry_runs`), so that it takes a second or so and no memory, also for
networks that are larger than this machine, or on the meta device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import bytes_text
from moccasin_mzn.base.log import underway
from moccasin_mzn.base.vocabulary import Gradients, Workspaces
from moccasin_mzn.graphs.importers.torch.trace import require_torch
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.cards import RESERVE, Target, target_of
from moccasin_mzn.pytorch.devices import CPU, CUDA, given_out, kind_of_device
from moccasin_mzn.pytorch.dry_runs import DryRun, dry_run
from moccasin_mzn.pytorch.errors import PlanError, check_grad_mode
from moccasin_mzn.pytorch.gradients import RETURNED
from moccasin_mzn.pytorch.infeasibility import LeastFound, least_in_time, left, unlimited
from moccasin_mzn.pytorch.instructions import Linear, peaks
from moccasin_mzn.pytorch.joint import Differentiate
from moccasin_mzn.pytorch.memories import OneMemory, memories_asked
from moccasin_mzn.pytorch.operator_costs import QuickCosts
from moccasin_mzn.pytorch.optimizers import maker_of, name_of
from moccasin_mzn.pytorch.options import StepOptions
from moccasin_mzn.pytorch.problem import SCOPE
from moccasin_mzn.pytorch.recording import BACKWARD, FORWARD, OPTIMIZER
from moccasin_mzn.pytorch.timelines import KINDS, Timeline, timeline_of
from moccasin_mzn.pytorch.tracing import FLOP, MEASURED, MEMORY_SHARE, Costs, Traced, within, without_memory
from moccasin_mzn.report.shown import Drawing, Shown
from moccasin_mzn.search.options import Effort

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.optimizers import Chosen

ESTIMATE_SECONDS = 20.0
"""Time limit where none is given."""
_LEAST_SECONDS, _LEAST_SHARE, _END_SHARE = 5.0, 0.25, 0.9
"""Seconds, or a fraction of the time limit if that is longer, that the search for the least peak takes at most; and the
fraction of what is left then."""
_FEWEST = 4
"""A table by module has more rows than this, if there are modules enough."""


@dataclass(frozen=True)
class LeastPeak:
    """The least that a step takes with a plan."""

    step: int
    """Bytes of the forward and backward pass with the plan of least peak that was found, as `Plan.predicted_peak`."""
    proven: int
    """Bytes: no plan takes less."""


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """What a training step takes, in bytes."""

    parameters: int
    buffers: int
    inputs: int
    optimizer_state: int
    gradients: int
    """At the end of the backward pass."""
    activations: int
    """At the end of the forward pass: what is retained for the backward pass, and the outputs."""
    step_peak: int
    """The peak of the forward and backward pass, above parameters, buffers, inputs and the optimizer's state: what
    budgets are of."""
    optimizer_peak: int
    """The peak of the optimizer's step, above the same: gradients, outputs, and what it takes while it runs."""
    phase: str
    """When the peak is: "forward pass", "backward pass" or "optimizer step"."""
    module: str
    """Where the peak is: the path of the module whose operator runs then; "" outside of modules."""
    least: LeastPeak | None
    """With a plan; None: not sought, or it cannot be planned."""
    no_plan: str
    """Why it cannot be planned; "" if it can, or if that was not sought."""
    optimizer: str
    """The optimizer's name; "": none."""
    device: str
    capacity: int | None
    """Bytes of the device's memory; None: not known, or not asked for."""
    workspaces: bool
    """The workspaces of operators were measured and are counted."""
    notes: tuple[str, ...]
    """What makes the estimate less certain."""
    timeline: Timeline = field(repr=False)
    parameters_of: Mapping[str, tuple[int, int]] = field(repr=False)
    """By path of a module: bytes of its own parameters, and of the optimizer's state of them."""

    @property
    def fixed(self) -> int:
        """Bytes that are in memory all the time: parameters, buffers, inputs and the optimizer's state."""
        return self.parameters + self.buffers + self.inputs + self.optimizer_state

    @property
    def step(self) -> int:
        """The line "step" of the report: `step_peak`."""
        return self.step_peak

    @property
    def peak(self) -> int:
        """Bytes of all that at the worst moment, without a plan."""
        return self.fixed + max(self.step_peak, self.optimizer_peak)

    @property
    def least_peak(self) -> int | None:
        """Bytes of all that at the worst moment with the plan of least peak that was found; None if absent."""
        return None if self.least is None else self.fixed + max(self.least.step, self.optimizer_peak)

    @property
    def fits(self) -> bool | None:
        """Does it fit without a plan, with some memory left for the device's libraries? None: not known."""
        return None if self.capacity is None else self.peak + RESERVE <= self.capacity

    @property
    def fits_with_plan(self) -> bool | None:
        """Does it fit with a plan? None: not known."""
        if self.capacity is None or self.least_peak is None:
            return self.fits
        return self.least_peak + RESERVE <= self.capacity

    def figures(self) -> dict[str, str]:
        """Return the lines of the report, by name."""
        where = f"{self.phase}, in '{self.module}'" if self.module else self.phase
        worst = dict(zip(KINDS, self.timeline.worst.memory, strict=True))
        fixed = {"parameters": self.parameters, "buffers": self.buffers, "inputs": self.inputs}
        found = {"peak": f"{bytes_text(self.peak)} in the {where}"}
        if self.capacity is not None:
            found["fits"] = self._fits_text()
        found["always"] = _list({**fixed, f"state of {self.optimizer or 'an optimizer'}": self.optimizer_state})
        found["then"] = _list(worst) or "nothing more"
        found["step"] = (
            f"{bytes_text(self.step_peak)}, which budgets of plans are of: the forward and backward pass alone"
        )
        found["with a plan"] = self._least_text()
        found["kept"] = f"activations {bytes_text(self.activations)} at the end of the forward pass"
        found["gradients"] = f"{bytes_text(self.gradients)} at the end of the backward pass"
        if self.optimizer:
            found["optimizer"] = f"{bytes_text(self.optimizer_peak)} in its step, gradients included"
        if self.notes:
            found["but"] = "; ".join(self.notes)
        return found

    def _fits_text(self) -> str:
        capacity, reserve = bytes_text(self.capacity or 0), bytes_text(RESERVE)
        if self.fits:
            text = "yes"
        elif self.least is None:
            text = "no"
        else:
            text = "with a plan" if self.fits_with_plan else "not even with a plan of those that were found"
        return f"{text}: {self.device} has {capacity}, of which {reserve} are left for its libraries"

    def _least_text(self) -> str:
        if self.least is None:
            return f"not known: {self.no_plan}" if self.no_plan else "not sought"
        share = f", {100 * self.least.step / self.step_peak:.1f} %" if self.step_peak else ""
        proven = f"{bytes_text(self.least.proven)} are proven to be needed {SCOPE}"
        return f"the step in {bytes_text(self.least.step)}{share}; {proven}"

    def report(self) -> str:
        """Return some lines for people."""
        figures = self.figures()
        width = max(map(len, figures))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in figures.items())

    def as_dict(self) -> JsonObject:
        """Return all figures in bytes, and a row for each module."""
        amounts = (
            "peak", "fixed", "parameters", "buffers", "inputs", "optimizer_state", "gradients", "activations",
            "step_peak", "optimizer_peak", "least_peak", "capacity",
        )  # fmt: skip
        least = None if self.least is None else {"step": self.least.step, "proven": self.least.proven}
        return {
            **{name: getattr(self, name) for name in amounts}, "phase": self.phase, "module": self.module,
            "fits": self.fits, "fits_with_plan": self.fits_with_plan, "least": least, "no_plan": self.no_plan,
            "optimizer": self.optimizer, "device": self.device, "workspaces": self.workspaces,
            "notes": list(self.notes), "modules": self.records(),
        }  # fmt: skip

    def records(self, depth: int | None = None) -> list[JsonObject]:
        """Return a row for each module: bytes of its parameters, of the state of them, and of what it retains.

        Args:
            depth: of modules, 1 for the network's children; None: as deep as there are some.
        """
        own, state, kept = Counter[str](), Counter[str](), Counter[str]()
        depth = self._depth() if depth is None else depth
        for path, (parameters, its) in self.parameters_of.items():
            own[_cut(path, depth)] += parameters
            state[_cut(path, depth)] += its
        for path, amount in self.timeline.activations_of.items():
            kept[_cut(path, depth)] += amount
        return [
            {
                "module": name, "parameters": own[name], "optimizer_state": state[name],
                "activations": kept[name],
            }
            for name in dict.fromkeys([*(_cut(each.path, depth) for each in self.timeline.moments), *own])
            if own[name] or kept[name]
        ]  # fmt: skip

    def _depth(self) -> int:
        paths = {each.path for each in self.timeline.moments}
        deepest = max((path.count(".") + 1 for path in paths), default=1)
        return next((at for at in range(1, deepest) if len({_cut(path, at) for path in paths}) > _FEWEST), deepest)

    def plot(self, path: str | PathLike[str] | None = None, depth: int | None = None) -> Drawing | None:
        """Draw memory over time, by what it is for, above the names of the modules that run.

        Args:
            path: the file, .png, .svg, .pdf or .html; None: an interactive picture is returned.
            depth: of the modules, as in `records`.

        Raises:
            InputError: the drawing library is not installed, or the file cannot be written.
        """
        from moccasin_mzn.report.plots.memory_picture import MemoryPicture
        from moccasin_mzn.report.shown import drawn

        depth = self._depth() if depth is None else depth
        moments = self.timeline.moments
        fixed = {
            "parameters": self.parameters, "buffers, inputs": self.buffers + self.inputs,
            "optimizer state": self.optimizer_state,
        }  # fmt: skip
        layers = {name: (amount,) * len(moments) for name, amount in fixed.items() if amount}
        layers |= {kind: tuple(each.memory[at] for each in moments) for at, kind in enumerate(KINDS)}
        limit = None if self.capacity is None else (f"{self.device} has", self.capacity)
        places = tuple((each.phase, _cut(each.path, depth)) for each in moments)
        title = "A training step without a plan"
        return drawn(MemoryPicture(title, layers, places, limit), path)


def _list(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {bytes_text(amount)}" for name, amount in amounts.items() if amount)


def _cut(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])


@checked(as_given=("model", "inputs", "kwargs", "optimizer"))
def estimate(
    model: torch.nn.Module,
    inputs: Sequence[PyTree],
    *,
    kwargs: Mapping[str, PyTree] | None = None,
    loss: Callable[..., PyTree] | None = None,
    differentiate: Differentiate = None,
    optimizer: Chosen = None,
    device: str | None = None,
    workspaces: Workspaces | None = None,
    gradients: Gradients = RETURNED,
    least: bool = True,
    time_limit: float = ESTIMATE_SECONDS,
    threads: int | None = None,
    seed: int | None = None,
) -> Estimate:
    """Estimate what a training step takes, without running it. THIS RUNS THE NETWORK'S CODE, on tensors without memory.

    Args:
        inputs, kwargs, loss, differentiate: as for `plan`. Of tensors of numbers only the forms matter; the values of
            small ones of whole numbers, such as masks, are read if the network reads them.
        optimizer: a name such as "adamw", a class of `torch.optim` or another function of parameters, or the optimizer
            of this network, which is left as it is; its state is what its step makes. None if absent.
        device: whose memory is meant: "cpu", "cuda", or a card such as "cuda:H100" or "cuda:80GiB", which need not be
            here; None: the one that the network is on. The operators are those of the device that the network is on, or
            of the CPU.
        workspaces: "measured": run operators one by one, for the memory that they take while they run; "none": without
            them. None: measured if the network is on a device here, and no other one is meant.
        gradients: as for `plan`, for the least peak.
        least: seek the least peak with a plan.
        time_limit: seconds for all of it. The step without memory is run in any case, unless that takes longer; the
            least peak is sought for what is left of 5 seconds or, with a longer limit, of a quarter of it.

    Raises:
        NoPlanError: the step without memory was not done in time.
        PlanError: the network cannot be run on tensors without values.
        InputError: nonsense in an argument, or an optimizer that cannot be run so.
    """
    effort, deadline = Effort(time_limit, threads, seed), Deadline(time_limit)
    require_torch()
    check_grad_mode()
    StepOptions(gradients=gradients, workspaces=MEASURED if workspaces is None else workspaces)
    step, (arguments, tensors) = Step(model, loss), Structure.of_call(inputs, kwargs)
    forms = [Form.of(tensor) for tensor in tensors]
    own = next((str(each.device) for each in (*model.parameters(), *tensors)), CPU)
    target = target_of(device, own)
    here = not without_memory(model, forms) and target.kind == kind_of_device(own)
    measured = workspaces == MEASURED or (workspaces is None and here)
    with underway("running the step without memory"):
        run = dry_run(
            step, arguments, tensors, maker_of(optimizer, target.kind == CUDA), target.kind, differentiate,
            within(deadline, "running the step without memory"),
        )  # fmt: skip
    end = Deadline(MEMORY_SHARE * time_limit, deadline.begin)
    timeline = timeline_of(run, measured, end)
    found, no_plan = None, ""
    if least:
        costs = Costs(FLOP, MEASURED, QuickCosts(), end=end) if measured else None
        try:
            traced = Traced.of(step, arguments, forms, costs, gradients, differentiate=differentiate, limit=deadline)
            found = _least(traced, target, vars(effort), deadline)
        except PlanError as error:
            no_plan = str(error).partition(" (see ")[0]
    return _estimate(run, timeline, found, no_plan, name_of(optimizer), target, measured)


def _least(traced: Traced, target: Target, searching: Mapping[str, object], deadline: Deadline) -> LeastPeak:
    """The least peak with a plan that is found in a part of the time."""
    memory = memories_asked(None, None, searching)
    assert isinstance(memory, OneMemory)
    instance = unlimited(traced, 2)
    longest = max(_LEAST_SECONDS, _LEAST_SHARE * (deadline.seconds or 0.0))
    limit = Deadline(min(longest, _END_SHARE * left(deadline)))
    with underway("seeking the least peak with a plan"):
        found = least_in_time(instance, memory.options, limit)
    best = LeastFound.of(traced, found, limit.over)
    return LeastPeak(_peak_on(traced.linear(best.sequence), target.kind), min(found.proven, best.peaks.whole))


def _peak_on(plan: Linear, device: str) -> int:
    """The peak of a plan where another device's allocator gives out its memory."""
    for instruction in (*plan.forward, *plan.backward):
        for storage in instruction.makes:
            storage.bytes = given_out(storage.bytes, device)
    return peaks(plan).whole


def _estimate(
    run: DryRun, timeline: Timeline, least: LeastPeak | None, no_plan: str, optimizer: str, target: Target,
    measured: bool,
) -> Estimate:  # fmt: skip
    worst, notes = timeline.worst, []
    if run.traced:
        notes.append("the network reads values that are not there, and took the path that it takes where it is traced")
    if not measured:
        notes.append("workspaces of operators are not counted")
    if timeline.unmeasured:
        notes.append(f"workspaces that could not be measured: {', '.join(timeline.unmeasured)}")
    return Estimate(
        **run.fixed, optimizer_state=run.state, gradients=timeline.gradients, activations=timeline.activations,
        step_peak=timeline.peak(FORWARD, BACKWARD), optimizer_peak=timeline.peak(OPTIMIZER), phase=worst.phase,
        module=worst.path, least=least, no_plan=no_plan, optimizer=optimizer, device=target.name,
        capacity=target.capacity, workspaces=measured, notes=tuple(notes), timeline=timeline,
        parameters_of=run.by_module,
    )  # fmt: skip
