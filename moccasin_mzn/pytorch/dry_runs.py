"""A training step run as it is, but on tensors without memory: what it allocates, when, for what, and in which module.

The user's own forward pass, autograd's own backward pass and the optimizer's own step run on fake tensors, which live
as long as true ones would, as Python and autograd retain them. What operators allocate is recorded, see `recording`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

from moccasin_mzn.base.clock import nothing
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.torch.paths import Paths
from moccasin_mzn.graphs.importers.torch.spec import line_of, one_line
from moccasin_mzn.graphs.importers.torch.trace import fake_state, quiet, reads_values
from moccasin_mzn.pytorch.call import Form, Step, Structure, misfit, output_names
from moccasin_mzn.pytorch.devices import forked_python_state, forked_random_state, no_autocast
from moccasin_mzn.pytorch.errors import NothingToPlanError, PlanError
from moccasin_mzn.pytorch.joint import Differentiate, differentiated, recurrent_cells
from moccasin_mzn.pytorch.recording import BACKWARD, OPTIMIZER, Called, Recorder

if TYPE_CHECKING:
    import torch
    from torch.utils._pytree import PyTree

    from moccasin_mzn.pytorch.optimizers import Maker


@dataclass(frozen=True, eq=False)
class DryRun:
    """What a step takes."""

    calls: tuple[Called, ...]
    state: int
    """Bytes of the optimizer's state."""
    fixed: Mapping[str, int]
    """Bytes of parameters, buffers and inputs."""
    by_module: Mapping[str, tuple[int, int]]
    """By path of a module, of its own parameters: their bytes, and those of the optimizer's state of them."""
    traced: bool
    """The network reads values that are not there, and took the path that it takes where it is traced."""


def dry_run(
    step: Step, arguments: Structure, tensors: Sequence[torch.Tensor], optimizer: Maker | None, device: str,
    differentiate: Differentiate = None, check: Callable[..., object] = nothing,
) -> DryRun:  # fmt: skip
    """Run a step without memory; the network is left as it was.

    Args:
        tensors: the inputs among the arguments.
        optimizer: makes it; None: there is no step of one.
        device: by whose allocator bytes are counted.
        check: called before each operator, for as long as it may take; what it raises ends that.

    Raises:
        PlanError: the network reads values that are not there, or fails without them; or nothing requires a gradient.
        InputError: the optimizer cannot be run so.
    """
    run = _Run(step, arguments, tensors, optimizer, device, differentiate, check)
    try:
        return run.run(hidden=True)
    except InputError:
        raise
    except Exception as error:
        if not reads_values(error):
            raise _refusal(step, arguments, tensors, error) from error
    try:
        return run.run(hidden=False)
    except InputError:
        raise
    except Exception as error:
        raise _refusal(step, arguments, tensors, error) from error


def _refusal(step: Step, arguments: Structure, tensors: Sequence[torch.Tensor], error: Exception) -> PlanError:
    wrong = misfit(step, *arguments.filled(tensors)) if isinstance(error, TypeError) else None
    if wrong is not None:
        return PlanError(wrong)
    place = line_of(error, step.model)
    text = f"{f'{place}; ' if place else ''}{type(error).__name__}: {one_line(error)}"
    what = "reads values that are not there" if reads_values(error) else "cannot be run on tensors without values"
    return PlanError(f"the network {what}, so what it takes is not known ({text})")


@dataclass
class _Run:
    step: Step
    arguments: Structure
    tensors: Sequence[torch.Tensor]
    optimizer: Maker | None
    device: str
    differentiate: Differentiate
    check: Callable[..., object]

    def run(self, hidden: bool) -> DryRun:
        import torch

        model = self.step.model
        own, buffers = list(model.parameters()), list(model.buffers())
        with (
            quiet(), forked_random_state(), forked_python_state(), _kept(model), torch.enable_grad(), recurrent_cells(),
            torch.backends.mkldnn.flags(enabled=False), fake_state(model, None) as mode, _unseen(hidden),
        ):  # fmt: skip
            recorder = Recorder(mode, self.device)
            with mode:
                inputs = [Form.of(tensor).empty() for tensor in self.tensors]
            for fake, real in [*zip(inputs, self.tensors, strict=True), *zip(model.buffers(), buffers, strict=True)]:
                recorder.know(fake, real)
            with mode, recorder.recording(self.check):
                return self._recorded(recorder, inputs, dict(zip(own, model.parameters(), strict=True)), not hidden)

    def _recorded(
        self, recorder: Recorder, inputs: list[torch.Tensor], fakes: Mapping[torch.nn.Parameter, torch.nn.Parameter],
        traced: bool,
    ) -> DryRun:  # fmt: skip
        model, parameters = self.step.model, list(fakes.values())
        fixed = {
            "parameters": recorder.bytes_of(parameters), "buffers": recorder.bytes_of(model.buffers()),
            "inputs": recorder.bytes_of(inputs),
        }  # fmt: skip
        paths = Paths(model, recorder.mark)
        with paths.forward():
            args, kwargs = self.arguments.filled(inputs)
            returned = self.step(*args, **kwargs)
        outputs = Structure.of(returned)[1]
        recorder.enter(BACKWARD)
        self._backward(returned, outputs, paths)
        grads = [each.grad for each in (*parameters, *inputs) if each.is_leaf and each.grad is not None]
        recorder.are_gradients(grads)
        made = self._optimized(recorder, fakes)
        return DryRun(
            tuple(recorder.calls), recorder.bytes_of(_state_of(made)), fixed,
            _by_module(model, made, recorder), traced,
        )  # fmt: skip

    def _backward(self, returned: PyTree, outputs: Sequence[torch.Tensor], paths: Paths) -> None:
        """As a loop calls it: of a number, or with a gradient for each output that has one."""
        import torch

        if not any(output.requires_grad for output in outputs):
            raise NothingToPlanError(
                "no output depends on what requires a gradient: there is no backward pass to estimate"
            )
        chosen = differentiated(outputs, output_names(returned), self.differentiate)
        sources = [output for output, has in zip(outputs, chosen, strict=True) if has]
        tangents = [None if each.numel() == 1 else torch.empty_like(each) for each in sources]
        with paths.backward(sources[0]), no_autocast():
            torch.autograd.backward(sources, tangents)

    def _optimized(
        self, recorder: Recorder, fakes: Mapping[torch.nn.Parameter, torch.nn.Parameter]
    ) -> torch.optim.Optimizer | None:
        """Two steps: the first makes the state; the second, which is noted, is like all later ones."""
        if self.optimizer is None:
            return None
        recorder.enter(None)
        try:
            made = self.optimizer(fakes)
            made.step()
            recorder.enter(OPTIMIZER)
            made.step()
        except InputError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {one_line(error)}"
            raise InputError(
                f"the optimizer cannot be run on tensors without values, so what it takes is not known ({text}): "
                "estimate with optimizer=None, and add its state"
            ) from error
        return made


def _state_of(optimizer: torch.optim.Optimizer | None) -> list[torch.Tensor]:
    import torch
    from torch.utils._pytree import tree_leaves

    state = {} if optimizer is None else dict(optimizer.state)
    return [leaf for leaf in tree_leaves(list(state.values())) if isinstance(leaf, torch.Tensor)]


def _by_module(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, recorder: Recorder
) -> dict[str, tuple[int, int]]:
    import torch
    from torch.utils._pytree import tree_leaves

    found, seen = dict[str, tuple[int, int]](), set[int]()
    for path, module in model.named_modules():
        own = [each for each in module._parameters.values() if each is not None and id(each) not in seen]
        seen.update(map(id, own))
        state = [] if optimizer is None else tree_leaves([optimizer.state.get(each, {}) for each in own])
        kept = [leaf for leaf in state if isinstance(leaf, torch.Tensor)]
        if own:
            found[path] = recorder.bytes_of(own), recorder.bytes_of(kept)
    return found


@contextlib.contextmanager
def _kept(model: torch.nn.Module) -> Iterator[None]:
    """Put back what modules keep in attributes."""
    before = [(module, dict(module.__dict__)) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes in before:
            module.__dict__.clear()
            module.__dict__.update(attributes)


@contextlib.contextmanager
def _unseen(hidden: bool) -> Iterator[None]:
    """Libraries that look whether a tensor is fake, to take another path then, find that it is not."""
    import torch

    class NoTensor:
        """Nothing is one."""

    with mock.patch.object(torch._subclasses, "FakeTensor", NoTensor) if hidden else contextlib.nullcontext():
        yield
