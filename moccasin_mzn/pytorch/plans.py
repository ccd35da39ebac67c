"""A plan: what a training step recomputes and what it takes, shown, run, kept in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from moccasin_mzn.base.formatting import bytes_text, count_text
from moccasin_mzn.base.vocabulary import Axis, BudgetOf, Status
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.platforms import CopyCosts, with_slow_memory
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import Action, Memory, Platform, plan_of_sequence
from moccasin_mzn.pytorch.errors import PlanError
from moccasin_mzn.pytorch.gradients import ACCUMULATED, ACTIVATIONS, STEP
from moccasin_mzn.pytorch.infeasibility import called
from moccasin_mzn.pytorch.instructions import Linear, Peaks, gradient_bytes
from moccasin_mzn.pytorch.loops import ByShape, Make, Run, install, installed, planned_module, remove
from moccasin_mzn.pytorch.problem import SCOPE
from moccasin_mzn.pytorch.runtime import Runtime
from moccasin_mzn.pytorch.steps import runtime_of
from moccasin_mzn.pytorch.tracing import Traced, without_memory
from moccasin_mzn.pytorch.trust import NOT_YET, SWITCHED_OFF, CheckedRun, Checks, Trust

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.steps import Verification
    from moccasin_mzn.report.shown import Drawing

_FOUND = (
    "budget",
    "status",
    "predicted_increase",
    "bound",
    "eager_peak",
    "least_proven",
    "overhead",
    "measured_increase",
)
"""What is kept in files of what the search has found, besides the sequence."""
_PREDICTED = ("peaks", "unplanned")
_DIFFERENT = 0.05
"""A report has the measured increase as well as the predicted one where they differ by more."""
_SHOWN = 3
"""This many of the computations that are repeated are named in a report."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What a training step recomputes, and what it takes: bytes above parameters, buffers and inputs."""

    traced: Traced = field(repr=False)
    sequence: tuple[int, ...] = field(repr=False)
    """Positions of nodes of `graph`, in the order of computing them."""
    peaks: Peaks
    """Predicted peaks of the step with the plan."""
    unplanned: Peaks
    """Predicted peaks of the same operators without recomputation."""
    budget: int
    """The most that the step may take, in bytes, as the budget that was asked for came to."""
    status: Status
    """"optimal" if it is proven that no plan of its kind is faster by the measured durations, else "feasible"."""
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
    measured_increase: float | None = None
    """The same as `predicted_increase`, of steps that were run with the plan and without it, in turns, at the end;
    None: that was not done."""
    actions: tuple[Action, ...] = field(default=(), repr=False)
    """With offloading: what is computed and copied; host memory is `memory` 1. Empty: nothing is copied."""
    another: Make | None = field(default=None, repr=False)
    """Makes plans for other shapes when they come; None: they are refused."""

    trust: Trust = field(default=NOT_YET, repr=False)
    """What came of comparing the planned step to the step as it is, when the plan was made."""

    of: BudgetOf = STEP
    """What the budget was a fraction of, if it was one; not kept in files."""

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
        """Operators whose time is estimated. Most could not be measured by themselves, and no workspace of them is
        counted; for others the time limit was too short."""
        costs = self.traced.costs
        return () if costs is None else (*costs.estimated, *costs.untimed)

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

    @property
    def repeats(self) -> bool:
        """True if anything is recomputed or copied."""
        return bool(self.recomputations or self.copies)

    @property
    def moves(self) -> bool:
        """True if gradients are computed earlier or later than in the trace."""
        return tuple(dict.fromkeys(self.sequence)) != self.graph.input_order()

    @property
    def changes(self) -> bool:
        """True if the plan is not the step as it is."""
        return self.repeats or self.moves

    def runtime(self, original: Callable[..., PyTree] | None = None) -> Runtime:
        """What runs the plan; `original` is called instead where no gradient is asked for."""
        return runtime_of(self.traced, self.linear, original)

    @property
    def step_bytes(self) -> int:
        """Bytes that the step takes without the plan, at the allocator: measured, or else predicted."""
        return self.unplanned.whole if self.eager_peak is None else self.eager_peak

    @property
    def unchecked(self) -> bool:
        """True if the first call is to be compared to the step as it is, as nothing was compared before."""
        return self.trust.left_out is not None and self.trust.waits

    def _run(self, verify: bool, original: Run | None = None) -> Run:
        """What runs the plan, or those of all shapes that come."""
        checks = Checks(verify=verify)
        if self.another is None:
            runtime = self.runtime(original)
            if not (verify and self.unchecked):
                return runtime
            checks.first(runtime)
            return CheckedRun(runtime, self.step_bytes, checks)
        own = original is not None
        return ByShape(self.traced.step.model, self.another, original or self.traced.step, [self], own, checks)

    def module(self, *, verify: bool = True) -> torch.nn.Module:
        """A module to train with in place of the network, whose parameters and attributes it has:
        `loss = plan.module()(x, y)`. A copy of it, or what is read back from a file, is the network without the plan.

        Args:
            verify: False: its first call is not compared to the step as it is, if nothing was compared before.
        """
        run = self._run(verify)
        return planned_module(self.traced.step.model, run, has_loss=self.traced.step.loss is not None)

    def install(self, model: torch.nn.Module | None = None, *, verify: bool = True) -> None:
        """Let the network's own `forward` run the plan, until `remove`. A copy of it has no plan.

        Args:
            verify: see `module`.

        Raises:
            PlanError: it is another network, has a plan already, the loss is part of the plan, or it has hooks.
        """
        own = self.traced.step.model
        if model is not None and model is not own:
            raise PlanError("this is not the network that was planned: make a plan for it")
        if self.traced.step.loss is not None:
            raise PlanError("the loss is part of the plan, the network returns none: use module()")
        install(own, self._run(verify, own.forward))

    def remove(self) -> None:
        """Give the network its own `forward` back.

        Raises:
            PlanError: no plan is installed.
        """
        own = self.traced.step.model
        remove(own, installed(own))

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
        return drawn(Picture(platform, schedule, tuple(dict.fromkeys(self.sequence)), by), path)

    def report(self) -> str:
        """A few lines for people."""
        before = self.unplanned.whole if self.eager_peak is None else self.eager_peak
        peak, share = bytes_text(self.predicted_peak), self.predicted_peak / before if before else 1.0
        lines = [
            self._repeated_text(),
            f"peak      {peak} of {bytes_text(self.budget)}, "
            f"{100 * share:.1f} % of {bytes_text(before)} without the plan",
            f"kept      {bytes_text(self.peaks.kept)} from the forward to the backward pass",
            f"duration  {self._duration_text()}",
        ]
        lines += [f"verified  {self.trust}"] * (self.trust is not SWITCHED_OFF)
        if self.of == ACTIVATIONS:
            stays = gradient_bytes(self.linear)
            share = (self.predicted_peak - stays) / max(1, before - stays)
            lines[1] += f", {100 * share:.1f} % of the activations above {bytes_text(stays)} of gradients"
        if self.least_proven is not None:
            lines[1] += f"; {bytes_text(self.least_proven)} or more is proven to be needed {SCOPE}"
        if self.recomputations:
            names = [name if more == 1 else f"{name} {more} times" for name, more in self.recomputed.items()]
            rest = len(names) - _SHOWN
            lines.append("again     " + "; ".join(names[:_SHOWN]) + (f"; {rest} more" if rest > 0 else ""))
        fixed = [f"{kind} {bytes_text(amount)}" for kind, amount in self.graph.fixed_memory.items() if amount]
        if fixed:
            lines.append(f"besides   {', '.join(fixed)}; an optimizer's state comes on top of all that")
        if self.traced.gradients == ACCUMULATED:
            lines.insert(
                2, f"first     {bytes_text(self.first_peak)} in the first step, which allocates the parameters' .grad"
            )
        if self.copies:
            copies = count_text(self.copies, "copy", "copies")
            lines.append(f"slow      {bytes_text(self.predicted_slow_peak)} at most, {copies} there and back")
        if without_memory(self.traced.step.model, self.traced.forms):
            lines.append("estimated nothing was run: the peak has no workspaces of operators, durations are FLOP")
        failed, untimed = ((), ()) if (costs := self.traced.costs) is None else (costs.estimated, costs.untimed)
        if failed:
            some = ", ".join([*failed][:3]) + (", ..." if len(failed) > 3 else "")
            could = count_text(len(failed), "operator")
            lines.append(f"estimated {could} could not be measured, the peak lacks what they take inside: {some}")
        if untimed:
            lines.append(f"estimated the time of {count_text(len(untimed), 'operator')}: the time limit is too short")
        return "\n".join(lines)

    def _repeated_text(self) -> str:
        """What is repeated, and how often at most."""
        if not self.repeats:
            how = "with gradients computed in another order" if self.moves else "as it is"
            return f"{self.status}: nothing has to be repeated, the step is within the budget {how}"
        most = max(Counter(self.sequence).values())
        often = f", and computed up to {most} times" if most > 2 else ""  # noqa: PLR2004
        often += ", gradients computed in another order" if self.moves else ""
        return f"{self.status}: {len(self.recomputed)} of {len(set(self.sequence))} computations are repeated{often}"

    def _duration_text(self) -> str:
        """What is recomputed takes, with what is proven of it, and what running a plan's code takes besides."""
        repeated, least = self.predicted_increase - self.overhead, self.bound - self.overhead
        proven = "proven least of its kind" if self.status == "optimal" else f"{100 * least:.2f} % or more is proven"
        flop = "" if self.graph.duration_unit == "ns" else " of FLOP"
        text = f"{100 * repeated:+.2f} %{flop} by recomputation ({proven})"
        if self.overhead:
            whole = f"{100 * self.predicted_increase:+.2f} %"
            text += f", {100 * self.overhead:+.2f} % by running a plan's code: {whole}"
        measured = self.measured_increase
        if measured is not None and abs(measured - self.predicted_increase) > _DIFFERENT:
            text += f"; but measured {100 * measured:+.2f} %"
        return text

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan as JSON; the network is not part of it."""
        from moccasin_mzn.pytorch.plan_files import write_plan

        found = {name: getattr(self, name) for name in _FOUND}
        predicted = {name: asdict(getattr(self, name)) for name in _PREDICTED}
        write_plan(path, self.traced, self.actions or self.sequence, {**found, **predicted})

    @classmethod
    def load(
        cls, path: str | PathLike[str], model: torch.nn.Module, *, loss: Callable[..., PyTree] | None = None
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
