"""Plans for parts of a network, under one budget: where the whole cannot be traced, or depends on values. ::

    plan(model, inputs, budget=0.6, regions="auto")

The parts are submodules, see `region_search`. Everything between them runs as it is, and each of them by a plan of its
own; how much each keeps is chosen for the peak of the whole step, see `region_budget`. A region that is called in
another form than those of the example, or in another mode, runs as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from moccasin_mzn.base.formatting import bytes_text, count_text
from moccasin_mzn.base.log import note_once
from moccasin_mzn.base.vocabulary import Status
from moccasin_mzn.pytorch.call import Step
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.instructions import Peaks
from moccasin_mzn.pytorch.loops import Installed, has_plan, planned_module
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.runtime import Runtime
from moccasin_mzn.pytorch.steps import Copies, Verification, compared, runtime_of
from moccasin_mzn.pytorch.tracing import Traced
from moccasin_mzn.pytorch.trust import SWITCHED_OFF, Trust, room_for, trusted

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree


@dataclass(frozen=True, eq=False)
class RegionPlan:
    """Plans for parts of a step, and what the step takes: bytes above parameters, buffers and inputs."""

    step: Step
    regions: Mapping[str, Plan]
    """By the name of the submodule; a second form that it is called in has " (2)" after it."""
    outside: Mapping[str, str]
    """Submodules that are no regions, with the reason."""
    budget: int
    """The most that the step may take, in bytes, as the budget that was asked for came to."""
    predicted_peak: int
    """Bytes at the allocator, measured on the example inputs with these plans."""
    predicted_increase: float
    """Increase of the step's time, as a fraction of the eager step's: what is recomputed, and `overhead`."""
    eager_peak: int
    """Measured at the allocator without the plans."""
    overhead: float
    """What the plans' code takes without recomputing anything, as a fraction of the eager step's time."""
    device: str
    copies: Callable[[Sequence[PyTree], Mapping[str, PyTree]], Copies] = field(repr=False)
    """Makes scratch copies of the step with other inputs."""
    trust: Trust = field(default=SWITCHED_OFF, repr=False)
    """What came of comparing the planned step to the step as it is, when the plan was made."""

    status = Status.FEASIBLE
    """No proof is sought of plans of regions."""

    @property
    def recomputations(self) -> int:
        """How many computations are repeated, in all regions."""
        return sum(each.recomputations for each in self.regions.values())

    @property
    def recomputed(self) -> dict[str, int]:
        """How many more times each computation that is repeated is computed, by region and text, see `Plan`."""
        return {
            f"{name}: {text}": more for name, each in self.regions.items() for text, more in each.recomputed.items()
        }

    @cached_property
    def _places(self) -> list[Place]:
        return places_of([(name, each.traced, each.sequence) for name, each in self.regions.items()])

    def module(self) -> torch.nn.Module:
        """A module to train with in place of the network, whose parameters it shares: `loss = plan.module()(x, y)`."""
        return planned_module(self.step.model, self._run, has_loss=self.step.loss is not None)

    def install(self, model: torch.nn.Module | None = None) -> None:
        """Let the regions' own `forward` run their plans, until `remove`.

        Raises:
            PlanError: it is another network, or has a plan already.
        """
        if model is not None and model is not self.step.model:
            raise PlanError("this is not the network that was planned: make a plan for it")
        if has_plan(self.step.model):
            raise PlanError("the network has a plan already: remove it first")
        for place in self._places:
            place.install(place.runtimes)

    def remove(self) -> None:
        """Give the regions their own `forward` back.

        Raises:
            PlanError: no plan is installed.
        """
        if not has_plan(self.step.model):
            raise PlanError("no plan is installed")
        for place in self._places:
            place.remove()

    def _run(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        if has_plan(self.step.model):
            return self.step(*args, **kwargs)
        self.install()
        try:
            return self.step(*args, **kwargs)
        finally:
            self.remove()

    def checked(self, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> RegionPlan:
        """The same, when its step has been compared to the step as it is, if there is the memory.

        Raises:
            PlanError: they differ.
        """
        if (reason := room_for(self.eager_peak, self.device, measured=True)) is not None:
            return replace(self, trust=Trust(left_out=reason, waits=False))
        joints = [each.traced.joint for each in self.regions.values()]
        return replace(self, trust=trusted(self.copies(inputs, kwargs), self._run, self.step, joints))

    def verify(self, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree] | None = None) -> Verification:
        """Run the step with the plans and without, from the same state, and compare; see `steps.compared`."""
        installed = has_plan(self.step.model)
        if installed:
            self.remove()
        try:
            joints = [each.traced.joint for each in self.regions.values()]
            predicted = Peaks(self.predicted_peak, 0, 0, 0, self.predicted_peak, self.predicted_peak)
            return compared(self.copies(inputs, kwargs or {}), self._run, self.step, self.device, predicted, joints)
        finally:
            if installed:
                self.install()

    def save(self, path: object) -> None:
        """Plans of regions are not kept in files.

        Raises:
            PlanError: always.
        """
        raise PlanError("plans of regions are not kept in files: make them again with plan(..., regions=...)")

    def report(self) -> str:
        """A few lines for people."""
        before, peak = self.eager_peak, self.predicted_peak
        share = peak / before if before else 1.0
        recomputed = self.predicted_increase - self.overhead
        lines = [
            f"regions   {count_text(len(self.regions), 'region')}, {self.recomputations} computations are repeated",
            f"peak      {bytes_text(peak)} of {bytes_text(self.budget)}, "
            f"{100 * share:.1f} % of {bytes_text(before)} without plans",
            f"duration  {100 * recomputed:+.2f} % by recomputation, {100 * self.overhead:+.2f} % by running the plans' "
            f"code: {100 * self.predicted_increase:+.2f} %",
        ]  # fmt: skip
        lines += [f"verified  {self.trust}"] * (self.trust is not SWITCHED_OFF)
        for name, each in self.regions.items():
            repeated = f"{len(each.recomputed)} of {len(set(each.sequence))} repeated"
            lines.append(f"region    {named(name)}: {repeated}, {bytes_text(each.peaks.kept)} kept")
        for name, why in self.outside.items():
            if not name or self.outside.get(name.rpartition(".")[0]) != why:  # what it is part of has the same line
                lines.append(f"outside   {named(name)}: {why}")
        return "\n".join(lines)


def named(name: str) -> str:
    """A submodule, for messages."""
    return f"'{name}'" if name else "the network"


# --- Plans in their places -----------------------------------------------------------------------------------


@dataclass(eq=False)
class Place:
    """A submodule with plans for the forms that it is called in; another call runs as it is."""

    name: str
    module: torch.nn.Module
    runtimes: list[Runtime] = field(default_factory=list)
    installed: Sequence[Callable[..., PyTree]] = ()
    own: dict[str, object] = field(default_factory=dict)
    """The submodule's `forward`, where it is an attribute of its own."""

    def add(self, traced: Traced, sequence: Sequence[int]) -> None:
        """Add a plan for a form."""
        runtime = runtime_of(traced, traced.linear(sequence), self._eager)
        self.runtimes.append(replace(runtime, otherwise=partial(self._next, len(self.runtimes))))

    def install(self, functions: Sequence[Callable[..., PyTree]]) -> None:
        """Have the first of these functions called, and the next one for what that is not for."""
        self.own = {"forward": self.module.__dict__["forward"]} if "forward" in self.module.__dict__ else {}
        self.installed = functions
        self.module.__dict__["forward"] = Installed(functions[0], self.module.forward)

    def remove(self) -> None:
        """Give the submodule its own `forward` back."""
        self.module.__dict__.pop("forward", None)
        self.module.__dict__.update(self.own)

    def _eager(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        own = self.own.get("forward", type(self.module).forward.__get__(self.module))
        assert callable(own)
        return own(*args, **kwargs)

    def _next(self, at: int, error: PlanError) -> Callable[..., PyTree]:
        if at + 1 < len(self.installed):
            return self.installed[at + 1]
        note_once(
            f"{named(self.name)} runs without its plan, and may take more memory: {error.reason}", logging.WARNING
        )
        return self._eager


def places_of(plans: Sequence[tuple[str, Traced, Sequence[int]]]) -> list[Place]:
    """The submodules, each with its plans."""
    places: dict[int, Place] = {}
    for name, traced, sequence in plans:
        model = traced.step.model
        places.setdefault(id(model), Place(name, model)).add(traced, sequence)
    return [*places.values()]
