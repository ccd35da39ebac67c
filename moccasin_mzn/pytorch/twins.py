"""A network's step, run from its own state, which is left as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.importers.torch.trace import other_state
from moccasin_mzn.pytorch.accumulating import ACCUMULATED
from moccasin_mzn.pytorch.call import Structure
from moccasin_mzn.pytorch.devices import CPU, forked_random_state, generator_of
from moccasin_mzn.pytorch.joint import BUFFER, TANGENT

if TYPE_CHECKING:
    from moccasin_mzn.pytorch.tracing import Traced


@dataclass(frozen=True, eq=False)
class Twin:
    """A network with leaves of its own in the memory of the true ones: whatever is done to gradients is lost."""

    traced: Traced
    leaves: Mapping[str, Any]
    """Parameters, buffers and inputs by name."""
    arguments: tuple[Any, Any]

    def step(self, call: Callable[..., Any]) -> dict[str, Any]:
        """Forward and backward pass: the outputs by name."""
        import torch

        args, kwargs = self.arguments
        with torch.enable_grad():
            outputs = Structure.of(call(*args, **kwargs))[1]
        chosen = [each for each, has in zip(outputs, self.traced.joint.differentiable, strict=True) if has]
        generators = [torch.Generator(each.device).manual_seed(at) for at, each in enumerate(chosen)]
        pairs = zip(chosen, generators, strict=True)
        torch.autograd.backward(chosen, [torch.empty_like(each).normal_(generator=own) for each, own in pairs])
        return {f"output {at}": output.detach() for at, output in enumerate(outputs)}

    def left(self) -> dict[str, Any]:
        """What a step leaves behind, by name."""
        own = [each for each in self.traced.joint.given.values() if each.kind != TANGENT]
        places = {CPU, *(each.form.device for each in own)}
        return {
            **{f"gradient of {each.name}": self.leaves[each.name].grad for each in own if each.form.requires_grad},
            **{f"buffer {each.name}": self.leaves[each.name] for each in own if each.kind == BUFFER},
            **{f"random state of {place}": generator_of(place).get_state() for place in places},
        }


@contextmanager
def twin_of(traced: Traced, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Twin]:
    """The step's network and inputs, with copies of its buffers, and `.grad` of 0 where gradients are added to that;
    the random state is put back."""
    import torch

    model = traced.step.model

    def own(tensor: Any) -> Any:
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    with other_state(model, own), forked_random_state():
        arguments, tensors = Structure.of_call(inputs, kwargs)
        fresh = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        state = [*dict(model.named_parameters()).values(), *dict(model.named_buffers()).values()]
        names = [each.name for each in traced.joint.given.values() if each.kind != TANGENT]
        leaves = dict(zip(names, [*state, *fresh], strict=True))
        for parameter in model.parameters():
            if traced.gradients == ACCUMULATED and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        yield Twin(traced, leaves, arguments.filled(fresh))
