"""One budget for several regions of a step: how much each of them keeps and recomputes.

    choices of a region     nothing recomputed ... all recomputed         each with what it keeps, its peaks, its time
    sections of a step      | outside | region 1 | outside | region 2 | ... backward of region 2 | ...

The step is measured section by section with one choice for each region. With other choices a section takes as much more
as the choices differ by: in the forward or backward pass of a region by its peak there, between both by what it keeps.
The least time within the budget is then a small problem for CP-SAT; what it finds is measured in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import finalize

from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.emission import handed_on, placeholders_read
from moccasin_mzn.pytorch.instructions import Peaks, peaks
from moccasin_mzn.pytorch.joint import INPUT
from moccasin_mzn.pytorch.measuring import Sections
from moccasin_mzn.pytorch.runtime import Runtime
from moccasin_mzn.pytorch.tracing import Traced

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree


@dataclass(frozen=True, eq=False)
class Choice:
    """A schedule of a region, and what it takes in the step."""

    sequence: tuple[int, ...]
    peaks: Peaks
    duration: int
    """The duration of all computations, in the graph's unit."""
    kept: int
    """Bytes of its own that are kept for the backward pass, without its outputs."""
    inputs: frozenset[int]
    """The inputs that the backward pass reads, by position among the tensors of the call."""
    outputs: frozenset[int]
    """The outputs that it reads."""

    @classmethod
    def of(cls, traced: Traced, sequence: Sequence[int]) -> Choice:
        """A schedule with what it takes."""
        linear = traced.linear(sequence)
        durations = traced.problem.graph.durations
        outputs = {value.storage: at for at, value in enumerate(linear.outputs)}
        handed = {value.storage for value in handed_on(linear) if value.storage is not None}
        place = {node: at for at, node in enumerate(traced.joint.of_kind(INPUT))}
        read = (value.given for value in placeholders_read(linear, linear.backward))
        return cls(
            tuple(sequence), peaks(linear), sum(durations[node] for node in sequence),
            sum(each.bytes for each in handed if each not in outputs and each.given is None),
            frozenset(place[node] for node in read if node in place),
            frozenset(outputs[each] for each in handed if each in outputs),
        )  # fmt: skip


# --- A step measured section by section ----------------------------------------------------------------------


@dataclass(eq=False)
class RegionCall:
    """A call of a region in a step."""

    region: int
    forward: int = -1
    """The section of its forward pass; -1: it was run without the plan."""
    backward: int | None = None
    """The section of its backward pass; None: it had none."""
    inputs: list[int] = field(default_factory=list)
    """The memories of its inputs, numbered in the order in which they are seen."""
    outputs: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class MeasuredRegions:
    """A step with a choice for each region."""

    chosen: tuple[Choice, ...]
    peaks: Sequence[int]
    """The most bytes in each section."""
    calls: Sequence[RegionCall]
    sizes: Sequence[int]
    """Bytes of each memory that regions read or return."""
    ends: Sequence[int]
    """The section in which each of them was freed; after the last one if it was not."""

    @property
    def peak(self) -> int:
        """The most bytes of the step."""
        return max(self.peaks)


def measured(
    chosen: Sequence[Choice], runtimes: Sequence[Runtime], run: Callable[[Sequence[Callable[..., PyTree]]], object],
    device: str,
) -> MeasuredRegions:  # fmt: skip
    """Run a step, and measure it section by section.

    Args:
        runtimes: of the regions with these choices.
        run: runs a step in which these functions are called for the regions.
    """
    recorder = _Recorder(Sections(device))
    found = recorder.sections.peaks(partial(run, [recorder.around(at, each) for at, each in enumerate(runtimes)]))
    calls = [call for call in recorder.calls if call.forward >= 0]
    return MeasuredRegions(tuple(chosen), found, calls, recorder.sizes, [min(end, len(found)) for end in recorder.ends])


_NEVER = 1 << 60


@dataclass
class _Recorder:
    sections: Sections
    calls: list[RegionCall] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)
    """The number of each memory that is there, by the identity of its storage."""

    def around(self, region: int, runtime: Runtime) -> Callable[..., PyTree]:
        """A function that runs a region, with sections of its own."""
        import torch

        def run(*args: PyTree, **kwargs: PyTree) -> PyTree:
            if not torch.is_grad_enabled():
                return runtime(*args, **kwargs)
            self.calls.append(call := RegionCall(region))
            code = replace(
                runtime.code,
                forward=partial(self._forward, call, runtime.code.forward),
                backward=partial(self._backward, call, runtime.code.backward),
            )
            call.inputs = self._memories((args, kwargs))
            returned = replace(runtime, code=code)(*args, **kwargs)
            call.outputs = self._memories(returned)
            return returned

        return run

    def _forward(
        self, call: RegionCall, forward: Callable[[list[torch.Tensor | None]], Sequence[torch.Tensor]],
        boxed: list[torch.Tensor | None],
    ) -> Sequence[torch.Tensor]:  # fmt: skip
        call.forward = self.sections.begin()
        made = forward(boxed)
        self.sections.begin()
        return made

    def _backward(
        self, call: RegionCall, backward: Callable[[list[torch.Tensor | None]], Sequence[torch.Tensor]],
        boxed: list[torch.Tensor | None],
    ) -> Sequence[torch.Tensor]:  # fmt: skip
        call.backward = self.sections.begin()
        made = backward(boxed)
        self.sections.begin()
        return made

    def _memories(self, value: PyTree) -> list[int]:
        return [self._memory(tensor.untyped_storage()) for tensor in Structure.of(value)[1]]

    def _memory(self, storage: torch.UntypedStorage) -> int:
        if id(storage) not in self.known:
            self.known[id(storage)] = len(self.sizes)
            self.sizes.append(storage.nbytes())
            self.ends.append(_NEVER)
            finalize(storage, self._freed, id(storage)).atexit = False
        return self.known[id(storage)]

    def _freed(self, identity: int) -> None:
        self.ends[self.known.pop(identity)] = self.sections.current


# --- The least time within a budget --------------------------------------------------------------------------


_SECONDS = 10.0
"""For CP-SAT, which needs a small part of that."""


def chosen_within(
    step: MeasuredRegions, choices: Sequence[Sequence[Choice]], budget: int | None
) -> tuple[Choice, ...] | None:
    """The choices of least time that are predicted to be within a budget; None: there are none.

    Args:
        step: measured with some of these choices.
        choices: of each region.
        budget: in bytes; None: those of least peak.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    made = [[model.new_bool_var("") for _ in some] for some in choices]
    for each in made:
        model.add_exactly_one(each)
    longer = _Longer(step, choices)
    stays = {key: model.new_bool_var("") for key in longer.holders}
    for key, pairs in longer.holders.items():
        for region, at in pairs:
            model.add_implication(made[region][at], stays[key])
    limit = budget if budget is not None else model.new_int_var(0, _NEVER, "peak")
    for section, base in enumerate(step.peaks):
        terms = [
            amount * made[region][at]
            for (region, at), amount in _differences(step, choices, section).items()
            if amount
        ]  # fmt: skip
        terms += [step.sizes[memory] * stays[memory, until] for memory, until in longer.at(section)]
        model.add(base + sum(terms) <= limit)
    calls = [sum(call.region == region for call in step.calls) for region in range(len(choices))]
    times = [
        calls[region] * each.duration * made[region][at]
        for region, some in enumerate(choices)
        for at, each in enumerate(some)
    ]
    model.minimize(sum(times) if budget is not None else limit)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = _SECONDS, 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return tuple(
        next(each for each, var in zip(some, row, strict=True) if solver.value(var))
        for some, row in zip(choices, made, strict=True)
    )


def _differences(
    step: MeasuredRegions, choices: Sequence[Sequence[Choice]], section: int
) -> Mapping[tuple[int, int], int]:
    """Bytes that a section takes more with each choice of a region than with the one that it was measured with."""
    found: dict[tuple[int, int], int] = {}
    for call in step.calls:
        part = _part(call, section)
        if part is None:
            continue
        own = part(step.chosen[call.region])
        for at, each in enumerate(choices[call.region]):
            found[call.region, at] = found.get((call.region, at), 0) + part(each) - own
    return found


def _part(call: RegionCall, section: int) -> Callable[[Choice], int] | None:
    """What a choice for a region takes in a section of the step; None: nothing."""
    if section == call.forward:
        return lambda choice: choice.peaks.forward
    if section == call.backward:
        return lambda choice: choice.peaks.backward
    if section > call.forward and (call.backward is None or section < call.backward):
        return lambda choice: choice.kept
    return None


class _Longer:
    """Memories outside of regions that stay longer than they were measured to, if regions read them again."""

    def __init__(self, step: MeasuredRegions, choices: Sequence[Sequence[Choice]]) -> None:
        readers: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        for call in step.calls:
            until = len(step.peaks) if call.backward is None else call.backward
            for at, each in enumerate(choices[call.region]):
                read = [call.inputs[place] for place in each.inputs] + [call.outputs[place] for place in each.outputs]
                for memory in read:
                    if step.ends[memory] < until:
                        readers.setdefault(memory, []).append((until, (call.region, at)))
        self.begins = {memory: step.ends[memory] for memory in readers}
        self.until = {memory: sorted({until for until, _ in pairs}) for memory, pairs in readers.items()}
        self.holders = {
            (memory, until): [pair for its, pair in readers[memory] if its >= until]
            for memory, some in self.until.items()
            for until in some
        }
        """The memory and a section that it stays until: the choices of regions that make it stay so long or longer."""

    def at(self, section: int) -> Iterator[tuple[int, int]]:
        """The memories that may be there in a section in addition to what was measured, and until when at least."""
        for memory, some in self.until.items():
            if self.begins[memory] < section <= some[-1]:
                yield memory, next(until for until in some if until >= section)


def rooms(step: MeasuredRegions, budget: int) -> list[tuple[int, int]]:
    """What a budget leaves each region for its own backward pass, in bytes: at least, with what the other regions were
    measured to keep, and at most, if they kept nothing."""
    found = [(budget, budget) for _ in step.chosen]
    for call in step.calls:
        if call.backward is None:
            continue
        own = budget - (step.peaks[call.backward] - step.chosen[call.region].peaks.backward)
        others = sum(
            step.chosen[each.region].kept
            for each in step.calls
            if each.forward < call.backward and (each.backward is None or each.backward > call.backward)
        )
        least, most = found[call.region]
        found[call.region] = min(least, own), min(most, own + others)
    return found
