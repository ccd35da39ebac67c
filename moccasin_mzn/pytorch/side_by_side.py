"""Training with a plan and without, from the same state: what both take, and whether anything differs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, TextIO

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.devices import CPU, forked_random_state, generator_of
from moccasin_mzn.pytorch.gradients import ACCUMULATED
from moccasin_mzn.pytorch.measuring import allocator_peak, backward, lacks_memory, storage_peak, time_of
from moccasin_mzn.pytorch.offloading import slow_meter
from moccasin_mzn.pytorch.steps import differences
from moccasin_mzn.report.tables import console, plain_table, print_lines, print_table

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.plans import Plan
    from moccasin_mzn.pytorch.tracing import Traced

OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "sgd": ("SGD", {"lr": 0.01}),
    "momentum": ("SGD", {"lr": 0.01, "momentum": 0.9}),
    "adam": ("Adam", {"lr": 0.001}),
}
"""By name, the class in `torch.optim` and its settings."""


@dataclass(frozen=True)
class Measured:
    """What a training step takes, without the optimizer."""

    storage_peak: int
    """Bytes of storages above parameters, buffers and inputs."""
    allocator_peak: int
    """The same at the allocator."""
    first_peak: int
    """The same of a step that makes the parameters' `.grad`, which is every one where gradients are returned."""
    slow_peak: int
    """Bytes of host memory."""
    seconds: tuple[float, ...]
    """Time of each step: CPU time, or, on another device, wall-clock time."""

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class FirstDifference:
    """The first tensor that differs: in the first step where one does, outputs before gradients before the state."""

    name: str
    step: int
    """The number of the step, the first is 1."""
    difference: float
    """The largest difference of two of its numbers; infinite if it is absent on one side, or of another form."""
    largest: float
    """The largest of its numbers without the plan, by absolute value."""

    @classmethod
    def of(cls, name: str, step: int, eager: torch.Tensor | None, planned: torch.Tensor | None) -> FirstDifference:
        """Compare a tensor without the plan to that with it."""
        import torch

        largest = 0.0
        if eager is not None and eager.numel():
            wide = eager.to(torch.complex128 if eager.is_complex() else torch.float64)
            largest = wide.abs().nan_to_num(0.0, 0.0, 0.0).max().item()
        return cls(name, step, differences({name: eager}, {name: planned})[1], largest)

    def __str__(self) -> str:
        if self.difference == float("inf"):
            return f"{self.name} in step {self.step}, which has another form"
        return (
            f"{self.name} in step {self.step}, by up to {self.difference:.3g} where the largest is {self.largest:.3g}"
        )


@dataclass(frozen=True)
class SideBySide:
    """Steps of an optimizer without a plan and with one."""

    eager: Measured | None
    """None: there is too little memory for it, and nothing is compared."""
    plan: Measured
    steps: int
    """How many were compared: fewer than asked for after an interrupt."""
    unequal: tuple[str, ...]
    """What is not equal bit for bit after some step, by name."""
    largest_difference: float
    """Largest difference of two numbers that are compared."""
    first: FirstDifference | None = None
    """None: all is equal, or nothing is compared."""

    @property
    def equal(self) -> bool | None:
        """Outputs, gradients, parameters, buffers and the random state, after every step; None: not compared."""
        return None if self.eager is None else not self.unequal

    @property
    def increase(self) -> float | None:
        """The increase of a step's time, as a fraction; None: not compared."""
        return self.plan.median / self.eager.median - 1 if self.eager and self.eager.median else None

    def as_dict(self) -> JsonObject:
        """All of it, for JSON."""
        return {**asdict(self), "equal": self.equal, "increase": self.increase}


def side_by_side(
    found: Plan, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], steps: int = 5, optimizer: str = "sgd"
) -> SideBySide:
    """Train a network without its plan and with it, in turns, and leave its state as it was, but for gradients.

    An output of one number is a loss; gradients of other outputs are random numbers, the same for both. Peaks are
    measured in steps before those, which also warm up. An interrupt ends it when a step has been compared.

    Args:
        args: what the step is called with, and `kwargs` by name.
        steps: at least 1.
        optimizer: see `OPTIMIZERS`.

    Raises:
        KeyboardInterrupt: nothing has been compared yet.
        PlanError: the plan is not for these inputs.
    """
    model = found.traced.step.model
    calls = (found.traced.step, found.runtime())
    with _left_as_it_was(model):
        leaves = [*model.parameters(), *Structure.of((args, kwargs))[1]]
        sides = [_Side(model, leaves, call, (args, kwargs), found.traced, optimizer) for call in calls]
        fitting = [side for side in sides if side.fits()]
        done, unequal, largest, first = 0, dict[str, None](), 0.0, None
        try:
            for number in range(steps):
                results = [side.train(number) for side in fitting]
                names, difference = differences(results[0], results[-1])
                if names and first is None:
                    name = names[0]
                    first = FirstDifference.of(name, number + 1, results[0][name], results[-1][name])
                unequal |= dict.fromkeys(names)
                largest, done = max(largest, difference), done + 1
        except KeyboardInterrupt:
            if not done:
                raise
        finally:
            _forget_gradients(leaves)
    eager, planned = (side.measured(done) if side in fitting else None for side in sides)
    assert planned is not None
    return SideBySide(eager, planned, done, tuple(unequal), largest, first)


class _Side:
    """One of two ways to train the same network; each has a state of its own, which is put in place for its steps."""

    def __init__(
        self, model: torch.nn.Module, leaves: Sequence[torch.Tensor], call: Callable[..., PyTree],
        arguments: tuple[Sequence[PyTree], Mapping[str, PyTree]], traced: Traced, optimizer: str,
    ) -> None:  # fmt: skip
        import torch

        kind, settings = OPTIMIZERS[optimizer]
        self._model, self._leaves, self._call = model, leaves, partial(call, *arguments[0], **arguments[1])
        self._accumulated = traced.gradients == ACCUMULATED
        self._differentiable = traced.joint.differentiable
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._optimizer = getattr(torch.optim, kind)(trained, **settings) if trained else None
        self._state = _copy(model)
        self._device, self._planned = traced.device, call is not traced.step
        self._generators = {place: generator_of(place) for place in (CPU, self._device)}
        self._random = self._random_states()
        self._peaks = 0, 0, 0, 0
        self._seconds: list[float] = []

    def fits(self) -> bool:
        """Measure the peaks of the step, which may change buffers; False if there is too little memory for it.

        Raises:
            RuntimeError: whatever else is wrong, and lack of memory with the plan.
        """
        step = partial(self._step, 0)
        try:
            self._begin()
            with slow_meter() as slow:
                storage = storage_peak(step)
            self._begin()
            first = allocator = allocator_peak(step, self._device)
            if self._accumulated:
                _forget_gradients(self._leaves)
                first = allocator_peak(step, self._device)
            self._peaks = storage, allocator, first, slow.peak
        except RuntimeError as error:
            if self._planned or not lacks_memory(error):
                raise
            return False
        finally:
            _forget_gradients(self._leaves)
        return True

    def train(self, number: int) -> dict[str, torch.Tensor | None]:
        """One step of the optimizer; all that it leaves behind, by name."""
        _put(self._model, self._state)
        for place, generator in self._generators.items():
            generator.set_state(self._random[place])
        self._begin()
        begin = time_of(self._device)
        outputs = self._step(number)
        self._seconds.append(time_of(self._device) - begin)
        gradients = {name: parameter.grad for name, parameter in self._model.named_parameters()}
        found: dict[str, torch.Tensor | None] = {
            f"output {at}": output.detach().clone() for at, output in enumerate(outputs)
        }
        found |= {f"gradient of {name}": None if each is None else each.clone() for name, each in gradients.items()}
        if self._optimizer is not None:
            self._optimizer.step()
        _forget_gradients(self._leaves)
        self._state, self._random = _copy(self._model), self._random_states()
        return {**found, **self._state, **{f"random state of {place}": each for place, each in self._random.items()}}

    def measured(self, steps: int) -> Measured:
        """What the first steps took."""
        return Measured(*self._peaks, tuple(self._seconds[:steps]))

    def _begin(self) -> None:
        """Begin without gradients, or with those of a loop that adds to them and has set them to 0."""
        import torch

        _forget_gradients(self._leaves)
        for parameter in self._model.parameters() if self._accumulated else ():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)

    def _step(self, number: int) -> list[torch.Tensor]:
        """Forward and backward pass, as a training loop has them; the outputs."""
        import torch

        outputs = Structure.of(self._call())[1]
        chosen = [output for output, has in zip(outputs, self._differentiable, strict=True) if has]
        generator = torch.Generator(self._device).manual_seed(number)
        backward(chosen, lambda output: _tangent(output, generator))
        return outputs

    def _random_states(self) -> dict[str, torch.Tensor]:
        return {place: generator.get_state() for place, generator in self._generators.items()}


def _forget_gradients(leaves: Iterable[torch.Tensor]) -> None:
    for leaf in leaves:
        leaf.grad = None


def _tangent(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    import torch

    made = torch.empty_like(output, requires_grad=False)
    return made.fill_(1.0) if output.numel() == 1 else made.normal_(generator=generator).div_(output.numel())


def _copy(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    given = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach().clone() for name, tensor in given.items()}


def _put(model: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    import torch

    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            tensor.copy_(state[name])


@contextmanager
def _left_as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Puts parameters, buffers and the random state back."""
    before = _copy(model)
    with forked_random_state():
        try:
            yield
        finally:
            _put(model, before)


def at_random(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, filled: normal numbers, or, of integers, 0 and 1, which are classes and tokens of any network."""
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.normal_()
    return tensor.random_(0, 2)


# --- For people and programs -----------------------------------------------------------------------------------


_HEADINGS = {
    "allocator_peak": "allocator", "storage_peak": "storages", "first_peak": "first step", "slow_peak": "host memory"
}  # fmt: skip
_UNEQUAL_SHOWN = 5


def print_side_by_side(found: Plan, measured: SideBySide, out: TextIO) -> None:
    """Print a table of both runs with the predicted figures, and whether all results are equal."""
    predicted = _predicted(found)
    amounts = [heading for what in predicted for heading in (_HEADINGS[what], "predicted")]
    table = plain_table(None, ("", *amounts, "ms", "over eager", "predicted"), left=("",))
    if measured.eager is not None:
        table.add_row("eager", *_cells(measured.eager, dict.fromkeys(predicted)), "-", "-")
    increases = (_percent(increase) for increase in (measured.increase, found.predicted_increase))
    table.add_row("plan", *_cells(measured.plan, predicted), *increases)
    to = console(out)
    print_lines(to, found.report().splitlines())
    print_table(to, table)
    print_lines(to, [equality_text(measured)])


def _predicted(found: Plan) -> dict[str, int | None]:
    """Return the predicted figures that are shown, by the name of the measured ones."""
    predicted: dict[str, int | None] = {
        "allocator_peak": found.predicted_peak,
        "storage_peak": found.predicted_storage_peak,
    }
    if found.traced.gradients == ACCUMULATED:
        predicted["first_peak"] = found.first_peak
    if found.copies:
        predicted["slow_peak"] = found.predicted_slow_peak
    return predicted


def equality_text(measured: SideBySide) -> str:
    """Return a sentence that states whether all results are equal."""
    steps = count_text(measured.steps, "step")
    if measured.equal is None:
        return f"{steps} with the plan; without it there is too little memory, so that nothing is compared"
    if measured.equal:
        return f"equal after {steps}, bit for bit: outputs, gradients, parameters, buffers, the random state"
    others = [name for name in measured.unequal if measured.first is None or name != measured.first.name]
    more = len(others) - _UNEQUAL_SHOWN
    text = f"; also {', '.join(others[:_UNEQUAL_SHOWN])}" if others else ""
    text += f" and {more} more" if more > 0 else ""
    largest = f"the largest difference of all is {measured.largest_difference:.3g}"
    return f"not equal after {steps}: first {measured.first}{text}; {largest}"


def side_by_side_dict(found: Plan, measured: SideBySide) -> JsonObject:
    """All figures, for JSON: memory in bytes, time in seconds, increases of the time as fractions."""
    return {
        "status": found.status,
        "budget": found.budget,
        "nodes": len(found.graph.nodes),
        "gradients": found.traced.gradients,
        "recomputations": found.recomputations,
        "copies": found.copies,
        "least_proven": found.least_proven,
        "predicted_peak": found.predicted_peak,
        "predicted_storage_peak": found.predicted_storage_peak,
        "predicted_first_peak": found.first_peak,
        "predicted_slow_peak": found.predicted_slow_peak,
        "predicted_increase": found.predicted_increase,
        "bound": found.bound,
        **measured.as_dict(),
    }


def _percent(increase: float | None) -> str:
    return "-" if increase is None else f"{100 * increase:+.1f} %"


def _cells(side: Measured, predicted: Mapping[str, int | None]) -> list[str]:
    amounts = [amount for what, forecast in predicted.items() for amount in (getattr(side, what), forecast)]
    return [*("-" if each is None else memory_text(each, "byte") for each in amounts), f"{1000 * side.median:,.2f}"]
