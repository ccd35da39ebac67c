"""What is known of a step before it is traced: what it takes, and gradients that are there whatever the plan.

The step is run on tensors without memory, which takes a third of the time of tracing. That is enough to know whether it
can be traced on numbers, as it runs, and whether a budget is less than gradients alone take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from moccasin_mzn.clock import Deadline
from moccasin_mzn.formatting import count_text, exact_memory_text, memory_text
from moccasin_mzn.log import underway
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.devices import CPU, kind_of_device
from moccasin_mzn.pytorch.dry_runs import DryRun, dry_run
from moccasin_mzn.pytorch.errors import NoPlanError, NoTimeError, PlanError, percentage_text
from moccasin_mzn.pytorch.gradients import ACCUMULATED, ACTIVATIONS
from moccasin_mzn.pytorch.instructions import peaks
from moccasin_mzn.pytorch.joint import Differentiate
from moccasin_mzn.pytorch.measuring import allocator_peak, free_memory
from moccasin_mzn.pytorch.operator_costs import NO_DEADLINE, worker
from moccasin_mzn.pytorch.recording import BACKWARD, FORWARD, GRADIENT
from moccasin_mzn.pytorch.steps import SAFELY, untraced_copies
from moccasin_mzn.pytorch.timelines import timeline_of
from moccasin_mzn.pytorch.tracing import Traced, within, without_memory

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

_NAMED = 3
"""The number of gradients that a message names."""
_COPYING = ("clone", "add", "add_", "copy_", "empty_strided", "new_empty_strided")
"""Operators by which autograd itself makes a gradient of what others have made; a plan may not make it."""


@dataclass(frozen=True, eq=False)
class Beforehand:
    """A step that was run without memory."""

    run: DryRun

    @property
    def step_peak(self) -> int:
        """Bytes that the step takes, without the workspaces of operators."""
        return timeline_of(self.run, measured=False).peak(FORWARD, BACKWARD)

    def gradients(self, kind: str) -> dict[str, int]:
        """Bytes of gradients that are in memory together in every plan, by what they are.

        Args:
            kind: "returned": all of them are, at the end; "accumulated": the largest one that an operator makes.
        """
        if kind != ACCUMULATED:
            return {f"the gradient of {name}": amount for name, amount in self.run.gradients.items()}
        made = {
            f"the gradient that {'.'.join(call.wanted.operator[:2])} makes in '{call.path}'": each.bytes
            for call in self.run.calls
            for each in call.made
            if call.phase == BACKWARD and each.kind == GRADIENT
            if call.wanted is not None and call.wanted.operator[1] not in _COPYING
        }
        return dict(sorted(made.items(), key=lambda item: -item[1])[:1])


def known_beforehand(
    step: Step, arguments: Structure, tensors: Sequence[torch.Tensor], differentiate: Differentiate, limit: Deadline
) -> Beforehand | None:
    """Run a step without memory; None: it cannot be run so, or it reads values that decide what it does.

    Raises:
        NoTimeError: the limit was over before.
    """
    device = kind_of_device(str(tensors[0].device)) if tensors else CPU
    with underway("running the step without memory"):
        try:
            run = dry_run(step, arguments, tensors, None, device, differentiate, within(limit, "tracing the network"))
        except NoTimeError:
            raise
        except PlanError:  # tracing states the reason, if it fails too
            return None
    return None if run.traced else Beforehand(run)


def refuse_beforehand(
    known: Beforehand, step: Step, inputs: Sequence[PyTree], kwargs: Mapping[str, PyTree], amount: Budget, kind: str
) -> None:
    """End it where gradients alone take more than a budget.

    Of a fraction the step is run as it is, if it is likely to be too little: it is of the peak that is measured.

    Args:
        kind: "returned" or "accumulated".

    Raises:
        NoPlanError: they do.
    """
    if amount.fraction is None:
        _refuse_for_gradients(known, kind, amount.resolve(0))
        return
    tensors = Structure.of_call(inputs, kwargs)[1]
    forms = [Form.of(tensor) for tensor in tensors]
    likely = amount.resolve(max(1, known.step_peak)) < sum(known.gradients(kind).values())
    if not likely or without_memory(step.model, forms):
        return
    copies = untraced_copies(step, known.run.differentiable, kind, inputs, kwargs)
    try:
        with underway("running the step as it is, for the memory that it takes"), copies() as scratch:
            peak = allocator_peak(partial(scratch.step, step), forms[0].device if forms else CPU)
    except Exception:  # tracing states the reason, if it fails too
        return
    _refuse_for_gradients(known, kind, amount.resolve(peak))


def _refuse_for_gradients(known: Beforehand, kind: str, amount: int) -> None:
    found = known.gradients(kind)
    proven = sum(found.values())
    if proven <= amount:
        return
    amounts = [memory_text(each, "byte") for each in (amount, proven)]
    if len(set(amounts)) == 1:
        amounts = [exact_memory_text(each, "byte") for each in (amount, proven)]
    largest = sorted(found.items(), key=lambda item: -item[1])
    parts = [(name, size) for name, size in largest[:_NAMED]]
    if rest := largest[_NAMED:]:
        parts.append((count_text(len(rest), "other"), sum(size for _, size in rest)))
    text = ", ".join(f"{memory_text(size, 'byte')} of {name}" for name, size in parts)
    why = f"{text} is in memory"
    if kind != ACCUMULATED:
        why = (
            f"{memory_text(proven, 'byte')} of every plan's step are gradients, which stay: more than the budget; they "
            f"are {text}; with of={ACTIVATIONS!r} a fraction is of what is above them, with gradients={ACCUMULATED!r} "
            "none of them is kept to the end"
        )
    raise NoPlanError(
        f"budget {amounts[0]}{percentage_text(amount)}: no plan is within it, it takes at least {amounts[1]}, "
        f"which is proven without a search, and budget='least' seeks the least plan: {why}"
    )


def traced_as_run(
    step: Step, arguments: Structure, tensors: Sequence[torch.Tensor], amount: Budget | None,
    gradients: str, differentiate: Differentiate, limit: Deadline = NO_DEADLINE, known: Beforehand | None = None,
) -> Traced:  # fmt: skip
    """The step traced as it runs, where it can be run for that, else on tensors without numbers; nothing is measured.

    It can where it is run for a fraction of its peak in any case, and where several times its memory is free; of a step
    that cannot be run without numbers that is not known, so that it is several times the budget.

    Args:
        known: what the step takes; None: it is not known.

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
    if amount is None or amount.fraction is None:
        free = free_memory(forms[0].device if forms else CPU)
        seen = trace() if known is None and amount is None else None
        if seen is not None:
            need = peaks(seen.linear(seen.problem.graph.input_order())).whole
        else:
            need = known.step_peak if known is not None else amount.resolve(0) if amount is not None else 0
        if free is None or SAFELY * need > free:
            return seen or trace()
    try:
        return trace(numbers=tensors)
    except PlanError:
        raise
    except Exception:  # too little memory, an operator that can only be traced without numbers, or the network's own
        return trace()
